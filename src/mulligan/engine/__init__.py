"""The engine: one asyncio loop per worker process that makes decisions happen.

Its modules are imported when they are first used: a program that only enqueues needs none of them.
"""

from typing import TYPE_CHECKING, Any

from mulligan.engine.current import CurrentCall, CurrentJob, current_job

if TYPE_CHECKING:
    from mulligan.engine.task_caller import Target
    from mulligan.engine.worker import Engine

__all__ = ["CurrentCall", "CurrentJob", "Engine", "Target", "current_job"]


def __getattr__(name: str) -> Any:
    if name == "Engine":
        from mulligan.engine.worker import Engine  # noqa: PLC0415

        return Engine
    if name == "Target":
        from mulligan.engine.task_caller import Target  # noqa: PLC0415

        return Target
    raise AttributeError(name)
