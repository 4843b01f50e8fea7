"""A trace: what a real system did, one JSON line per job, to be played again.

The first line has the workers and settings; change it to ask "what if".
"""

from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import Literal, NoReturn, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mulligan.core.checks import check_region
from mulligan.core.decide import policy_of
from mulligan.core.errors import InvalidError
from mulligan.core.facts import Facts, QueueSettings
from mulligan.core.job import Attempt, Job, Status
from mulligan.core.lane import ANYWHERE, WORDS, Priority
from mulligan.core.retry import Retry
from mulligan.core.stats import Stats
from mulligan.sim.scenario import JOBS_LIMIT, Past, Planned, Region, Scenario

SUFFIX = ".jsonl"
DAY = 86_400.0
T = TypeVar("T")


class TracedRegion(Struct, frozen=True, forbid_unknown_fields=True):
    """A region: how many workers, and how many attempts at a time each."""

    workers: int = 1
    concurrency: int = 1


class Header(Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of a trace. Times are the store's, in seconds since 1970."""

    trace: Literal[1]
    since: float
    until: float
    regions: dict[str, TracedRegion]
    queues: dict[str, QueueSettings]


class TracedAttempt(Struct, frozen=True, omit_defaults=True):
    """A failed or lost attempt; `delay` is the pause that followed, null after the last."""

    number: int
    region: str
    started_at: float
    ended_at: float
    type: str
    message: str
    code: str | None = None
    delay: float | None = None


class TracedJob(Struct, frozen=True, omit_defaults=True):
    """A job: neither its arguments nor its result, only what happened to it.

    `started_at` is the start of its last attempt, `arrived_at` when its first could have begun.
    """

    id: str
    queue: str
    task: str
    region: str
    status: Status
    created_at: float
    arrived_at: float
    priority: int = Priority.NORMAL
    retry_count: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    retry: Retry = Retry()
    history: tuple[TracedAttempt, ...] = ()


def header_of(stats: Stats, facts: Facts, since: float) -> tuple[Header, list[str]]:
    """The first line, and the regions without a live worker, which get one each."""
    live = [view.worker for view in stats.workers if view.live]
    regions: dict[str, TracedRegion] = {}
    asleep: list[str] = []
    known = (region.name for region in facts.regions)
    waiting = (each.lane.scope for each in stats.lanes if not each.lane.is_global)
    for name in dict.fromkeys((*known, *waiting)):
        workers = [worker for worker in live if worker.region == name]
        slots = sum(worker.concurrency for worker in workers)
        regions[name] = TracedRegion()
        if workers:
            regions[name] = TracedRegion(len(workers), round(slots / len(workers)))
        asleep += [] if workers else [name]
    return Header(1, since, stats.now, regions, facts.queues), asleep


def traced(job: Job, history: Sequence[Attempt]) -> TracedJob:
    """The line of a job; only the last replay of one that was replayed."""
    policy = policy_of(job.body)
    arrived = job.created_at if job.retry_count else max(job.created_at, job.due)
    lives = [each for each in history if each.replay < job.replay]
    if lives:
        arrived = lives[-1].ended_at or arrived
    return TracedJob(
        id=job.id,
        queue=job.queue,
        task=job.task,
        region=job.region,
        status=job.status,
        created_at=job.created_at,
        arrived_at=arrived,
        priority=job.priority,
        retry_count=job.retry_count,
        started_at=job.started_at,
        ended_at=job.ended_at,
        retry=policy.retry if policy else Retry(0),
        history=tuple(
            TracedAttempt(
                each.number,
                each.region,
                each.started_at,
                each.started_at if each.ended_at is None else each.ended_at,
                each.type,
                each.message,
                each.code,
                each.delay,
            )
            for each in history
            if each.replay == job.replay
        ),
    )


def read_trace(path: Path) -> Scenario:
    """The trace as a scenario; an error in it is refused with its line."""
    name = str(path)
    try:
        with path.open("rb") as file:
            return TraceReader(name).read(file)
    except OSError as error:
        raise InvalidError(f"trace {name!r} cannot be read: {error.strerror}") from error


class TraceReader:
    """Reads line by line, and keeps only what a simulation needs."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._line = 0
        self._queue: str | None = None
        self._seen: set[str] = set()

    def read(self, lines: Iterable[bytes]) -> Scenario:
        """All of it. Jobs that were cancelled before they began are left out."""
        each = iter(lines)
        first = next(each, b"")
        self._line = 1
        header = self._header(first)
        jobs = list(self._read_jobs(each, header))
        if not jobs:
            raise InvalidError(f"{self._name}:{self._line}: the trace has no job that ran or waits")
        begin = min(job.arrived_at for job in jobs)
        known = [past.duration for job in jobs for past in course(job)]
        usual = sum(known) / len(known) if known else 1.0
        # Stores list the newest first: of jobs of one time, the last listed came first.
        newest_last = [plan(job, begin, usual) for job in reversed(jobs)]
        planned = sorted(newest_last, key=lambda job: job.at)
        return Scenario(
            name=self._name,
            regions=tuple(
                Region(name, traced.workers, traced.concurrency)
                for name, traced in header.regions.items()
            ),
            planned=tuple(planned),
            queue=header.queues.get(self._queue or "", QueueSettings()),
            until=planned[-1].at + DAY,
            title=f"{len(planned)} jobs of queue {self._queue} again",
        )

    def _header(self, line: bytes) -> Header:
        header = self._decode(line, Header, "the first line of a trace")
        if not header.regions:
            self._refuse('regions is empty; add one, such as {"US": {"workers": 4}}')
        for name, traced in header.regions.items():
            self._checked(name)
            if not (1 <= traced.workers <= 1000 and 1 <= traced.concurrency <= 1000):  # noqa: PLR2004
                self._refuse(f"region {name!r}: workers and concurrency must be from 1 to 1000")
        return header

    def _checked(self, name: str) -> None:
        try:
            check_region(name, anywhere=False)
        except InvalidError as error:
            self._refuse(str(error))

    def _read_jobs(self, lines: Iterator[bytes], header: Header) -> Iterator[TracedJob]:
        for number, line in enumerate(lines, 2):
            self._line = number
            if not line.strip():
                continue
            job = self._decode(line, TracedJob, "a job of a trace")
            self._check(job, header)
            self._seen.add(job.id)
            if len(self._seen) > JOBS_LIMIT:
                self._refuse(f"the trace has more than {JOBS_LIMIT} jobs; take a shorter one")
            if job.status != "cancelled" or job.started_at is not None:
                yield job

    def _check(self, job: TracedJob, header: Header) -> None:
        if job.id in self._seen:
            self._refuse(f"id {job.id!r} is given twice; ids are unique")
        self._queue = self._queue if self._queue is not None else job.queue
        if job.queue != self._queue:
            self._refuse(
                f"queue {job.queue!r} is not the {self._queue!r} of the jobs before, and one is"
                f" played at a time; make the trace with: mulligan history --queue {self._queue}"
            )
        if job.region not in header.regions and job.region != ANYWHERE:
            self._refuse(
                f"region {job.region!r} is not one of {', '.join(header.regions)};"
                " add it to the first line"
            )
        if job.priority not in WORDS.values():
            self._refuse(f"priority {job.priority!r} must be 0, 1 or 2")
        spans = [(each.started_at, each.ended_at) for each in job.history]
        if job.started_at is not None and job.ended_at is not None:
            spans.append((job.started_at, job.ended_at))
        moments = [job.arrived_at, *(moment for span in spans for moment in span)]
        if not all(isfinite(moment) and moment >= 0 for moment in moments):
            self._refuse(f"job {job.id!r} has a time that is none")
        if any(end < begin for begin, end in spans):
            self._refuse(f"job {job.id!r} has an attempt that ended before it began")

    def _decode(self, line: bytes, kind: type[T], said: str) -> T:
        try:
            return msgspec.json.decode(line, type=kind)
        except (msgspec.MsgspecError, InvalidError, UnicodeDecodeError) as error:
            self._refuse(f"this is not {said}: {error}")

    def _refuse(self, message: str) -> NoReturn:
        raise InvalidError(f"{self._name}:{self._line}: {message}")


def course(job: TracedJob) -> tuple[Past, ...]:
    """How each attempt of the job went, as far as that is known, from the first on."""
    failed = {each.number: each for each in job.history}
    pasts: list[Past] = []
    for number in range(1, job.retry_count + 1):
        attempt = failed.get(number)
        if attempt is not None:
            pasts.append(Past(attempt.ended_at - attempt.started_at, "retried", attempt.delay))
        elif pasts:  # a history keeps the newest 50
            pasts.append(pasts[-1])
    last = failed.get(job.retry_count + 1)
    if job.status == "failed" and last is not None:
        pasts.append(Past(last.ended_at - last.started_at, "dead"))
    elif job.started_at is not None and job.ended_at is not None:
        pasts.append(Past(job.ended_at - job.started_at, "done"))
    return tuple(pasts)


def plan(job: TracedJob, begin: float, usual: float) -> Planned:
    """The job to enqueue; unknown attempts take as long as the last one, or `usual`."""
    pasts = course(job)
    return Planned(
        at=round(job.arrived_at - begin, 6),
        id=job.id,
        region=job.region,
        duration=pasts[-1].duration if pasts else usual,
        # A simulated failure is of no class of theirs: what was retried is retried.
        retry=replace(job.retry, on=(), never=()),
        priority=job.priority,
        fail=frozenset(),
        crash=frozenset(),
        course=pasts,
    )
