"""One process dies at one point, or misses an answer there; a clean one finishes and looks.

Both are children of a server that has everything imported, so that a process costs milliseconds.
"""

import asyncio
import logging
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, NamedTuple

from pymongo.errors import AutoReconnect

from mulligan.core.errors import StoreUnavailableError
from mulligan.core.job import ENDED
from mulligan.core.reschedule import Reschedule
from mulligan.core.settings import BATCH_LIMIT
from tests.chaos.recorded_app import HISTORY
from tests.failpoints.app import make_app
from tests.failpoints.invariants import Records, check, contradicted, leases_of
from tests.failpoints.plays import PLAYS, Play, tick
from tests.failpoints.points import POINTS, within
from tests.failpoints.scene import LOOK_EVERY, Scene, work_until_ended
from tests.failpoints.taps import tap

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["tests.failpoints.one_death", "mulligan.stores.sqlite", "mulligan.stores.redis",
     "mulligan.stores.postgres", "mulligan.stores.mongo"]
)  # fmt: skip
# Longer than a worker of a play goes on, so that what is wrong is seen by who looks.
LONGEST_WAIT = 120.0
LOOKS = 40
# How a process ends that has missed an answer, and what its driver raises there.
MISSED = 7
LOST = AutoReconnect("the connection was lost before the answer came")
# Every worker places the next tick of the app's one periodic task.
PLACED = {"tick": "pending"}
# What a worker does every second, and how long a half-taken permit may be somebody's yet.
QUICKER: dict[str, float] = {
    "mulligan.engine.worker:REAP_EVERY": 0.1,
    "mulligan.engine.worker:KEEP_HOUSE_EVERY": 0.1,
    "mulligan.engine.reporter:EVERY": 0.2,
    "mulligan.stores.batches:BATCH_LIMIT": 3,
    "mulligan.stores.mongo.limits:GRACE": 300_000,
    "mulligan.stores.mongo.repair:SWEEP_EVERY": 200_000,
}


class Case(NamedTuple):
    """A play on a store of its own, and the point at which its process is to die.

    Where it `misses` an answer instead, it goes on: the server has done what it was asked.
    All its processes write down what they ask of the store, to files in the folder `history`.
    """

    play: str
    url: str
    mark: str
    history: Path
    point: str | None = None
    misses: bool = False


class Outcome(NamedTuple):
    """What became of it: whether the process came to the point, and what is wrong afterwards."""

    point: str
    died: bool
    wrong: list[str]


async def points_of(case: Case) -> list[str]:
    """The points that the play passes, by a process that dies at none."""
    points: list[str] = await ask(rehearse, case)
    operations = play_of(case).operations
    return [point for point in points if within(point) in operations]


async def kill_at(case: Case) -> Outcome:
    """Let a process die or miss an answer at the point, then let a clean one finish and look."""
    code = await ended(PROCESSES.Process(target=perform, args=(case,), daemon=True))
    came = MISSED if case.misses else -signal.SIGKILL
    wrong = [] if code in (0, came) else [f"the process ended with {code} before that"]
    try:
        wrong += await ask(finish, case)
    except ChildProcessError as error:
        wrong.append(f"nothing could put it right: {error}")
    return Outcome(case.point or "", code == came, wrong)


async def ask(target: Callable[[Case, Connection], None], case: Case) -> Any:
    """What another process answers. Raises ChildProcessError if it ends without an answer."""
    ours, theirs = PROCESSES.Pipe(duplex=False)
    code = await ended(PROCESSES.Process(target=target, args=(case, theirs), daemon=True))
    theirs.close()
    try:
        return ours.recv()
    except EOFError:
        raise ChildProcessError(f"{case.play}: a clean process ended with {code}") from None
    finally:
        ours.close()


async def ended(process: ForkServerProcess, *, started: bool = False) -> int | None:
    """Wait for the end of the process; its exit code, None if it took too long."""
    if not started:
        process.start()
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(process.sentinel, over.set)
    try:
        async with asyncio.timeout(LONGEST_WAIT):
            await over.wait()
    except TimeoutError:
        return None
    finally:
        loop.remove_reader(process.sentinel)
        process.kill()
        process.join()
    return process.exitcode


# -- in the other process ------------------------------------------------------------------


def perform(case: Case) -> None:
    """Play up to the point of death, or to the end."""
    asyncio.run(with_scene(case, begin))
    if case.misses and POINTS.deadly is None:
        sys.exit(MISSED)


def rehearse(case: Case, answer: Connection) -> None:
    """Play to the end, and say which points were passed."""
    perform(case._replace(point=None))
    answer.send(list(POINTS.seen))
    asyncio.run(with_scene(case, clear))


def finish(case: Case, answer: Connection) -> None:
    """Do what a clean process does after the crash, and say what is wrong in the end."""
    answer.send(asyncio.run(with_scene(case, end)))


async def begin(case: Case, scene: Scene) -> list[str]:
    """Prepare the play, then take part in it with the point armed."""
    play = play_of(case)
    await Records(case.history).begin(scene.store)
    await play.prepare(scene)
    tap(case.url)
    POINTS.arm(case.point, LOST if case.misses else None)
    with suppress(StoreUnavailableError) if case.misses else nullcontext():
        await play.act(scene)
    POINTS.armed = False
    return []


async def end(case: Case, scene: Scene) -> list[str]:
    """Ask again what was not answered, work until all is quiet, and look."""
    play = play_of(case)
    held = await leases_of(scene)
    if play.again:
        await play.act(scene)
    ends = {} if play.or_not and not await scene.jobs() else play.ends
    await work_until_ended(name for name, status in ends.items() if status in ENDED)(scene)
    await tick(scene)
    records = Records(case.history)
    wrong = await check(scene, ends | PLACED, held, records)
    for _ in range(LOOKS):
        if not wrong:
            break
        # What was cut off may be finished in several writes, by any process that is alive: the
        # worker may have stopped before it had kept house once.
        await asyncio.sleep(LOOK_EVERY)
        await scene.store.promote(BATCH_LIMIT)
        wrong = await check(scene, ends | PLACED, held, records)
    wrong += await contradicted(scene, records)
    await clear(case, scene)
    return wrong


async def clear(_case: Case, scene: Scene) -> list[str]:
    """Leave the place as it was found."""
    for name, record in (await scene.store.schedules()).items():
        if name.startswith(f"{scene.mark}-"):
            await scene.store.reschedule(Reschedule(name, record, None))
    ids = [job.id for job in await scene.jobs()]
    await scene.store.cancel(ids, "the play is over")
    await scene.store.purge(ids)
    return []


async def with_scene(case: Case, part: Callable[[Case, Scene], Any]) -> list[str]:
    """Open the store, and do the part."""
    logging.disable(logging.CRITICAL)
    for name, value in QUICKER.items():
        module, _, constant = name.partition(":")
        assert hasattr(import_module(module), constant), name
        setattr(import_module(module), constant, value)
    case.history.mkdir(exist_ok=True)
    os.environ[HISTORY] = str(case.history)
    app = make_app(case.url, case.mark)
    store = app.make_store()
    await store.open()
    try:
        wrong: list[str] = await part(case, Scene(app, store, case.mark))
        return wrong
    finally:
        await store.close()
        app.close()


def play_of(case: Case) -> Play:
    """The play by its name."""
    return next(play for play in PLAYS if play.title == case.play)
