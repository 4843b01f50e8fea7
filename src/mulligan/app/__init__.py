"""What an application is made of."""

from mulligan.app.chain import Chain, each
from mulligan.app.handle import JobHandle
from mulligan.app.mulligan import Mulligan
from mulligan.app.stages import ChainHandle
from mulligan.app.task import Prepared, Task

__all__ = ["Chain", "ChainHandle", "JobHandle", "Mulligan", "Prepared", "Task", "each"]
