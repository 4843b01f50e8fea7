"""Processes that place the ticks of the same schedules and run them, and one that changes them.

Their clock is one, and quick. What they do is told in a file each, which outlives a kill.
"""

import asyncio
import contextlib
import logging
import os
import random
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from mulligan.app.schedules import (
    job_now,
    new_schedule,
    pause_schedule,
    put_schedule,
    resume_schedule,
)
from mulligan.core.errors import StoreError
from mulligan.core.fairness import Carry, plan_claim
from mulligan.core.job import Claim, NewJob, encode, life_of
from mulligan.core.outcome import Done
from mulligan.core.schedule import read_schedules
from mulligan.core.worker import Worker
from mulligan.engine.ticker import Ticker
from mulligan.stores.contract import Store
from tests.store_kit import handle

T = TypeVar("T")
# How many seconds of the store pass in one of ours.
SPEED = 30.0
# Longer than most stops; who loses it meanwhile runs what another runs again, as the same job.
LEASE = 60.0
NAMES = STEADY, RECALLED, RETIMED, PAUSED = "steady", "recalled", "retimed", "paused"
PERIODS = (7.0, 11.0)
PERIOD = 5.0
# Ours. A race is over much sooner.
LONGEST = 120.0


class Race(NamedTuple):
    """Where it takes place, since when, and the folder of what is told."""

    url: str
    folder: str
    began: float

    def now(self) -> float:
        """The time in the store, for every process."""
        return 1_000_000.0 + (time.monotonic() - self.began) * SPEED


class Ran(Struct, tag="ran"):
    """A job was claimed: which one, in which of its lives, and what its schedule's call said."""

    id: str
    life: int
    version: int


class Edited(Struct, tag="edited"):
    """A schedule was changed: asked for, decided by what the store's clock said, and then done.

    `every` is None where it is paused.
    """

    name: str
    version: int
    every: float | None
    asked: float
    decided: float
    done: float


class RunNow(Struct, tag="run now"):
    """A job was enqueued beside the ticks."""

    id: str


Told = Ran | Edited | RunNow
decode = msgspec.json.Decoder(Told).decode


class Teller:
    """Tells what happens; the file is the process's own."""

    def __init__(self, folder: str, name: str) -> None:
        self._file = os.open(Path(folder, name), os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)

    def tell(self, said: Told) -> None:
        """Append it as a line, at once."""
        os.write(self._file, msgspec.json.encode(said) + b"\n")


def told(folder: Path) -> list[Told]:
    """What all processes told; a line that a kill cut short is left out."""
    lines = [line for path in folder.iterdir() for line in path.read_bytes().split(b"\n")[:-1]]
    return [decode(line) for line in lines]


def call_of(version: int) -> NewJob:
    """The call of a schedule, which says which version of it this is."""
    body = encode({"task": "report", "args": [version], "kwargs": {}})
    return NewJob("", "default", "report", body)


async def put(store: Store, name: str, version: int, every: float) -> None:
    """Store the schedule with this version of its call; no missed tick is forgotten."""
    made = new_schedule(name, call_of(version), None, every, None, "all")
    await put_schedule(store, made)


# -- who places and runs ticks -------------------------------------------------------------------


def race(told_to: Race, name: str) -> None:
    """Place ticks and run them, until killed."""
    logging.disable()
    asyncio.run(work(told_to, name, told_to.now, lambda: False))


def finish(told_to: Race, name: str) -> None:
    """Do what others left: their leases have run out, and the clock stands still."""
    logging.disable()
    now = told_to.now() + 2 * LEASE
    asyncio.run(work(told_to, name, lambda: now, lambda: True))


async def work(
    where: Race, name: str, clock: Callable[[], float], may_end: Callable[[], bool]
) -> None:
    """Place ticks and run them, and end when there is nothing left, if that is so said."""
    chance, teller = random.Random(name), Teller(where.folder, name)
    worker = Worker(name, lease=LEASE, concurrency=10)
    async with handle(where.url, clock) as store:
        ticker = Ticker(store, (), name)
        while time.monotonic() < where.began + LONGEST:  # whoever started it may be gone
            try:
                await ticker.look()
                await store.promote(100)
                claims = [*await store.reclaim(10, worker), *await claimed(store, worker)]
                for each in claims:
                    teller.tell(Ran(each.id, life_of(each.token), version_of(each)))
                    await store.commit([Done(each.lease, b"null")])
                    if chance.random() < 0.5:
                        await store.purge([each.id])
            except (StoreError, OSError):
                continue  # a process that was stopped may find its connection gone
            if may_end() and not claims:
                return
            await asyncio.sleep(chance.uniform(0, 0.02))


async def claimed(store: Store, worker: Worker) -> list[Claim]:
    """What may start now."""
    facts = (await store.beat(worker, [])).facts
    plan = plan_claim(10, worker.region, [("default", Carry())], facts)
    return (await store.claim(plan, worker)).claims


def version_of(claim: Claim) -> int:
    """Which version of its schedule's call the job is of."""
    [version] = msgspec.json.decode(claim.body)["args"]
    return int(version)


# -- who changes schedules -----------------------------------------------------------------------


def edit(where: Race, changes: int) -> None:
    """Change schedules so often."""
    logging.disable()
    asyncio.run(Editor(where).run(changes))


class Editor:
    """Changes one schedule after the other, each in its own way, and tells it."""

    def __init__(self, where: Race) -> None:
        self._where = where
        self._chance = random.Random("editor")
        self._teller = Teller(where.folder, "editor")
        self._version = 0

    async def run(self, changes: int) -> None:
        """Begin with all of them."""
        async with handle(self._where.url, self._where.now) as store:
            for name in NAMES:
                await self._edit(store, name, PERIOD, partial(self._put, store, name, PERIOD))
            for _ in range(changes):
                await self._change(store)
                await asyncio.sleep(self._chance.uniform(0.0, 0.08))
            for name in (RETIMED, PAUSED):
                await self._edit(store, name, None, partial(pause_schedule, store, name))

    async def _change(self, store: Store) -> None:
        self._version += 1
        match self._chance.choice((RECALLED, RETIMED, PAUSED, "now")):
            case "now":
                job = await until_answered(partial(job_now, store, STEADY))
                await until_answered(partial(store.enqueue, [job]))
                self._teller.tell(RunNow(job.id))
            case name if name == PAUSED:
                await self._edit(store, name, None, partial(pause_schedule, store, name))
                await asyncio.sleep(self._chance.uniform(0.0, 0.2))
                await self._edit(store, name, PERIOD, partial(resume_schedule, store, name))
            case name:
                every = PERIOD if name == RECALLED else self._chance.choice(PERIODS)
                await self._edit(store, name, every, partial(self._put, store, name, every))

    async def _put(self, store: Store, name: str, every: float) -> None:
        await put(store, name, self._version, every)

    async def _edit(
        self, store: Store, name: str, every: float | None, change: Callable[[], Awaitable[None]]
    ) -> None:
        asked = self._where.now()
        await until_answered(change)
        done = self._where.now()
        changed = read_schedules(await until_answered(store.schedules))[name].schedule
        version = version_in(changed.arguments)
        self._teller.tell(Edited(name, version, every, asked, changed.changed_at, done))


async def until_answered(call: Callable[[], Awaitable[T]]) -> T:
    """What the store answers in the end: on a busy machine it may be too late at first."""
    while True:
        with contextlib.suppress(StoreError, OSError):
            return await call()


def version_in(arguments: tuple[list[int], dict[str, int]]) -> int:
    """Which version of a schedule's call has these arguments."""
    return arguments[0][0]
