"""No sequence of failures, crashes, replays and refusals lets a refused result through.

Random programs on the virtual clock: each attempt of each stage ends in a way that was drawn,
workers are killed and replaced, jobs replayed and sent again. Whatever happens, the result "Error"
becomes no job's result, no stage's argument and nothing that a sink sees.
"""

import asyncio
import random
from collections import defaultdict
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan import (
    Delays,
    Fail,
    Mulligan,
    Retry,
    RetryAfter,
    Settings,
    Snooze,
    each,
)
from mulligan.core.flow import flow_of
from mulligan.core.job import Job
from mulligan.core.page import Selection
from mulligan.core.worker import Worker
from mulligan.engine.worker import Engine
from mulligan.stores.memory import MemoryStore
from mulligan.testing import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Iterator

Ending = Literal["good", "Error", "raise", "fail", "later", "snooze", "slow", "odd"]
Step = Literal["send", "again", "kill", "replay", "wait"]
ENDINGS: tuple[Ending, ...] = ("good", "Error", "raise", "fail", "later", "snooze", "slow", "odd")
STEPS: tuple[Step, ...] = ("send", "again", "kill", "replay", "wait")
SHORT = Settings(lease=3.0, beat=1.0, concurrency=4)
POLICY = Retry(2, Delays((0.5, 4)))


def root_of(job: Job) -> str:
    """The first job of the chain that this one belongs to."""
    flow = flow_of(job.body)
    return job.id if flow is None else flow.root


def is_good(value: Any) -> bool:
    """The gate; it raises on what has no category at all."""
    return "Error" not in value["category"]


class World:
    """An app whose attempts end as drawn, and everything that anyone was handed."""

    def __init__(self, endings: list[Ending]) -> None:
        self.app = Mulligan("memory://")
        self.passed: list[Any] = []
        self.saved: dict[str, list[Any]] = defaultdict(list)
        self._endings: Iterator[Ending] = iter(endings)
        self._define()

    async def end(self, value: Any) -> Any:
        """End an attempt as drawn; when nothing is left to draw, well."""
        match next(self._endings, "good"):
            case "good":
                return {"category": value}
            case "Error":
                return {"category": "Error"}
            case "odd":
                return {"oops": "Error"}
            case "raise":
                raise ConnectionError("Error")
            case "fail":
                return Fail("Error")
            case "later":
                return RetryAfter(1, "Error")
            case "snooze":
                raise Snooze(2)
            case "slow":
                await asyncio.sleep(5)
                return {"category": value}

    def _define(self) -> None:
        app = self.app

        @app.sink(retry=Retry(None, Delays((1,))))
        async def save(result: Any, key: str) -> None:
            self.saved[key].append(result)
            await self.end("saved")

        options: dict[str, Any] = {"retry": POLICY, "accept": is_good, "sink": save}

        @app.task(**options)
        async def first(number: int) -> Any:
            return await self.end([f"a{number}", f"b{number}"])

        @app.task(retry=POLICY)
        async def spread(item: Any) -> list[str]:
            self.passed.append(item)
            parts: list[str] = item["category"]
            return parts

        @app.task(**options)
        async def second(part: str) -> Any:
            return await self.end(part)

        @app.task(**options)
        async def last(items: list[Any]) -> Any:
            self.passed.append(items)
            return await self.end(f"{len(items)} parts")

        self.chain = first | spread | each(second) | last


class Play:
    """Steps, played on the virtual clock with three workers that are replaced when killed."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.loop = VirtualLoop()
        self.store = MemoryStore(clock=self.loop.time)
        self._chance = random.Random(seed)
        self._lives = count()
        self._sent = count()
        self._crew: list[tuple[Engine, asyncio.Task[None]]] = []

    def run(self, steps: list[Step]) -> None:
        self.loop.run_until_complete(self._play(steps))
        self.loop.close()

    async def _play(self, steps: list[Step]) -> None:
        for region in ("default", "EU", "EU"):
            self._start(region)
        for step in ("send", *steps):
            await self._step(step)
            await asyncio.sleep(self._chance.choice((0, 0.3, 2)))
        # From here on all goes well, and what died is given another chance.
        self.world._endings = iter(())
        for _ in range(4):
            await asyncio.sleep(60)
            await self._step("replay")
        await asyncio.sleep(60)
        for engine, _ in self._crew:
            engine.stop()
        await asyncio.gather(*(task for _, task in self._crew))

    async def _step(self, step: str) -> None:
        match step:
            case "send" | "again":
                number = next(self._sent) if step == "send" else 0
                call = self.world.chain.using(id=f"chain-{number}").call(number)
                await self.store.enqueue([call.job])
            case "kill":
                await asyncio.sleep(0.01)  # the youngest has yet to join
                engine, task = self._crew.pop(self._chance.randrange(len(self._crew)))
                engine.slots.stop()
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                self._start(engine.worker.region)
            case "replay":
                dead = await self.store.page(Selection(status="failed"), 100)
                await self.store.replay([job.id for job in dead.jobs])
            case _:
                await asyncio.sleep(5)

    def _start(self, region: str) -> None:
        life = next(self._lives)
        worker = Worker(f"w{life}", region, ("default",), SHORT.lease, SHORT.concurrency)
        chance = random.Random(life)
        tasks, time = self.world.app.tasks, self.loop.time
        engine = Engine(self.store, tasks, worker, SHORT, chance=chance, monotonic=time)
        self._crew.append((engine, asyncio.ensure_future(engine.run())))


@pytest.mark.timeout(600)  # a minute of computing, on a machine that is busy several
@settings(deadline=None, max_examples=20)
@given(
    st.lists(st.sampled_from(ENDINGS), max_size=60),
    st.lists(st.sampled_from(STEPS), max_size=12),
    st.integers(0, 999),
)
def test_a_refused_result_reaches_no_result_no_stage_and_no_sink(endings, steps, seed):
    world = World(endings)
    play = Play(world, seed)
    play.run(steps)
    jobs = asyncio.run(play.store.page(Selection(), 10_000)).jobs
    done = [job for job in jobs if job.status == "done"]
    assert not [job.id for job in jobs if "Error" in repr(job.result)]
    assert "Error" not in repr(world.passed)
    assert "Error" not in repr(world.saved)
    # Every accepted result reached its sink at least once, under one key of its own.
    accepted = {
        f"{job.id}.{job.replay}": job.value()
        for job in done
        if job.task in ("first", "second", "last")
    }
    assert {key: seen[-1] for key, seen in world.saved.items()} == accepted
    assert all(result == seen[0] for seen in world.saved.values() for result in seen)


def test_in_the_end_every_chain_is_through():
    world = World(["Error", "raise", "fail", "odd", "slow", "Error", "later", "snooze"])
    play = Play(world, 1)
    play.run(["kill", "send", "kill", "again", "replay", "wait", "kill"])
    jobs = asyncio.run(play.store.page(Selection(), 10_000)).jobs
    ends = {root_of(job): job.value() for job in jobs if job.task == "last"}
    assert ends == {f"chain-{number}": {"category": "2 parts"} for number in (0, 1)}
    assert {job.status for job in jobs} == {"done"}


def test_a_service_that_says_error_for_long_is_asked_again_until_it_does_not():
    world = World(["Error"] * 40)
    play = Play(world, 2)
    play.run(["wait", "wait", "replay", "kill", "wait", "replay"])
    [job] = [
        job for job in asyncio.run(play.store.page(Selection(), 100)).jobs if job.id == "chain-0"
    ]
    assert (job.status, job.replay) == ("done", 2)
