"""The app that chaos runs: short jobs of every kind, of which some fail and a few never succeed."""

import asyncio
import os
import random
from typing import Any

from mulligan import Budget, Delays, Exponential, Retry, RetryAfter, Settings, current_job, each
from mulligan.app import Prepared
from tests.chaos.recorded_app import Recorded, attempt

URL = "MULLIGAN_CHAOS_URL"
LEASE, BEAT = 2.0, 0.5
# So many attempts take long enough to be met by whatever happens to their worker.
LONG = 0.1
OFTEN = Retry(20, Exponential(0.05, 2, 0.5))
# A queue that is paused and resumed all the time, and a region in which only few workers are.
HALTING, WEST = "halting", "west"

app = Recorded(
    os.environ.get(URL, "memory://"),
    settings=Settings(lease=LEASE, beat=BEAT, concurrency=20, drain_timeout=20),
)


# In a run with this set, there are only jobs with limits and fairness keys.
ONLY_LIMITED = "MULLIGAN_CHAOS_ONLY_LIMITED"
# The window of the provider's limit, in seconds.
WINDOW = 1.0

app.queue("fair", weights={"gold": 3})
app.queue("capped", policy="capped(2)")
app.queue("budgeted", policy="retry-first", budget=Budget(10, 1.0))


async def take_a_while(failing: float = 0.1, refused: float = 0.0) -> bool:
    """Mostly milliseconds, now and then a second or two; whether the result is any good."""
    long = random.random() < LONG
    with attempt() as ending:
        await asyncio.sleep(random.uniform(0.5, LEASE) if long else random.uniform(0.001, 0.05))
        if random.random() < failing:
            raise TimeoutError(f"attempt {current_job().attempt} met a bad network")
        if random.random() < refused:
            ending.said = "refused"
    return ending.said == "succeeded"


@app.task(queue="chaos", retry=OFTEN)
async def work(number: int) -> int:
    """One job among many."""
    await take_a_while()
    return number


@app.task(queue="chaos", retry=OFTEN)
async def dig(number: int) -> list[int]:
    """The first stage of a chain that spreads."""
    await take_a_while()
    return [number, number + 1, number + 2]


@app.task(queue="chaos", retry=OFTEN)
async def add(numbers: list[int]) -> int:
    """The last stage, which gathers."""
    await take_a_while()
    return sum(numbers)


app.limit("few", concurrency=3)


@app.task(queue="chaos", retry=OFTEN, limits="few")
async def squeeze(number: int) -> int:
    """One of those of which three may run at a time."""
    await take_a_while()
    return number


app.limit("provider", rate=40, per=WINDOW)
app.limit("tokens", rate=400, per=WINDOW, burst=100)
app.limit("tenant:*", concurrency=2)


@app.task(queue="fair", retry=OFTEN, limits="provider", fairness_key=lambda who, _: who)
async def ask(who: str, number: int) -> int:
    """One of those of which so many start in a second; now and then all are to wait a little."""
    with attempt():
        if random.random() < 0.02:
            raise RetryAfter(0.2, pause="provider")
    return number


@app.task(queue="fair", retry=OFTEN, limits={"tokens": 3}, fairness_key=lambda who, _: who)
async def embed(who: str, number: int) -> int:
    """One that spends more than it costs."""
    current_job().spend("tokens", 2)
    await take_a_while()
    return number


@app.task(queue="fair", retry=OFTEN, limits=lambda who, _: {f"tenant:{who}": 1, "provider": 1})
async def serve(who: str, number: int) -> int:
    """One that needs two limits, one of them of a family."""
    await take_a_while()
    return number


@app.task(queue="fair", retry=OFTEN, fairness_key=lambda who, _: who)
async def render(who: str, number: int) -> int:
    """One that waits for its customer's turn."""
    await take_a_while()
    return number


@app.task(queue="capped", retry=OFTEN)
async def crowd(number: int) -> int:
    """One of those of which two retries may run at a time."""
    await take_a_while(failing=0.4)
    return number


@app.task(queue="budgeted", retry=OFTEN)
async def spend(number: int) -> int:
    """One of those of which ten retries may start in a second."""
    await take_a_while(failing=0.4)
    return number


@app.task(queue=HALTING, retry=OFTEN)
async def halt(number: int) -> int:
    """One of those that wait while their queue is paused."""
    await take_a_while()
    return number


@app.sink(queue="chaos", retry=OFTEN)
async def keep(number: int, key: str) -> None:
    """Where accepted results go."""
    assert number >= 0, f"{key} is a result that was refused"
    await take_a_while()


@app.task(queue="chaos", retry=OFTEN, accept=lambda number: number >= 0, sink=keep)
async def guess(number: int) -> int:
    """One whose result is not good at first, mostly."""
    return number if await take_a_while(refused=0.4) else -1


@app.task(queue="chaos", retry=OFTEN)
async def mourn(letter: dict[str, Any]) -> str:
    """What is done about a dead letter."""
    await take_a_while()
    return str(letter["id"])


@app.task(queue="chaos", retry=Retry(2, Delays((0.05,))), on_dead=mourn)
async def despair(number: int) -> None:
    """Never works."""
    with attempt():
        raise ValueError("this one never works")


def batch(name: str) -> list[Prepared[Any]]:
    """The calls that a producer enqueues together: of every kind some, under fixed ids."""
    plain = [work.using(id=f"{name}-{number}").call(number) for number in range(2)]
    line = (work | work | work).using(id=f"{name}-line", unique_key=f"{name}-line")
    fan = (dig | each(work) | add).using(id=f"{name}-fan")
    few = [squeeze.using(id=f"{name}-few{number}").call(number) for number in range(2)]
    later = work.using(id=f"{name}-later", delay=0.5).call(7)
    sad = despair.using(id=f"{name}-sad").call(0)
    special = [
        work.using(id=f"{name}-urgent", priority="urgent").call(8),
        work.using(id=f"{name}-west", region=WEST).call(9),
        crowd.using(id=f"{name}-crowd").call(10),
        spend.using(id=f"{name}-spend").call(11),
        halt.using(id=f"{name}-halt").call(12),
        guess.using(id=f"{name}-guess").call(13),
    ]
    return [*plain, line.call(1), fan.call(1), *few, later, sad, *special]


def limited(name: str) -> list[Prepared[Any]]:
    """Calls with limits and fairness keys, of two customers, one of whom sends more."""
    return [
        task.using(id=f"{name}-{task.name}{number}").call(who, number)
        for task in (ask, embed, serve, render)
        for number, who in enumerate(["loud"] * 3 + ["gold"])
    ]
