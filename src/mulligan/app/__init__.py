"""The public API: an app, its tasks, its jobs."""

from mulligan.app.handle import JobHandle
from mulligan.app.mulligan import Mulligan
from mulligan.app.task import Prepared, Task

__all__ = ["JobHandle", "Mulligan", "Prepared", "Task"]
