"""A worker: one run of one process, whose id is never reused.

It presents itself to the store with each beat. It also keeps a note there about its process, and
operators leave orders for it in the same way.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, json

from mulligan.core.errors import UNREADABLE
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

    @property
    def runs_jobs(self) -> bool:
        """Whether it is alive and takes jobs; one without queues, as of a server, does chores."""
        return self.live and bool(self.worker.queues)


ABOUT, ORDER = "worker:", "order:"
# How often a worker renews what it tells and looks for an order, and how long either is kept.
LOOK_EVERY = 5.0
KEEP_ABOUT = 60.0
KEEP_ORDER = 300.0

# Drain: start nothing more, and exit when what runs has ended. Stop: exit at once.
Order = Literal["drain", "stop"]


class WorkerAbout(Struct, frozen=True):
    """A worker's process: where it runs, what it runs, and the bytes of memory that it uses."""

    host: str
    pid: int
    app: str
    python: str
    mulligan: str
    memory: int | None = None


def read_about(notes: Mapping[str, bytes]) -> dict[str, WorkerAbout]:
    """What workers tell of themselves, by their ids, without notes that cannot be read."""
    found = {}
    for key, written in notes.items():
        try:
            found[key.removeprefix(ABOUT)] = _decode_about(written)
        except UNREADABLE:
            continue
    return found


def read_order(notes: Mapping[str, bytes], worker: str) -> Order | None:
    """The order for this worker; None if there is none, or none that this version knows."""
    try:
        order: Order = _decode_order(notes[ORDER + worker])
    except (KeyError, *UNREADABLE):
        return None
    return order


encode_note = json.encode
_decode_about = json.Decoder(WorkerAbout).decode
_decode_order = json.Decoder(Order).decode
