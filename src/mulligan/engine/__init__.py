"""The engine: one asyncio loop per worker process that makes decisions happen.

Only what a running job may ask for is imported here: a program that only enqueues needs no more.
"""

from mulligan.engine.current import CurrentCall, CurrentJob, current_job

__all__ = ["CurrentCall", "CurrentJob", "current_job"]
