"""What the events of a history say about which of them was first.

A job is accepted before it is claimed. Its leases follow each other as their tokens do, each
between the claim that gave it and the commit that was written under it; a replay stands between
those before it and those after, a cancel and a purge after all. What a task tells of an attempt
comes after its claim, the start of a gathering job after those that arrived. What was never
answered comes before the next lease, if it can: later it could not have been written.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, pairwise, zip_longest
from math import inf
from typing import NamedTuple

from mulligan.core.job import Lease, first_token, life_of
from tests.history.events import (
    AnyEvent,
    Attempt,
    Claim,
    Commit,
    Ending,
    Enqueue,
    New,
    Operate,
    Prune,
    Reclaim,
    latest,
)

# The phases of a token: what makes the job fit to be given, the claim, what is written under it.
MADE, GIVEN, WRITTEN = range(3)


class Step(NamedTuple):
    """Where an event stands among those about a job: by token and phase, which are in order."""

    token: float
    phase: int
    number: int


class Causes:
    """What must have been before each event. The events are numbered in the order given."""

    def __init__(self, events: Sequence[AnyEvent]) -> None:
        self._events = events
        self._steps: dict[str, list[Step]] = defaultdict(list)
        self._given: dict[Lease, int] = {}
        self._attempts: list[tuple[Lease, int]] = []
        self._unanswered: list[tuple[Lease, int]] = []
        self._created: dict[str, list[int]] = defaultdict(list)
        self._may_have_created: dict[str, int] = {}
        self._gathered: dict[str, str] = {}
        self._arrivals: list[tuple[str, int]] = []
        self._wishes: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self._unheard: set[str] = set()
        # What was deleted, or may have been.
        self._purged: set[str] = set()
        self._pruned = False
        # The shortest time that any job says it is kept.
        self._least_keep = min(keeps(events), default=inf)
        # How often a job had been replayed where it was adopted from.
        self._replayed_before: dict[str, int] = {}
        # By job, its life and the number of the replay: the first token after it.
        self._replays: dict[tuple[str, int, int], int] = {}

    def edges(self) -> dict[int, set[int]]:
        """The numbers of the events that must come before each."""
        for number, event in enumerate(self._events):
            if not event.refused:
                self._read(number, event)
        before: dict[int, set[int]] = defaultdict(set)
        for earlier, later in [*self._chains(), *self._asides()]:
            if earlier != later:
                before[later].add(earlier)
        return before

    def _chains(self) -> Iterator[tuple[int, int]]:
        """The steps of each job, one after the other: (earlier, later)."""
        for job in [*self._steps, *(self._created.keys() - self._steps.keys())]:
            steps = self._steps[job]
            steps.sort()
            lives: dict[int, list[Step]] = defaultdict(list)
            for step in steps:
                lives[life_of(int(step.token))].append(step)
            steps += self._beginnings(job, lives)
            steps += self._replayed(job, lives)
            if len(lives) <= 1 and self._began_once(job):
                steps += self._ended(job)
            steps.sort()
            for earlier, later in pairwise(steps):
                yield earlier.number, later.number

    def _beginnings(self, job: str, lives: dict[int, list[Step]]) -> Iterator[Step]:
        """The creations of a job: each before the first step of the life that it began.

        An id that was purged may be used again: a life is over before the next creation.
        """
        creations = deque(self._created[job])
        if not lives and len(creations) == 1:
            yield Step(-1, MADE, creations[0])
        for life, steps in lives.items():
            while len(creations) > 1 and not self._may_precede(steps[-1].number, creations[1]):
                creations.popleft()
            made = self._may_have_created.get(job)
            if creations and self._may_precede(creations[0], steps[0].number):
                made = creations.popleft()
            if made is not None and self._may_precede(made, steps[0].number):
                yield Step(first_token(life), MADE, made)

    def _began_once(self, job: str) -> bool:
        """Whether it surely had no life before: one sent again without an answer had none."""
        created, may = len(self._created[job]), job in self._may_have_created
        return created + may <= 1 or (created == 1 and not self._pruned and job not in self._purged)

    def _replayed(self, job: str, lives: dict[int, list[Step]]) -> Iterator[Step]:
        """The replays of a job, each before the first lease that it led to."""
        if job in self._unheard:
            return  # a replay that got no answer may have been one of those that are counted
        replays = Counter(dict.fromkeys(lives, self._replayed_before.get(job, 0)))
        for number in [number for what, number in self._wishes[job] if what == "replay"]:
            begun = [life for life in lives if self._may_precede(lives[life][0].number, number)]
            replays.update(begun[-1:])
            for life in begun[-1:]:
                token = self._replays.get((job, life, replays[life]))
                if token is not None:
                    yield Step(token, MADE, number)

    def _ended(self, job: str) -> Iterator[Step]:
        """How operators ended a job that has had one life."""
        for what, number in self._wishes[job]:
            if what != "replay":
                yield Step(inf, int(what == "purge"), number)

    def _asides(self) -> Iterator[tuple[int, int]]:
        """What is known of events that stand beside the steps of a job: (earlier, later)."""
        for lease, number in self._attempts:
            if lease in self._given:
                yield self._given[lease], number
        for (job, token), number in self._unanswered:
            above = (step for step in self._steps.get(job, ()) if step[:2] > (token, WRITTEN))
            yield from self._before_the_first(number, above)
        for job, number in self._arrivals:
            steps = self._steps.get(self._gathered.get(job, ""), ())
            claims = (step for step in steps if step.phase == GIVEN and step.token < inf)
            yield from self._before_the_first(number, claims)

    def _before_the_first(self, number: int, steps: Iterable[Step]) -> Iterator[tuple[int, int]]:
        first = next(iter(steps), None)
        if first is not None and self._may_precede(number, first.number):
            yield number, first.number

    def _may_precede(self, number: int, other: int) -> bool:
        """Whether it began before the other was answered."""
        return self._events[number].began <= latest(self._events[other])

    def _read(self, number: int, event: AnyEvent) -> None:
        match event:
            case Enqueue():
                self._read_enqueue(number, event)
            case Claim() | Reclaim():
                for each in event.taken or ():
                    self._given[each.lease] = number
                    self._steps[each.job].append(Step(each.token, GIVEN, number))
                    replay = each.job, life_of(each.token), each.replay
                    self._replays[replay] = min(self._replays.get(replay, each.token), each.token)
            case Commit():
                for ending, verdict in zip_longest(event.endings, event.verdicts or ()):
                    self._read_ending(number, ending, verdict)
            case Operate():
                self._read_wishes(number, event)
            case Prune():
                # What ended before the first event is none of these jobs.
                lived = self._events[-1].began - self._events[0].began
                least = min(event.keep_done, self._least_keep)
                self._pruned |= event.pruned != 0 and least <= lived
            case Attempt():
                self._attempts.append((Lease(event.job, event.token), number))

    def _read_enqueue(self, number: int, event: Enqueue) -> None:
        surely = event.answers is not None
        created = [answer.created for answer in event.answers or ()]
        for new in compress(event.jobs, created) if surely else event.jobs:
            self._create(new, number, surely=surely)

    def _read_wishes(self, number: int, event: Operate) -> None:
        if event.answers is None:
            self._unheard.update(event.jobs)
        if event.what in ("purge", "withdraw"):
            self._purged.update(event.jobs)
        for job in compress(event.jobs, event.answers or ()):
            self._wishes[job].append((event.what, number))

    def _read_ending(self, number: int, ending: Ending, verdict: str | None) -> None:
        job, token = ending.lease
        if verdict == "written":
            self._steps[job].append(Step(token, WRITTEN, number))
        elif verdict is None:
            self._unanswered.append((ending.lease, number))
        else:
            return  # it changed nothing
        for new in ending.next:
            self._create(new, number, surely=verdict is not None)
        if ending.how in ("done", "dead"):
            self._arrivals.append((job, number))

    def _create(self, new: New, number: int, *, surely: bool) -> None:
        if surely:
            self._created[new.id].append(number)
        else:
            self._may_have_created.setdefault(new.id, number)
        if new.gather is not None:
            self._gathered[new.id] = new.gather
        if new.past is not None:
            self._replayed_before[new.id] = new.past.replay


def keeps(events: Iterable[AnyEvent]) -> Iterator[float]:
    """How long jobs are kept that say so themselves."""
    for event in events:
        match event:
            case Enqueue():
                jobs = event.jobs
            case Commit():
                jobs = [new for ending in event.endings for new in ending.next]
            case _:
                continue
        yield from (new.keep for new in jobs if new.keep is not None)
