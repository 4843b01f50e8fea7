"""What every store promises. One suite of tests holds all of them to it.

Each operation is atomic: it happens as a whole or not at all, whatever is killed meanwhile.
Sending an operation again after a lost reply is safe. Times are the store's own; what crosses
this line is durations.

The contract is split by who calls it: producers, workers, readers and operators.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from mulligan.core.answers import Beat, Claimed
from mulligan.core.counts import Count, Counts
from mulligan.core.facts import Facts, QueueSettings
from mulligan.core.finding import Finding
from mulligan.core.health import Breaker, Health
from mulligan.core.job import Adopted, Attempt, Claim, Enqueued, Job, Lease, NewJob, Status
from mulligan.core.lane import Lane
from mulligan.core.limits import KeyView, Limit, LimitView
from mulligan.core.outcome import Done, Outcome, Verdict
from mulligan.core.page import LOOKS, Page, Selection
from mulligan.core.plan import ClaimPlan
from mulligan.core.record import Record, Recording, RecordVerdict
from mulligan.core.reschedule import Reschedule
from mulligan.core.stats import Stats
from mulligan.core.worker import Worker
from mulligan.stores.watches import Tell, Watch


class OpenStore(Protocol):
    """What everybody calls."""

    url: str

    async def open(self, *, read_only: bool = False) -> None:
        """Connect and bring the schema up to date; safe to call from many processes at once.

        Who only reads is `read_only`: nothing is created or changed, neither by this nor by any
        reading operation, and a user who may only read is enough. A schema that is not up to date
        is refused then.
        """

    async def close(self) -> None:
        """Let go of connections, threads and files. Nothing that was written depends on it."""


class ProducerStore(Protocol):
    """What producers call."""

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Accept every job or none, each answered with its id or that of the job before it.

        A job is there before it if it has the same id, or holds the same unique key in the same
        queue (`key_queue`), as `core/unique.py` says. One that awaits others stands in no lane yet.

        A debounced job, and the one before it that holds its key and is debounced too: that takes
        over its task and body, and joins its lane anew, due after the delay or when it said at the
        latest, at its `debounce_until`. If a limit holds it up, it keeps its position.

        Its token begins at `first_token` of a sequence that the store has never given before and
        will never give again, whatever is purged or restarted: a lease on an earlier job of its id
        holds nothing.
        """

    async def enqueue_all(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Accept any number of jobs, in batches: each as `enqueue` would, and in their order.

        When this is answered, all of them are as safe as `enqueue` makes them. Until then nothing
        is promised, so that a store need wait for its disk only once. If it fails, or the store
        crashes meanwhile, the first batches may be stored, and none without those before it.
        """


class WorkerStore(Protocol):
    """What workers call: claims, commits, beats, and the chores that they share."""

    async def claim(self, plan: ClaimPlan, worker: Worker) -> Claimed:
        """Walk the plan and hand its jobs to the worker, each with a new, higher token.

        A job that has expired and was `never_started` is cancelled instead; who awaits it is told
        when the walk is over.
        Limits are charged in the same step; a permit is freed when its job is committed or
        reclaimed. A worker that got less than it asked for is remembered as waiting, until its
        next claim: the next thing that may matter to this plan ends its `wait`. One waiting
        worker is woken for a job, of those that may take it soonest; which of these, where there
        are several, each store decides. When it leaves or fills up instead, another is woken.

        What a worker may take depends on its plan and the time alone, and for a source that
        yields on who sleeps: never on who was woken. Of two that may, the first to claim has it.

        A worker lives for a lease time after each beat, and after a claim or a `reclaim` that finds
        it dead. It waits, and others yield to it, only while it lives. One that is back before a
        `reclaim` of another forgot it waits on as before, even if its new plan is refused as stale.
        """

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        """Write each outcome whose lease is still held, and say what became of each.

        A stale outcome changes nothing and does not hold up the others. Sending the same
        outcome twice is safe: the second is answered as already written. They are written in
        their order: each, and its next jobs, find what those before it left.

        When a job with a gather is done, it arrives there in the same step, at its index and with
        its result, if the gathering job is stored and still awaits it. The last to arrive lets that
        job join its lane, due at once; whoever comes after it, in the same batch or later, does not
        arrive. Where the gathering job has `return_exceptions`, a member that failed for good or
        was cancelled arrives as well, as a failure; elsewhere a failure is only noted, and its
        member still awaited. One that `hands_on` does not arrive: one of its next jobs has the same
        gather, and will. `members_failed` and `members_cancelled` are counted in the same step.
        """

    async def record(self, recordings: Sequence[Recording]) -> list[RecordVerdict]:
        """Keep what attempts say about their jobs while their leases are held; all of each or none.

        A stale recording changes nothing and does not hold up the others. Of a step the first
        record stays; of progress and checkpoints the newest, and of log lines the newest 200. An
        attempt sends its records in the order of their numbers, and one that is sent again is
        answered as recorded. They stay with the job through retries and replays, and go with it.
        """

    async def beat(self, worker: Worker, holding: Sequence[Lease]) -> Beat:
        """Keep all leases of the worker for another lease time; `holding` is all it knows of.

        Each beat names that time anew: a worker asks for more while the store is slow.
        """

    async def leave(self, worker: Worker) -> None:
        """Forget a worker that stopped on purpose; what it still holds may be reclaimed at once."""

    async def reclaim(self, limit: int, worker: Worker) -> list[Claim]:
        """Claim jobs whose worker stopped beating or is unknown, with a new token.

        The reclaiming worker holds them until it commits what losing the attempt means. What a
        dead worker was woken for, another is woken for now.
        """

    async def promote(self, limit: int) -> int:
        """Housekeeping: move what fell due, end what expired. Claims are right without it.

        What expired first ends first; of those that expired at the same time, what came first.
        """

    async def prune(self, keep_done: float, limit: int) -> int:
        """Delete done and cancelled jobs that ended longer ago than they are kept.

        That is a job's own `keep`, or for one that has none, `keep_done` seconds.
        And whatever else is past its time: arrivals of deleted jobs, notes, old counts.
        """

    async def wait(self, worker: Worker, seconds: float) -> None:
        """Sleep until something may matter to the worker's last plan, or the time is up."""

    async def count(self, counts: Sequence[Count]) -> dict[tuple[str, str], Health]:
        """Add to what is counted; returns the health of the queues and regions named.

        The one operation that is not safe to send twice: who gets no answer lets it be.
        """

    async def switch(self, queue: str, region: str, before: Breaker, after: Breaker) -> bool:
        """Replace a breaker if it is still as it was; False, and nothing done, if not.

        When it opens or closes, the store stamps `since`. Where the change `changes_plans`, those
        made before are refused.
        """

    async def note(self, key: str, value: bytes | None, keep: float) -> None:
        """Keep a value under this key for so many seconds; None forgets it."""

    async def reschedule(self, change: Reschedule) -> bool:
        """Replace the record of a schedule, withdraw a tick and place others, as one step.

        False, and nothing done, if the record is no longer the one that the change is about; True,
        and nothing done, if it is already as after the change. What is withdrawn is deleted if it
        is pending and has never started; what is placed is enqueued after that. An edit, which
        operators make, wakes all sleepers to news of it: plans made before are refused.
        """


class ReaderStore(Protocol):
    """What everybody calls who looks. None of these writes anything."""

    async def facts(self) -> Facts:
        """What plans are made from."""

    async def counts(self) -> Counts:
        """All that was counted."""

    async def notes(self, prefix: str) -> dict[str, bytes]:
        """The values kept under keys that begin so."""

    async def schedules(self) -> dict[str, bytes]:
        """The records of all schedules, by name."""

    async def get(self, job: str) -> Job | None:
        """The job as it is now."""

    async def statuses(self, jobs: Sequence[str]) -> dict[str, Status]:
        """The statuses of at most a batch of jobs, by id, without those that are not stored."""

    async def watch(self, job: str, tell: Tell) -> Watch:
        """Have `tell` called when the job may have ended, from any thread, until it is closed.

        It is called soon after the job is done, failed or cancelled, however that came about. It
        may be called too early, more than once, and not at all if a wake-up is lost: who waits
        looks from time to time too, and once after this was answered, as what ended before is not
        told. Where the store cannot tell, or may not, the watch says so. Callers of one store share
        what it takes to be told, and a store of which nobody waits spends nothing on it.
        """

    async def arrivals(self, job: str) -> dict[int, bytes | None]:
        """What has arrived at a gathering job, by index, in their order.

        Failures are as `core/gather.py` writes them; one that is only noted is at -1 - index.
        """

    async def records(self, job: str, most: int | None = None) -> list[Record]:
        """What the job has recorded, oldest first.

        Steps and checkpoints of more than `most` bytes have no value. Log lines and progress are
        always complete.
        """

    async def history(self, job: str) -> list[Attempt]:
        """Its failed and lost attempts, the newest 50, oldest first, across replays."""

    async def page(
        self,
        selection: Selection,
        limit: int,
        after: str | None = None,
        *,
        bodies: bool = True,
        looks: int = LOOKS,
    ) -> Page:
        """Jobs that match, newest first as far as the store keeps an order.

        Without `bodies` each has an empty one and no result, and neither is sent by the store. A
        text is sought in no more than about `looks` jobs that match otherwise: the page may have
        fewer than `limit` then, or none, and others after it. Refuses an `after` that no page has
        given.
        """

    async def stats(self) -> Stats:
        """Counts of everything, at one instant."""

    async def limits(self, most: int) -> list[LimitView]:
        """The limits that are stored or in use, in order of names, so many at most."""

    async def keys(self, queue: str, most: int) -> list[KeyView]:
        """The fairness keys of the queue that have jobs waiting; those with most jobs first."""

    async def depth(self, lane: Lane, limit: int) -> int:
        """How many jobs of the lane could start now, counted up to `limit`."""

    async def ahead(self, job: str) -> int:
        """How many jobs stand before this one in its lane; refuses an unknown one.

        Before one that stands in none, because it awaits others, runs or has ended, stands nobody.
        """

    async def tail(self, lane: Lane, due: float) -> str | None:
        """The last job waiting in the lane of those that were due by then; None if there is none.

        A store may look at no more than the newest 1,000 of them.
        """

    async def doctor(self) -> list[Finding]:
        """What an operator should know of the store itself: version, rights, durability."""


class OperatorStore(Protocol):
    """What operators call, to change jobs and queues."""

    async def configure(self, queue: str, settings: QueueSettings) -> None:
        """Store the settings of a queue; plans made from older ones are refused from now on."""

    async def pause(self, queue: str, *, paused: bool) -> None:
        """Stop or resume claims from a queue. Running jobs go on."""

    async def set_limit(self, name: str, limit: Limit | None, *, declared: bool) -> None:
        """Store a limit as an app declares it, or as an operator sets it, which wins; None: none.

        A name that ends in `*` is a limit for each name that begins so; the longest match holds.
        Who waits for more room than there was is looked at in the same step. A lower limit takes
        nothing back.
        """

    async def pause_limit(self, name: str, seconds: float, *, at_least: bool = False) -> None:
        """Let nobody of the limit start for so long, from now; 0 ends a pause.

        With `at_least` a longer pause stays, as it does where an outcome pauses a limit.
        """

    async def spend(self, name: str, cost: int) -> None:
        """Charge a limit now, room or not, as an attempt does that says what it has spent."""

    async def replay(self, jobs: Sequence[str], *, from_start: bool = False) -> list[bool]:
        """Make failed jobs pending again, retry_count 0, history kept; False where not failed.

        They keep what they have recorded, unless they begin `from_start`: then only the log stays.

        False also where another job holds its unique key; a debounced one does not want its own
        back. What has arrived of it where it is still awaited is withdrawn.
        """

    async def cancel(self, jobs: Sequence[str], reason: str) -> list[bool]:
        """End pending and running jobs; the lease of a running one becomes stale.

        A job that can no longer arrive, because it was cancelled, expired or purged, cancels the
        one that awaits its result, and so on upwards; where failures are awaited it arrives as one.

        What ends frees its permits, so that the first line that waits for each may go on.
        """

    async def adopt(self, jobs: Sequence[Adopted]) -> list[bool]:
        """Take over unfinished and failed jobs of another store as they stand, with history.

        A running one is pending here, in the lane it was taken from. False where the id, or
        the unique key of a job that has not ended, is already stored; a debounced one is taken over
        without its key then. Each gets a new sequence
        and its `adopted_token`; no lease of the other store holds here.
        """

    async def purge(self, jobs: Sequence[str]) -> list[bool]:
        """Delete jobs that have ended, with their history; False where not ended."""


class Store(OpenStore, ProducerStore, WorkerStore, ReaderStore, OperatorStore, Protocol):
    """One contract, five engines, alone or several as shards."""


class EnqueuesInTransaction(Protocol):
    """What a store can do whose tables a user's own transaction reaches."""

    async def identity(self) -> str:
        """What tells the database of this store, which is open, from all others."""

    def enqueue_in(
        self,
        connection: Any,
        jobs: Sequence[NewJob],
        identity: Callable[[], str] | None = None,
    ) -> list[Enqueued]:
        """As `enqueue`, on the user's connection, as part of whatever transaction that is in.

        The jobs exist if and when it commits; sleepers are woken then. The store need not be open.
        `identity`, of an open store, is asked where the connection may lead elsewhere: one to
        another database is refused. Settings of the connection stay as they are, and errors of its
        driver are raised as they are.
        """

    async def aenqueue_in(
        self,
        connection: Any,
        jobs: Sequence[NewJob],
        identity: Callable[[], Awaitable[str]] | None = None,
    ) -> list[Enqueued]:
        """As `enqueue_in`, on an asynchronous connection."""


class NotDoneError(Exception):
    """Nothing was done, for a reason that the store itself can deal with, or tell."""


class BlockingProducer(Protocol):
    """Enqueues for plain code, over a connection of its own on which the caller itself waits."""

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """As that of the store, but it never suspends. Raises NotDoneError too."""

    def close(self) -> None:
        """Let go of the connection; the next job makes a new one."""


class HasBlockingProducer(Protocol):
    """What a store can do that is reached over a network."""

    def producer(self) -> BlockingProducer | None:
        """A producer for plain code, of a store that is open; None if there can be none."""


class EnqueuesHere(Protocol):
    """What a store can do that is embedded in the process."""

    def enqueue_here(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """As `enqueue`, done by the caller itself, without a coroutine or an event loop."""


class HasShards(Protocol):
    """What a store can do that is spread over several."""

    async def shard_of(self, job: str) -> int | None:
        """The number of the shard in which the job is; None if it is in none."""

    def absent(self) -> list[str]:
        """A sentence for each shard that is away, as far as is known."""


class CommitsInTransaction(Protocol):
    """What a store can do that lends a connection to the user's work."""

    async def commit_within(self, outcome: Done, work: Callable[[Any], Any]) -> Verdict:
        """Have the work done on a connection, and write the outcome, in one transaction.

        If the work raises, or the lease is no longer held, nothing of either is written.
        """
