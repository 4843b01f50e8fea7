"""What an application is made of."""

from mulligan.app.arguments import Parameter
from mulligan.app.chain import Chain, each
from mulligan.app.gather import PreparedGather
from mulligan.app.gather_handle import GatherHandle
from mulligan.app.handle import JobHandle
from mulligan.app.mulligan import Mulligan
from mulligan.app.partial import Partial, WithoutResult
from mulligan.app.stages import ChainHandle
from mulligan.app.task import Task
from mulligan.app.using import Prepared, Using

__all__ = [
    "Chain",
    "ChainHandle",
    "GatherHandle",
    "JobHandle",
    "Mulligan",
    "Parameter",
    "Partial",
    "Prepared",
    "PreparedGather",
    "Task",
    "Using",
    "WithoutResult",
    "each",
]
