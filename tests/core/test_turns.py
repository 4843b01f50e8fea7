"""The bound of fairness.md for fairness keys, over random arrivals, weights and delays."""

import asyncio
from math import floor
from random import Random
from typing import NamedTuple

import pytest

from mulligan.core.job import NewJob
from mulligan.core.lane import Lane
from mulligan.core.lines import NO_KEY
from mulligan.core.outcome import Done
from mulligan.core.plan import ClaimPlan, Group, Source, Take
from mulligan.stores.memory import MemoryStore
from tests.contract.builders import ANN

LANE = Lane("q", "r", 0)
KEYS = "abcdef"
DELAY = 1.0


class Watched(NamedTuple):
    """A job from when it fell due: the k-th of its key, and which other keys have waited since."""

    k: int
    key: str
    starts: int
    others: set[str]


class Game:
    """A lane whose jobs come in floods and late, and start one by one."""

    def __init__(self, seed: int, keys: str = KEYS) -> None:
        self.random = Random(seed)
        self.now = 1000.0
        self.store = MemoryStore(clock=lambda: self.now)
        self.weights = {key: self.random.choice([1, 1, 2, 4, 0.5]) for key in keys} | {NO_KEY: 1}
        self.watched: dict[str, Watched] = {}
        self.later: list[tuple[float, int, str]] = []
        self.jobs = self.starts = 0

    async def play(self) -> None:
        """A random number of moves."""
        for _ in range(self.random.randint(50, 150)):
            move = self.random.random()
            if move < 0.5:
                for _ in range(self.random.choice([1, 1, 1, 10])):
                    await self.enqueue()
            elif move < 0.9:
                for _ in range(self.random.randint(1, 4)):
                    await self.start_one()
            else:
                self.pass_time()

    async def enqueue(self) -> None:
        """A job of some key, half of all of the first, now or a second later."""
        self.jobs += 1
        id_ = f"j{self.jobs}"
        key = self.random.choice([*self.weights, "a", "a", "a", "a", "a"])
        delay = self.random.choice([0.0, 0.0, 0.0, DELAY])
        job = NewJob(id_, "q", "ask", b"{}", region="r", delay=delay, fairness_key=key or None)
        await self.store.enqueue([job])
        if delay:
            self.later.append((self.now + delay, self.jobs, key))
        else:
            self.fell_due(id_, key)

    def fell_due(self, id_: str, key: str) -> None:
        """The job may start from now on."""
        waiting = [each.key for each in self.watched.values()]
        for each in self.watched.values():
            each.others.update({key} - {each.key})
        others = set(waiting) - {key}
        self.watched[id_] = Watched(1 + waiting.count(key), key, self.starts, others)

    def pass_time(self) -> None:
        """Up to a second; what was delayed may fall due."""
        self.now += self.random.random()
        for due in sorted(self.later):
            if due[0] <= self.now:
                self.later.remove(due)
                self.fell_due(f"j{due[1]}", due[2])

    async def start_one(self) -> None:
        """Claim one job, and hold its start to the bound."""
        group = Group("q", "fresh", ((Source(LANE),),))
        epoch = (await self.store.facts()).epoch
        plan = ClaimPlan(1, (group,), (Take(0, 1),), epoch, {"q": self.weights})
        for claim in (await self.store.claim(plan, ANN)).claims:
            self.starts += 1
            await self.store.commit([Done(claim.lease, b"1")])
            job = self.watched.pop(claim.id)
            took = self.starts - job.starts
            assert took <= self.bound(job), (claim.id, job, took, self.weights)

    def bound(self, job: Watched) -> int:
        """As docs/concepts/fairness.md states it."""
        weight = self.weights[job.key]
        each = (floor(job.k * self.weights[other] / weight) + 1 for other in job.others)
        return job.k + sum(each)


def play(seeds: range) -> None:
    """Play the games of these seeds."""
    for seed in seeds:
        asyncio.run(Game(seed).play())


def test_a_job_starts_within_the_bound_whatever_the_others_do():
    play(range(20))


@pytest.mark.prove
def test_a_job_starts_within_the_bound_in_many_games():
    play(range(1000, 1200))


def test_the_bound_is_near_what_happens():
    """A bound that nothing comes near would hold whatever the code does."""

    async def flood() -> int:
        game = Game(0, keys="ab")
        game.weights = {"a": 1, "b": 1, NO_KEY: 1}
        for key in ["b"] * 10 + ["a"] * 5:
            game.jobs += 1
            id_ = f"j{game.jobs}"
            job = NewJob(id_, "q", "ask", b"{}", region="r", fairness_key=key)
            await game.store.enqueue([job])
            game.fell_due(id_, key)
        last = "j15"
        while last in game.watched:
            await game.start_one()
        return game.starts

    assert asyncio.run(flood()) == 10  # of at most 5 + 5 + 1
