"""The app whose processes are killed, and which writes down what they ask and what tasks do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mulligan import Delays, Failure, Mulligan, Retry, Settings, astep, current_job, each
from tests.chaos.recorded_app import Recorded, attempt, step_runs
from tests.failpoints.points import POINTS

# Short enough that a lost lease is found soon, long enough that a slow machine keeps its own.
LEASE, BEAT = 1.0, 0.2
PATIENT = Retry(30, Delays((0.02,)))
ONCE = Retry(1, Delays((0.02,)))
MONTH = 30 * 86_400.0
MAKE_KEPT = "CREATE TABLE IF NOT EXISTS kept (key TEXT, value INTEGER)"


def make_app(url: str, mark: str) -> Mulligan:
    """The app on this store; `mark` begins the ids of its jobs and the names of its keys."""
    app = Recorded(url, settings=Settings(lease=LEASE, beat=BEAT, concurrency=8))
    declare_plain(app)
    declare_special(app, mark)
    declare_sink(app)
    return app


@contextmanager
def running() -> Iterator[None]:
    """An attempt, written down, with a point at which to die."""
    with attempt():
        POINTS.here("in the attempt")
        yield


def declare_plain(app: Mulligan) -> None:
    """Tasks that succeed, at once or after all, and those that chains are made of."""

    @app.task(retry=PATIENT)
    async def step(value: int) -> int:
        with running():
            return value + 1

    @app.task(retry=PATIENT)
    async def stumble(value: int) -> int:
        with running():
            if current_job().attempt == 1:
                raise ValueError("the first attempt never works")
            return value

    @app.task(retry=PATIENT)
    async def spread(count: int) -> list[int]:
        with running():
            return list(range(count))

    @app.task(retry=PATIENT)
    async def total(values: list[int]) -> int:
        with running():
            return sum(values)

    @app.task(retry=PATIENT)
    async def tally(values: list[int | Failure]) -> int:
        with running():
            return sum(not isinstance(each, Failure) for each in values)

    @app.task(retry=PATIENT)
    async def in_steps(value: int) -> list[str]:
        with attempt():
            job = current_job()
            done = [await astep("one", run_step, "one")]
            job.progress(1, of=3)
            job.log("one is done")
            done.append(await astep("two", run_step, "two"))
            await job.acheckpoint(done)
            if job.attempt == 1:
                raise ValueError("the first attempt never works")
            assert await job.alast_checkpoint() == ["one", "two"]
            return [*done, await astep("three", run_step, "three")]


async def run_step(name: str) -> str:
    """What a step does: it may die before it ran, and before it is recorded."""
    POINTS.here(f"before step {name}")
    step_runs(name)
    POINTS.here(f"after step {name}")
    return name


def declare_special(app: Mulligan, mark: str) -> None:
    """A task that never succeeds, one that runs alone, and one that runs by the clock."""

    @app.task(retry=PATIENT)
    async def bury(letter: dict[str, Any]) -> None:
        with running():
            pass

    @app.task(retry=ONCE, on_dead=bury)
    async def never(value: int) -> None:
        with running():
            raise ValueError("this one never works")

    app.limit(f"{mark}-limit", concurrency=1)

    @app.task(retry=PATIENT, limits=f"{mark}-limit")
    async def limited(value: int) -> int:
        with running():
            return value

    @app.task(name=f"{mark}-tick", every=MONTH, retry=PATIENT)
    async def tick() -> None:
        with running():
            pass


def declare_sink(app: Mulligan) -> None:
    """A sink that writes within the transaction that finishes it, where the store has such."""
    if app.url.startswith("sqlite"):

        @app.sink(transactional=True, retry=PATIENT)
        def keep(connection: Any, value: int, key: str) -> None:
            with running():
                connection.execute(MAKE_KEPT)
                connection.execute("INSERT INTO kept VALUES (?, ?)", (key, value))

    elif app.url.startswith("postgresql"):

        @app.sink(transactional=True, retry=PATIENT)
        async def keep(connection: Any, value: int, key: str) -> None:
            with running():
                await connection.execute(MAKE_KEPT)
                await connection.execute("INSERT INTO kept VALUES (%s, %s)", (key, value))

    else:
        return

    @app.task(retry=PATIENT, sink=keep)
    async def give(value: int) -> int:
        with running():
            return value


def fan_out(app: Mulligan) -> Any:
    """A chain whose second stage has a job for each element, gathered by the third."""
    return app.tasks["spread"] | each(app.tasks["step"]) | app.tasks["total"]
