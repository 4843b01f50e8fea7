"""From a seed to its history and what the checker says of it."""

import asyncio
import contextlib
import gc
import random
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple
from unittest.mock import patch

from mulligan.sim.loop import OrderedLoop
from mulligan.sim.run import silence
from tests.dst import tasks
from tests.dst.operators import Operated
from tests.dst.plan import Plan, drawn
from tests.history import (
    AnyEvent,
    Violation,
    breakers,
    check,
    in_order,
    queues,
    room,
    shares,
    turns,
)
from tests.history.check import INVARIANTS
from tests.history.events import Claim, Commit, Enqueue

if TYPE_CHECKING:
    from collections import Counter

# An idle engine does its chores seldom, as its leases are long.
SELDOM = {
    "mulligan.engine.worker.REAP_EVERY": 1200.0,
    "mulligan.engine.worker.KEEP_HOUSE_EVERY": 3600.0,
    "mulligan.engine.fetcher.LONGEST_SLEEP": 3600.0,
    "mulligan.engine.ticker.LONGEST_SLEEP": 3600.0,
    "mulligan.engine.ticker.IDLE_SLEEP": 3600.0,
    "mulligan.engine.reporter.EVERY": 300.0,
    "mulligan.engine.loops.LONGEST": 120.0,
}
WOKEN_WITHIN = 1.0
# What is promised for the jobs of each shard, and not over all.
IN_EACH_SHARD = (
    queues.LanesKeepOrder,
    shares.SharesAreKept,
    turns.KeysTakeTurns,
    room.RoomIsUsed,
    breakers.ProbesArePaced,  # those of the first, which has the breakers
)
# An answer may be slow to arrive, and a region may be cut off while it is under way.
TOLD_WITHIN = 900.0


class Day(NamedTuple):
    """What came of a seed."""

    seed: int
    events: list[AnyEvent]
    violations: list[Violation]
    faults: "Counter[str]"
    jobs: int
    attempts: int
    stale: int
    seconds: float


def is_seen_by_clients(seed: int) -> bool:
    """Whether the history of a seed is the one that its clients saw, with their doubts."""
    return seed % 8 == 5


def live(seed: int, store: str = "memory://", *, as_clients: bool | None = None) -> Day:
    """Live through the day of a seed, and check its history."""
    clients = is_seen_by_clients(seed) if as_clients is None else as_clients
    before = time.process_time()
    plan = drawn(seed)
    events, shards, faults = lived_through(plan, store, as_clients=clients)
    events = in_order(events) if clients else events
    violations = check(
        events,
        [each for each in INVARIANTS if not (shards and each in IN_EACH_SHARD)],
        woken_within=WOKEN_WITHIN if plan.calm else None,
        told_within=0.0 if clients else TOLD_WITHIN,
        pools=tasks.POOL_QUEUES,
    )
    for history in shards:
        violations += check(history, IN_EACH_SHARD)
    seconds = time.process_time() - before
    return Day(seed, events, violations, faults, *figures(events), seconds)


def lived_through(
    plan: Plan, store: str, *, as_clients: bool
) -> tuple[list[AnyEvent], list[list[AnyEvent]], "Counter[str]"]:
    """The history of a day, those of its shards if it has any, and how often what went wrong."""
    loop = OrderedLoop()
    random.seed(plan.seed)  # a loop that tries again draws from it
    with seldom(), silence():
        try:
            asyncio.set_event_loop(loop)
            world = Operated(plan, store, loop, as_clients=as_clients)
            tasks.stage.world = world
            events = loop.run_until_complete(world.run())
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            asyncio.set_event_loop(None)
            loop.close()
    faults = world.faults
    shards = [each.events for each in world.shards]
    world.let_go()
    return events, shards, faults


def figures(events: list[AnyEvent]) -> tuple[int, int, int]:
    """How many jobs there were, how many attempts, and how many commits were refused."""
    jobs: set[str] = set()
    attempts = stale = 0
    for event in events:
        match event:
            case Enqueue():
                jobs.update(new.id for new in event.jobs)
            case Claim():
                attempts += len(event.taken or ())
            case Commit():
                jobs.update(new.id for ending in event.endings for new in ending.next)
                stale += (event.verdicts or []).count("stale")
    return len(jobs), attempts, stale


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Look for no garbage meanwhile, and afterwards only among what came to be meanwhile.

    A day leaves little that is not freed by itself, but makes much that would be looked through.
    """
    enabled = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        gc.unfreeze()
        if enabled:
            gc.enable()


@contextlib.contextmanager
def seldom() -> Iterator[None]:
    """Chores are done seldom."""
    with contextlib.ExitStack() as stack:
        for name, value in SELDOM.items():
            stack.enter_context(patch(name, value))
        yield
