"""Random games of jobs with limits and keys: never exceeded, nothing forgotten, nothing left over.

The rules are `core.limits` and `core.lines`; the book that they are played with is the one of the
store in memory.
"""

import asyncio
from collections import defaultdict
from random import Random
from typing import Any

import pytest

from mulligan.core.job import Claim, NewJob
from mulligan.core.lane import Lane
from mulligan.core.limits import FOREVER, SECOND, Limit, costs_text
from mulligan.core.lines import due_of
from mulligan.core.outcome import Done, LimitUse, Outcome, Returned
from mulligan.stores.memory import MemoryStore
from tests.contract.builders import again, claim

LANES = [Lane("q", "r", 0), Lane("q", "r", 1), Lane("q", "r", 2)]
NAMES = ["a", "b", "c", "t:1", "t:2"]
STORED = [*NAMES, "t:*"]
UNFINISHED = ("pending", "processing")
LONGEST_DRAIN = 3000


class Game:
    """Producers, workers and operators who do anything at any time."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = 1000.0
        self.store = MemoryStore(clock=lambda: self.now)
        self.keys = [None, "x", "y", "z"] if self.random.random() < 0.7 else [None]
        self.costs: dict[str, dict[str, int]] = {}
        self.running: dict[str, Claim] = {}
        # (when, cost, job) of each start by limit, and when a limit was last changed.
        self.starts: dict[str, list[tuple[float, int, str]]] = defaultdict(list)
        self.changed = -1.0

    @property
    def book(self) -> Any:
        """What the store keeps of lines."""
        return self.store.state.lines

    async def play(self) -> None:
        """A random number of moves; then everything must end, and leave nothing behind."""
        for name in STORED:
            await self.set_limit(name)
        for _ in range(self.random.randint(30, 120)):
            await self.move()
            await self.store.promote(100)
            self.check_lines()
        await self.drain()

    async def move(self) -> None:
        """Somebody does something."""
        chance = self.random.random()
        if chance < 0.4:
            await self.enqueue()
        elif chance < 0.65:
            await self.claim()
        elif chance < 0.85:
            await self.finish()
        elif chance < 0.9:
            await self.cancel()
        elif chance < 0.93:
            await self.set_limit(self.random.choice(STORED))
            self.changed = self.now
        elif chance < 0.95:
            await self.store.pause_limit(self.random.choice(NAMES), self.random.choice([0, 1.0]))
        else:
            self.now += self.random.random() * 2

    # -- moves -----------------------------------------------------------------------------------

    async def set_limit(self, name: str) -> None:
        """Declare another limit of this name, or none."""
        few = self.random.randint(1, 4)
        chosen = [
            None,
            Limit(concurrency=few),
            Limit(rate=few, per=self.random.choice([1, 2.5])),
            Limit(rate=few, per=2, burst=self.random.randint(1, 5)),
            Limit(concurrency=2, rate=3, per=1),
        ]
        await self.store.set_limit(name, self.random.choice(chosen), declared=True)

    async def enqueue(self) -> None:
        """A few jobs, with up to three limits each."""
        for _ in range(self.random.randint(1, 6)):
            id_ = f"j{len(self.costs)}"
            named = self.random.sample(NAMES, self.random.choice([0, 0, 1, 1, 2, 3]))
            costs = {name: self.random.choice([1, 1, 1, 2]) for name in sorted(named)}
            self.costs[id_] = costs
            job = NewJob(
                *(id_, "q", "ask", b"{}"),
                region="r",
                priority=self.random.choice([0, 0, 2]),
                delay=self.random.choice([0, 0, 0, self.random.random() * 3]),
                limits=costs_text(costs),
                fairness_key=self.random.choice(self.keys),
                expires=self.random.choice([None, None, None, 5.0]),
            )
            await self.store.enqueue([job])

    async def claim(self) -> None:
        """Claim from some lanes; what is left there must have no room."""
        demand = self.random.randint(1, 6)
        lanes = self.random.sample(LANES, self.random.randint(1, 3))
        claimed = await claim(self.store, *lanes, demand=demand)
        for each in claimed.claims:
            self.running[each.id] = each
            for name, cost in self.costs[each.id].items():
                self.starts[name].append((self.now, cost, each.id))
                self.check_limit(name, cost)
        if len(claimed.claims) < demand:
            self.check_left(lanes)
            assert claimed.again_in is None or claimed.again_in > 0

    async def finish(self) -> None:
        """Some attempts end, in one way or another."""
        some = min(len(self.running), self.random.randint(1, 3))
        for id_ in self.random.sample(sorted(self.running), some):
            await self.store.commit([self.outcome(self.running.pop(id_))])

    def outcome(self, claimed: Claim) -> Outcome:
        """Done, a retry, given back, or done with a debt and a pause."""
        chance = self.random.random()
        if chance < 0.5:
            return Done(claimed.lease, b"1")
        if chance < 0.7:
            return again(claimed, self.random.choice([0, 1.0]), LANES[1])
        if chance < 0.8:
            for name in self.costs[claimed.id]:  # it never started
                mine = [n for n, each in enumerate(self.starts[name]) if each[2] == claimed.id]
                del self.starts[name][max(mine)]
            return Returned(claimed.lease)
        return Done(claimed.lease, b"1", use=LimitUse((("a", 1),), (("b", 1.5),)))

    async def cancel(self) -> None:
        """Cancel a job that waits or runs."""
        unfinished = [id_ for id_, record in self.records() if record.status in UNFINISHED]
        if unfinished:
            id_ = self.random.choice(unfinished)
            await self.store.cancel([id_], "not needed")
            self.running.pop(id_, None)

    async def drain(self) -> None:
        """Everything ends; when the windows are over, nothing of it is kept."""
        for _ in range(LONGEST_DRAIN):
            self.now += 0.5
            claimed = await claim(self.store, *LANES, demand=50)
            ended = [*self.running.values(), *claimed.claims]
            await self.store.commit([Done(each.lease, b"1") for each in ended])
            self.running.clear()
            if all(record.status not in UNFINISHED for _, record in self.records()):
                break
        else:
            raise AssertionError("some jobs never start")
        self.now += 1000
        await self.store.prune(0, 10**6)
        assert self.store.state.limits.states == {}
        assert self.book.lanes == {}
        assert self.book.members == {}
        assert self.book.limits_waited_for() == []

    # -- what must be so -------------------------------------------------------------------------

    def records(self) -> list[tuple[str, Any]]:
        """All jobs by id, as the store keeps them."""
        return list(self.store.state.jobs.items())

    def check_limit(self, name: str, cost: int) -> None:
        """It is not exceeded, unless it was lowered while its jobs ran."""
        limit = self.store.state.limits.limit_of(name)
        if limit is None:
            return
        running = sum(name in self.costs[id_] for id_ in self.running)
        assert limit.concurrency is None or running <= limit.concurrency or self.changed >= 0
        since = self.now - limit.window / SECOND + 1e-9
        if limit.rate is not None and limit.burst is None and self.changed < since:
            spent = sum(each for at, each, _ in self.starts[name] if at > since)
            assert spent <= limit.rate or cost > limit.rate

    def check_left(self, lanes: list[Lane]) -> None:
        """What a claim leaves in the lanes could not have started."""
        for lane in lanes:
            known = self.book.lanes.get(lane)
            for line in [] if known is None else known.lines.values():
                if line.due > self.store.state.now:
                    continue
                assert line.stage == "waiting"
                assert any(
                    self.book.room_at(name, cost) > self.store.state.now
                    or self.book.first_waiting(name, lane) not in (None, line)
                    for name, cost in line.costs
                )

    def check_lines(self) -> None:
        """Each line knows its first job, and who waits at a limit will be looked at."""
        for _, record in self.records():
            if record.status == "pending" and record.line is not None:
                line = self.book.line(record.line)
                assert (line.due, line.sequence) <= (record.due, record.sequence)
        for lane, known in self.book.lanes.items():
            ready = [line.due for line in known.lines.values() if line.stage == "ready"]
            assert (due_of(self.book, lane) in ready) == bool(ready)
            for line in known.lines.values():
                assert self.book.first_of(line.name) == (line.due, line.sequence, line.costs)
                if line.stage == "waiting" and self.book.first_waiting(line.at, lane) is line:
                    self.check_is_looked_at(lane, line)

    def check_is_looked_at(self, lane: Lane, line: Any) -> None:
        """An alarm, or a line that is ready before it, brings the first that waits back."""
        at = self.book.room_at(line.at, dict(line.costs)[line.at])
        alarm = self.book.next_alarm(lane)
        before = any(
            other.stage == "ready" and line.at in other.name.limits
            for other in self.book.lanes[lane].lines.values()
        )
        assert at == FOREVER or before or (alarm is not None and alarm[0] <= at + 1e-9)


def play(seeds: range) -> None:
    """Play the games of these seeds."""
    for seed in seeds:
        asyncio.run(Game(seed).play())


def test_limits_hold_and_nothing_is_left_behind():
    play(range(8))


@pytest.mark.prove
def test_limits_hold_in_many_games():
    play(range(1000, 1020))
