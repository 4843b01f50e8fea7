"""What every store promises. One suite of tests holds all of them to it.

Each operation is atomic: it happens as a whole or not at all, whatever is killed meanwhile.
Sending an operation again after a lost reply is safe. Times are the store's own; what crosses
this line is durations.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from mulligan.core.errors import InvalidError
from mulligan.core.facts import Facts, QueueSettings
from mulligan.core.job import Attempt, Claim, Enqueued, Job, Lease, NewJob, Status
from mulligan.core.lane import Lane
from mulligan.core.outcome import Outcome
from mulligan.core.plan import ClaimPlan
from mulligan.core.worker import Worker, WorkerView

Verdict = Literal["written", "already", "stale"]


class Claimed(Struct, frozen=True):
    """What a claim gave.

    `left` says for each group of the plan whether a job of it could still start now. `again_in`
    is how long until the plan could yield more by itself, None if it could not. When `stale` is
    set nothing was claimed: the plan was made from facts older than the store's.
    """

    claims: list[Claim]
    left: tuple[bool, ...] = ()
    again_in: float | None = None
    stale: bool = False


class Beat(Struct, frozen=True):
    """The answer to a heartbeat: what the worker should know.

    `lost` are leases it showed and no longer holds. `forgotten` are leases it holds and did not
    show, for longer than a lease time: the reply to their claim never reached it.
    """

    lost: list[Lease]
    facts: Facts
    forgotten: list[Lease] = []


class LaneStats(Struct, frozen=True):
    """A lane that is not empty: jobs that could start now, jobs still to fall due."""

    lane: Lane
    ready: int
    delayed: int
    oldest_due: float


class DelayedStats(Struct, frozen=True):
    """The delayed set of a queue: all that was put off and has not started since.

    `ready_in_hour` counts `ready_now` too.
    """

    total: int = 0
    ready_now: int = 0
    ready_in_hour: int = 0


class Stats(Struct, frozen=True):
    """A store at one instant. Only lanes, queues and regions with something in them appear."""

    now: float
    lanes: list[LaneStats]
    running: dict[tuple[str, str], int]
    ended: dict[tuple[str, Status], int]
    delayed: dict[str, DelayedStats]
    workers: list[WorkerView]


class Selection(Struct, frozen=True):
    """Which jobs to list: every field that is given must match; `text` is sought in failures."""

    status: Status | None = None
    queue: str | None = None
    region: str | None = None
    task: str | None = None
    text: str | None = None


class Page(Struct, frozen=True):
    """Jobs, and an opaque word for where the next page begins; None after the last."""

    jobs: list[Job]
    after: str | None


def place_after(cursor: str) -> int:
    """The place at which a page ended, for stores whose cursors are numbers."""
    if not (cursor.isascii() and cursor.isdecimal()):
        raise InvalidError(f"after {cursor!r} is not where a page ended; leave it out")
    return int(cursor)


class Store(Protocol):
    """One contract, five engines."""

    url: str

    async def open(self) -> None:
        """Connect and bring the schema up to date; safe to call from many processes at once."""

    async def close(self) -> None:
        """Let go of connections, threads and files. Nothing that was written depends on it."""

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Accept every job or none, each answered with its id or that of the job before it.

        A job is there before it if it has the same id, or the same unique key in the same queue
        and has not ended.
        """

    async def claim(self, plan: ClaimPlan, worker: Worker) -> Claimed:
        """Walk the plan and hand its jobs to the worker, each with a new, higher token.

        Gates are charged in the same step; a permit is freed when its job is committed or
        seized. A worker that got less than it asked for is remembered as waiting, until its
        next claim: the next thing that may matter to this plan ends its `wait`. One waiting
        worker is woken for a job; when it leaves or fills up instead, another is.
        """

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        """Write each outcome whose lease is still held, and say what became of each.

        A stale outcome changes nothing and does not hold up the others. Sending the same
        outcome twice is safe: the second is answered as already written.
        """

    async def beat(self, worker: Worker, holding: Sequence[Lease]) -> Beat:
        """Keep all leases of the worker for another lease time; `holding` is all it knows of."""

    async def leave(self, worker: Worker) -> None:
        """Forget a worker that stopped on purpose; what it still holds may be seized at once."""

    async def seize(self, limit: int, worker: Worker) -> list[Claim]:
        """Claim jobs whose worker stopped beating or is unknown, with a new token.

        The seizing worker holds them until it commits what losing the attempt means. What a
        dead worker was woken for, another is woken for now.
        """

    async def promote(self, limit: int) -> int:
        """Housekeeping: move what fell due, end what expired. Claims are right without it."""

    async def prune(self, keep_done: float, limit: int) -> int:
        """Delete done and cancelled jobs that ended longer ago than `keep_done` seconds."""

    async def wait(self, worker: Worker, seconds: float) -> None:
        """Sleep until something may matter to the worker's last plan, or the time is up."""

    async def facts(self) -> Facts:
        """What plans are made from."""

    async def configure(self, queue: str, settings: QueueSettings) -> None:
        """Store the settings of a queue; plans made from older ones are refused from now on."""

    async def pause(self, queue: str, *, paused: bool) -> None:
        """Stop or resume claims from a queue. Running jobs go on."""

    async def get(self, job: str) -> Job | None:
        """The job as it is now."""

    async def history(self, job: str) -> list[Attempt]:
        """Its failed and lost attempts, the newest 50, oldest first, across replays."""

    async def page(self, selection: Selection, limit: int, after: str | None = None) -> Page:
        """Jobs that match, newest first as far as the store keeps an order.

        Refuses an `after` that no page has given.
        """

    async def stats(self) -> Stats:
        """Counts of everything, at one instant."""

    async def depth(self, lane: Lane, limit: int) -> int:
        """How many jobs of the lane could start now, counted up to `limit`."""

    async def ahead(self, job: str) -> int:
        """How many jobs stand before this one in its lane; refuses an unknown one."""

    async def replay(self, jobs: Sequence[str]) -> list[bool]:
        """Make failed jobs pending again, retry_count 0, history kept; False where not failed."""

    async def cancel(self, jobs: Sequence[str], reason: str) -> list[bool]:
        """End pending and running jobs; the lease of a running one becomes stale."""

    async def adopt(self, jobs: Sequence[tuple[Job, Sequence[Attempt]]]) -> list[bool]:
        """Take over unfinished and failed jobs of another store as they stand, with history.

        A running one is pending here, at the place it was taken from. False where the id, or
        the unique key of a job that has not ended, is already stored.
        """

    async def purge(self, jobs: Sequence[str]) -> list[bool]:
        """Delete jobs that have ended, with their history; False where not ended."""
