"""Tasks that run by a schedule, as a user declares them."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from mulligan import InvalidError, Mulligan, Settings, current_job
from mulligan.core.worker import Worker
from mulligan.engine.worker import Engine
from mulligan.stores.memory import MemoryStore
from mulligan.testing import VirtualLoop

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC).timestamp()


@pytest.fixture
def app():
    return Mulligan("memory://")


def played(app: Mulligan, *spans: tuple[float, int], start: float = NOON) -> MemoryStore:
    """Run so many workers for so long, one fleet after the other, in virtual time."""
    loop = VirtualLoop()
    store = MemoryStore(clock=lambda: start + loop.time())

    async def run(seconds: float, workers: int, life: int) -> None:
        engines = [
            Engine(
                store,
                app.tasks,
                Worker(f"w{number}.{life}", "default", app.queue_names),
                Settings(),
                monotonic=loop.time,
                declared=app.declared_schedules,
            )
            for number in range(workers)
        ]
        running = [asyncio.ensure_future(engine.run()) for engine in engines]
        await asyncio.sleep(seconds)
        for engine in engines:
            engine.stop()
        await asyncio.gather(*running)

    for life, (seconds, workers) in enumerate(spans):
        loop.run_until_complete(run(seconds, workers, life))
    loop.close()
    return store


@pytest.fixture
def ticks():
    """The ids of the jobs that ran, in order."""
    return []


def test_a_task_runs_once_a_tick_however_many_workers_there_are(app, ticks):
    @app.task(every=10)
    def tidy() -> None:
        ticks.append(current_job().id)

    played(app, (35, 3))
    assert ticks == [f"tidy@2026-01-31T12:00:{second}Z" for second in (10, 20, 30)]


def test_a_cron_task_runs_in_its_time_zone(app, ticks):
    @app.task(cron="30 13 * * *", timezone="Europe/Berlin")
    async def report() -> None:
        ticks.append(current_job().id)

    played(app, (3600, 1), (23 * 3600, 0), (3600, 1))
    assert ticks == ["report@2026-01-31T12:30:00Z", "report@2026-02-01T12:30:00Z"]


def test_ticks_that_nobody_was_there_for_are_made_up_for_by_one_run_of_the_latest(app, ticks):
    @app.task(every=timedelta(minutes=1))
    def tidy() -> None:
        ticks.append(current_job().id)

    # Nobody from 12:01:30 to 12:04:30; the tick of 12:02 lay ready, and that of 12:04 runs for it.
    played(app, (90, 1), (180, 0), (45, 2))
    minutes = [job.removeprefix("tidy@2026-01-31T12:").removesuffix("Z") for job in ticks]
    assert sorted(minutes) == ["01:00", "04:00", "05:00"]


def test_a_tick_that_fails_is_retried_and_the_next_comes_in_its_time(app, ticks):
    @app.task(every=60)
    def tidy() -> None:
        ticks.append((current_job().id[-9:], current_job().attempt))
        if current_job().attempt == 1:
            raise ConnectionError("away")

    played(app, (130, 1))
    assert ticks == [("12:01:00Z", 1), ("12:01:00Z", 2), ("12:02:00Z", 1), ("12:02:00Z", 2)]


def test_a_tick_expires_so_long_after_its_time_and_not_after_it_was_placed(app, ticks):
    @app.task(every=60, expires=10)
    def tidy() -> None:
        ticks.append(current_job().id)

    store = played(app, (130, 1))
    assert ticks == ["tidy@2026-01-31T12:01:00Z", "tidy@2026-01-31T12:02:00Z"]
    following = asyncio.run(store.get("tidy@2026-01-31T12:03:00Z"))
    assert following is not None
    assert following.expires_at == NOON + 180 + 10


def test_a_tick_goes_where_its_task_goes(app, ticks):
    @app.task(every=60, queue="nightly", priority="urgent")
    def tidy() -> None:
        ticks.append((current_job().queue, current_job().lane))

    played(app, (70, 1))
    assert ticks == [("nightly", "urgent")]


def test_a_periodic_task_can_still_be_enqueued(app):
    @app.task(every=60)
    def tidy() -> int:
        return 1

    with app.testing():
        assert tidy.enqueue().result() == 1


def test_what_could_not_tick_is_refused(app):
    def plain() -> None: ...

    def needs(what: str) -> None: ...

    with pytest.raises(InvalidError, match="cron '0 2 \\* \\* \\*' and every 5: give one of them"):
        app.task(cron="0 2 * * *", every=5)(plain)
    with pytest.raises(InvalidError, match="timezone 'UTC' goes with cron=, which is missing"):
        app.task(every=5, timezone="UTC")(plain)
    with pytest.raises(InvalidError, match="cannot be called so: missing a required argument"):
        app.task(every=5)(needs)
    with pytest.raises(InvalidError, match="cron 'daily' cannot be read"):
        app.task(cron="daily")(plain)
    with pytest.raises(InvalidError, match="use at most 107"):
        app.task(every=5, name="x" * 108)(plain)


def test_with_a_unique_key_a_tick_is_skipped_while_the_job_before_has_not_ended(app, ticks):
    @app.task(every=10, unique_key="k")
    async def tidy() -> None:
        ticks.append(current_job().id)
        await asyncio.sleep(15)

    played(app, (65, 2))
    assert [each[-3:-1] for each in ticks] == ["10", "30", "50"]


def test_catch_up_goes_with_a_schedule(app):
    with pytest.raises(InvalidError, match="catch_up 'all' goes with cron= or every="):
        app.task(catch_up="all")(lambda: None)
    with pytest.raises(InvalidError, match="catch_up 'some' is not one of one, none, all"):
        app.task(every=5, catch_up="some")(lambda: None)
