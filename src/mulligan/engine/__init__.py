"""The engine: one asyncio loop per worker process that makes decisions happen."""

from mulligan.engine.current import CurrentJob, current_job
from mulligan.engine.executor import Target
from mulligan.engine.worker import Engine

__all__ = ["CurrentJob", "Engine", "Target", "current_job"]
