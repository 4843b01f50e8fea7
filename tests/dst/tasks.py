"""The tasks of the simulated app. What each attempt does is drawn from the world's chance."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mulligan import Fail, Mulligan, RetryAfter, Snooze, astep, current_job
from mulligan.core.decide import policy_of
from mulligan.core.job import Claim
from mulligan.core.signals import Signal
from mulligan.engine.current import RUNNING
from tests.dst.children import CHILD, crash
from tests.history import Attempt
from tests.history.events import StepRun

if TYPE_CHECKING:
    from tests.dst.world import World

ERROR = "Error"
# How long an attempt takes when the day is over.
QUICK = 10.0
QUEUES = ("mail", "video", "index", "crunch")
# In which every task runs in child processes.
POOL_QUEUES = ("crunch",)
# Calls are apart: nothing else goes wrong with them.
SERVED = (*QUEUES, "calls")
BRIEF = 0.01
# What tasks raise, and the classes that policies name.
RAISED: tuple[type[Exception], ...] = (ValueError, ConnectionResetError, KeyError, TimeoutError)
NAMED: dict[str, type[Exception]] = {
    each.__name__: each for each in (ConnectionError, TimeoutError, LookupError)
}
# How long a step takes.
STEPS = (0.0, BRIEF, QUICK)
app = Mulligan("memory://")
# A customer's jobs run one at a time; of two providers' so many start in a while.
app.limit("account*", concurrency=1)
app.limit("window", rate=12, per=3600.0)
app.limit("bucket", rate=6, per=1800.0, burst=3)


class Stage:
    """Where the tasks find the world that they run in: one at a time."""

    world: "World"


stage = Stage()


async def attempt(value: Any, *, steps: Sequence[str] = ()) -> Any:
    """Take a while, in durable steps; then give the value, or fail in one of many ways."""
    world = stage.world
    claim = RUNNING.get()
    tell(claim.id, claim.token, "started")
    chance = world.chance
    for name in steps:
        await astep(name, piece, name)
    await asyncio.sleep(QUICK if world.at_peace else world.plan.duration(chance))
    drawn = chance.random()
    region_down = claim.worker_region in world.broken_regions
    if world.at_peace or (drawn > world.plan.failure_rate and not region_down):
        tell(claim.id, claim.token, "succeeded")
        return value
    said, what = failure(chance.random(), world.plan.delay(chance))
    if said == "failed" and not isinstance(what, Signal) and not retried(claim, what):
        said = "gave up"
    tell(claim.id, claim.token, said)
    if said == "crashed":
        await die()
    if isinstance(what, BaseException):
        raise what
    return what


async def piece(name: str) -> str:
    """What a step does: it tells that it ran, and takes a while."""
    claim = RUNNING.get()
    stage.world.note(StepRun(job=claim.id, token=claim.token, name=name))
    current_job().log(name)
    await asyncio.sleep(stage.world.chance.choice(STEPS))
    return name


async def dial(value: Any) -> Any:
    """Give the value, but fail at once where the region is out of order."""
    claim = RUNNING.get()
    tell(claim.id, claim.token, "started")
    await asyncio.sleep(BRIEF)
    if claim.worker_region == stage.world.hole:
        tell(claim.id, claim.token, "failed")
        raise ConnectionError("the region is out of order")
    tell(claim.id, claim.token, "succeeded")
    return value


def failure(drawn: float, delay: float) -> tuple[str, Any]:
    """One of the ways to fail, and what a task tells of it."""
    kind = RAISED[int(drawn * 1000) % len(RAISED)]
    ways: list[tuple[float, str, Any]] = [
        (0.15, "crashed" if CHILD.get() else "failed", kind("it went wrong")),
        (0.6, "failed", kind("it went wrong")),
        (0.7, "refused", ERROR),
        (0.8, "failed", RetryAfter(delay)),
        (0.9, "snoozed", Snooze(delay)),
        (1.0, "gave up", Fail("no retry would help")),
    ]
    return next((said, what) for until, said, what in ways if drawn < until)


def retried(claim: Claim, error: Exception) -> bool:
    """Whether the job's policy has it retried: by the classes themselves, not by their names."""
    policy = policy_of(claim.body)
    assert policy is not None
    named: Any = policy.retry.on, policy.retry.never
    on, never = (tuple(NAMED[name] for name in names) for names in named)
    return not isinstance(error, never) and (not on or isinstance(error, on))


async def die() -> None:
    """Crash the attempt's own process."""
    crash()
    await asyncio.Event().wait()


def tell(job: str, token: int, said: Any) -> None:
    """Write into the history what the task itself saw."""
    stage.world.note(Attempt(job=job, token=token, said=said))


def is_good(value: Any) -> bool:
    """The result gate."""
    return value != ERROR and not isinstance(value, Signal)


@app.sink(queue="index", accept=is_good)
async def pour(value: Any, key: str) -> Any:
    """The sink."""
    return await attempt(None)


@app.task(queue="index", accept=is_good)
async def mourn(letter: dict[str, Any]) -> Any:
    """Is told of dead letters."""
    return await attempt(None)


@app.task(queue="mail", accept=is_good, on_dead=mourn)
async def send(number: int) -> Any:
    """One job by itself, whose death is told."""
    return await attempt(number)


@app.task(queue="crunch", accept=is_good, sink=pour, pool="process")
async def crunch(number: int) -> Any:
    """One that runs in a child process, with a sink."""
    return await attempt(number)


@app.task(queue="video", accept=is_good, sink=pour)
async def render(number: int) -> Any:
    """One in steps, whose result goes to a sink."""
    return await attempt(number, steps=("cut", "mix", "print"))


@app.task(queue="video", accept=is_good)
async def split(number: int) -> Any:
    """The first stage of a chain: a list."""
    return await attempt(list(range(number % 4)))


@app.task(queue="mail", accept=is_good)
async def member(value: Any) -> Any:
    """One of several whose results are gathered."""
    return await attempt(value)


@app.task(queue="index", accept=is_good)
async def collect(values: list[Any]) -> Any:
    """Takes them all."""
    return await attempt(len(values))


@app.task(queue="index", accept=is_good)
async def after(value: Any) -> Any:
    """A last stage."""
    return await attempt(value)


@app.task(queue="calls", accept=is_good)
async def call(number: int) -> Any:
    """One of many that a region fails at once while it is out of order."""
    return await dial(number)
