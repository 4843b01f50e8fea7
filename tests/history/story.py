"""Small histories, made by hand."""

from typing import Any, Self

from msgspec.structs import replace

from mulligan.core.counts import Count
from mulligan.core.facts import QueueSettings
from mulligan.core.health import Breaker
from mulligan.core.job import Enqueued, Lease
from mulligan.core.lane import Lane, Priority
from mulligan.core.worker import Worker
from tests.history import AnyEvent, check
from tests.history import events as told
from tests.history.events import Ending, Kept, New, Taken

FRESH = Lane("default", "default", Priority.NORMAL)
RETRY = Lane("default", "*", Priority.RETRY)


class Story:
    """Events in the order in which they are told, a second apart unless it is said."""

    def __init__(self) -> None:
        self.events: list[AnyEvent] = []
        self.now = 0.0

    def broken(self, **options: Any) -> set[str]:
        """The names of the invariants that do not hold."""
        return {violation.invariant for violation in check(self.timed(), **options)}

    def timed(self) -> list[AnyEvent]:
        """The events; what was claimed was due after its delay and started at once, if not said."""
        due: dict[str, float] = {}
        return [timed(event, due) for event in self.events]

    def tell(self, event: Any, *, lost: bool = False) -> Self:
        """The next event; without an answer if that was lost."""
        self.now += 1
        event.process, event.number = "p", len(self.events) + 1
        event.began = self.now
        event.ended = None if lost else self.now
        self.events.append(event)
        return self

    def wait(self, seconds: float) -> Self:
        """Nothing happens for so long."""
        self.now += seconds
        return self

    def enqueue(
        self,
        job: str,
        *,
        first: str | None = None,
        lost: bool = False,
        lane: Lane = FRESH,
        **fields: Any,
    ) -> Self:
        """A job is accepted into this lane, or there before."""
        answers = None if lost else [Enqueued(first or job, created=first is None)]
        usual: dict[str, Any] = {"max_retries": 5, "region": lane.scope, "priority": lane.priority}
        new = New(job, **(usual | fields))
        return self.tell(told.Enqueue(jobs=[new], answers=answers), lost=lost)

    def claim(
        self,
        *jobs: Taken,
        demand: int = 1,
        worker: str | Worker = "w",
        left: Any = (),
        emptied: Any = (),
    ) -> Self:
        """A worker claims jobs."""
        who = worker if isinstance(worker, Worker) else Worker(worker)
        event = told.Claim(worker=who, demand=demand, taken=list(jobs), left=list(left))
        event.emptied = list(emptied)
        return self.tell(event)

    def claim_lost(self, worker: str = "w") -> Self:
        """A worker claims, and nobody hears what it got."""
        return self.tell(told.Claim(worker=Worker(worker), demand=1), lost=True)

    def reclaim(self, *jobs: Taken, worker: str = "reaper") -> Self:
        """A reaper takes over jobs."""
        return self.tell(told.Reclaim(worker=Worker(worker), taken=list(jobs)))

    def commit(self, job: str, token: int, how: Any, verdict: str = "written", **of: Any) -> Self:
        """An outcome is sent, and answered so."""
        lost = verdict == "lost"
        verdicts: Any = None if lost else [verdict]
        ending = Ending(job, token, how, **of)
        return self.tell(told.Commit(endings=[ending], verdicts=verdicts), lost=lost)

    def again(self, job: str, token: int, verdict: str = "written", **of: Any) -> Self:
        """An attempt failed, and is to be made again."""
        said: dict[str, Any] = {"lane": RETRY, "number": 1, "type": "E", "message": "no"}
        return self.commit(job, token, "again", verdict, **(said | of))

    def beat(
        self,
        worker: str | Worker,
        *holding: Lease,
        lost: Any = (),
        lasting: float = Worker("").lease,
    ) -> Self:
        """A worker shows what it holds."""
        who = worker if isinstance(worker, Worker) else Worker(worker, lease=lasting)
        return self.tell(told.Beat(worker=who, holding=list(holding), lost=list(lost)))

    def operate(self, what: Any, job: str, *, done: bool | None = True) -> Self:
        """An operator does something to a job."""
        answers = None if done is None else [done]
        event = told.Operate(what=what, jobs=[job], answers=answers)
        return self.tell(event, lost=done is None)

    def attempt(self, job: str, token: int, said: Any) -> Self:
        """A task tells of itself."""
        return self.tell(told.Attempt(job=job, token=token, said=said))

    def pause(self, *, paused: bool = True) -> Self:
        """The queue is paused or resumed."""
        return self.tell(told.Pause(queue="default", paused=paused))

    def configure(self, **settings: Any) -> Self:
        """The queue is given settings."""
        return self.tell(told.Configure(queue="default", settings=QueueSettings(**settings)))

    def report(self, name: str, value: float, *, lost: bool = False) -> Self:
        """A worker tells what it counted."""
        return self.tell(told.Report(counts=[Count("default", "EU", name, value)]), lost=lost)

    def switch(self, region: str, before: Breaker, after: Breaker, *, lost: bool = False) -> Self:
        """The breaker of a region is replaced."""
        event = told.Switch(
            queue="default", region=region, before=before, after=after, done=not lost
        )
        return self.tell(event, lost=lost)

    def prune(self, keep_done: float) -> Self:
        """Old jobs are deleted."""
        return self.tell(told.Prune(keep_done=keep_done, pruned=1))

    def stock(self, *jobs: Kept, rest: bool = True, **counts: Any) -> Self:
        """What is stored in the end; the store's counts agree with it unless it is said."""
        event = told.Stock(jobs=list(jobs), rest=rest)
        statuses = [job.status for job in jobs]
        event.waiting, event.running = statuses.count("pending"), statuses.count("processing")
        event.endings = {status: statuses.count(status) for status in set(statuses)}
        for name, value in counts.items():
            setattr(event, name, value)
        return self.tell(event)


def lease(job: str, token: int, **fields: Any) -> Taken:
    """A claimed job, due and started at once unless it is said."""
    return Taken(job, token, fields.pop("lane", FRESH), **fields)


def timed(event: AnyEvent, due: dict[str, float]) -> AnyEvent:
    """The event, with the times of what it took; `due` is kept from one event to the next."""
    match event:
        case told.Enqueue():
            due |= {new.id: event.began + new.delay for new in event.jobs if not new.awaits}
        case told.Commit():
            due |= {ending.job: event.began + ending.delay for ending in event.endings}
        case told.Claim(taken=[_, *_] as taken):
            at = event.began
            times = [
                each
                if each.started_at
                else replace(each, due=min(at, due.get(each.job, at)), started_at=at)
                for each in taken
            ]
            return replace(event, taken=times)
    return event
