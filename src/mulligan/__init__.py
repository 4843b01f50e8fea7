"""mulligan: a job queue in which retries are first-class.

    from mulligan import Mulligan, Retry, Exponential

    app = Mulligan("sqlite:///jobs.db")

    @app.task(retry=Retry(max_retries=3, backoff=Exponential(2, max=60)))
    async def ask(question: str) -> dict: ...

    job = ask.enqueue("What is a mulligan?")

and then, in a shell: `mulligan worker module:app`.
"""

import logging

from mulligan.app import (
    Chain,
    ChainHandle,
    GatherHandle,
    JobHandle,
    Mulligan,
    Parameter,
    Partial,
    Prepared,
    PreparedGather,
    Task,
    Using,
    WithoutResult,
    each,
)
from mulligan.app.resources import INJECTED, Resource
from mulligan.app.steps import astep, step
from mulligan.core.budget import Budget
from mulligan.core.errors import (
    InvalidError,
    JobCancelledError,
    JobFailedError,
    MulliganError,
    ResultTimeoutError,
    StoreError,
    StoreUnavailableError,
    UnknownJobError,
    UnknownLimitError,
    UnknownScheduleError,
)
from mulligan.core.event import JobEvent
from mulligan.core.fetch import Balanced, Capped, Fifo, RetryFirst, Separate, Weighted
from mulligan.core.gather import Failure, Progress
from mulligan.core.job import Attempt, Job
from mulligan.core.retry import Adaptive, Delays, Exponential, Retry, Sessions
from mulligan.core.settings import Settings
from mulligan.core.signals import Fail, LeaseLost, RetryAfter, Snooze, SoftTimeout
from mulligan.engine import CurrentCall, CurrentJob, current_job

__version__ = "0.1.0"

logging.getLogger("mulligan").addHandler(logging.NullHandler())

__all__ = [
    "INJECTED",
    "Adaptive",
    "Attempt",
    "Balanced",
    "Budget",
    "Capped",
    "Chain",
    "ChainHandle",
    "CurrentCall",
    "CurrentJob",
    "Delays",
    "Exponential",
    "Fail",
    "Failure",
    "Fifo",
    "GatherHandle",
    "InvalidError",
    "Job",
    "JobCancelledError",
    "JobEvent",
    "JobFailedError",
    "JobHandle",
    "LeaseLost",
    "Mulligan",
    "MulliganError",
    "Parameter",
    "Partial",
    "Prepared",
    "PreparedGather",
    "Progress",
    "Resource",
    "ResultTimeoutError",
    "Retry",
    "RetryAfter",
    "RetryFirst",
    "Separate",
    "Sessions",
    "Settings",
    "Snooze",
    "SoftTimeout",
    "StoreError",
    "StoreUnavailableError",
    "Task",
    "UnknownJobError",
    "UnknownLimitError",
    "UnknownScheduleError",
    "Using",
    "Weighted",
    "WithoutResult",
    "astep",
    "current_job",
    "each",
    "step",
]
