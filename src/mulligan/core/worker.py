"""A worker: one run of one process, whose id is never reused."""

from msgspec import Struct

from mulligan.core.fetch import Only

# The region of a worker that was given none.
DEFAULT_REGION = "default"


class Worker(Struct, frozen=True):
    """A worker as it presents itself to a store; the id is new at every start."""

    id: str
    region: str = DEFAULT_REGION
    queues: tuple[str, ...] = ("default",)
    lease: float = 15.0
    concurrency: int = 1
    only: Only | None = None
    name: str = ""


class WorkerView(Struct, frozen=True):
    """A worker as a reader sees it; it is live while its lease has not run out."""

    worker: Worker
    beat_at: float
    joined_at: float
    live: bool
    running: int
