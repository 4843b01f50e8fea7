"""Schedules as a user stores and changes them."""

import asyncio
from datetime import UTC, datetime

import pytest

from mulligan import InvalidError, Mulligan, UnknownScheduleError, current_job
from tests.app.test_periodic import played


@pytest.fixture
def app():
    return Mulligan("memory://")


@pytest.fixture
def ran():
    """The arguments of the jobs that ran, in order."""
    return []


@pytest.fixture
def report(app, ran):
    @app.task
    def report(customer: int, kind: str = "short") -> int:
        ran.append((customer, kind))
        return customer

    return report


def test_a_call_runs_by_itself_until_it_is_removed(app, report, ran):
    with app.testing() as t:
        view = app.schedules.put("acme", report.call(7, kind="long"), every=10)
        assert (view.next_ticks, view.state) == ([10.0, 20.0, 30.0, 40.0, 50.0], "active")
        t.advance(25)
        assert ran == [(7, "long")] * 2
        app.schedules.remove("acme")
        t.advance(60)
        assert (len(ran), app.schedules.list()) == (2, [])


def test_an_edit_takes_the_place_of_the_tick_that_was_placed(app, report, ran):
    with app.testing() as t:
        app.schedules.put("acme", report.call(1), every=100)
        t.advance(50)
        app.schedules.put("acme", report.call(2), every=100)
        t.advance(51)
        app.schedules.put("acme", report.call(3), every=30)
        t.advance(20)
        assert ran == [(2, "short"), (3, "short")]


def test_a_pause_skips_ticks_and_nothing_is_made_up_for(app, report, ran):
    with app.testing() as t:
        app.schedules.put("acme", report.call(1), every=10, catch_up="all")
        app.schedules.pause("acme")
        app.schedules.pause("acme")
        t.advance(95)
        paused = app.schedules.get("acme")
        assert (ran, paused.state, paused.next_tick) == ([], "paused", None)
        app.schedules.resume("acme")
        t.advance(10)
        assert len(ran) == 1


def test_it_can_be_run_now_beside_its_ticks(app, report, ran):
    with app.testing() as t:
        app.schedules.put("acme", report.call(1), every=1000)
        assert app.schedules.run_now("acme").result() == 1
        assert app.schedules.run_now("acme").id != app.schedules.run_now("acme").id
        t.drain()
        assert len(ran) == 3
        assert app.schedules.get("acme").next_tick == 1000


def test_the_options_of_the_call_are_those_of_its_jobs(app, report):
    call = report.using(queue="nightly", region="EU", priority="urgent", expires=30).call(1)
    with app.testing() as t:
        view = app.schedules.put("acme", call, cron="30 * * * *")
        [job] = t.jobs()
        assert (job.queue, job.region, job.priority, job.due) == ("nightly", "EU", 2, 1800.0)
        assert job.expires_at == 1830.0
        assert view.queue == "nightly"
        assert view.options == {"region": "EU", "priority": 2, "expires": 30.0}


def test_a_chain_is_scheduled_as_a_whole(app, report, ran):
    @app.task
    def twice(value: int) -> int:
        ran.append((2 * value, current_job().id))
        return 2 * value

    with app.testing() as t:
        app.schedules.put("acme", (report | twice).call(4), every=60)
        t.advance(121)
        done = [each for each in ran if each[0] == 8]
    assert [job.partition("~")[0] for _, job in done] == [
        "acme@1970-01-01T00:01:00Z",
        "acme@1970-01-01T00:02:00Z",
    ]


def test_declared_schedules_stand_beside_stored_ones(app, report, ran):
    @app.task(every=60)
    def tidy() -> None:
        ran.append("tidy")

    with app.testing() as t:
        app.schedules.put("acme", report.call(1), every=60)
        t.advance(61)
        assert sorted(map(str, ran)) == ["(1, 'short')", "tidy"]
        views = {view.name: view for view in app.schedules.list()}
        assert (views["tidy"].declared, views["tidy"].state) == (True, "active")
        with pytest.raises(InvalidError, match="declared by its task and cannot be put"):
            app.schedules.put("tidy", report.call(1), every=5)
        with pytest.raises(InvalidError, match="declared by its task and cannot be removed"):
            app.schedules.remove("tidy")
        app.schedules.pause("tidy")
        t.advance(120)
        assert ran.count("tidy") == 1


def test_a_declared_schedule_without_a_worker_is_undeclared(app):
    @app.task(every=60)
    def tidy() -> None: ...

    with app.testing() as t:
        t.advance(1)
        t.run(t.store.note("declares:default-0", None, 0))
        assert app.schedules.get("tidy").state == "undeclared"


async def test_coroutines_have_all_of_it(app, report, ran):
    async with app.testing() as t:
        await app.schedules.aput("acme", report.call(1), every=10)
        await t.aadvance(11)
        await app.schedules.apause("acme")
        await app.schedules.aresume("acme")
        job = await app.schedules.arun_now("acme")
        assert await job.aresult() == 1
        assert [view.name for view in await app.schedules.alist()] == ["acme"]
        assert (await app.schedules.aget("acme")).ticks == 1
        await app.schedules.aremove("acme")
        assert await app.schedules.aget("acme") is None


def test_a_preview_stores_nothing(app):
    ticks = app.schedules.preview(cron="0 9 * * *", timezone="Europe/Berlin", count=3)
    assert len(ticks) == 3
    assert all(tick > datetime.now(UTC) for tick in ticks)
    assert app.schedules.list() == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"cron": "0 0 31 2 *"}, "cron '0 0 31 2 \\*' cannot be read"),
        ({"cron": "often"}, "cron 'often' cannot be read"),
        ({"cron": "0 9 * * *", "timezone": "Mars/Base"}, "timezone 'Mars/Base' is not known"),
        ({"every": 0}, "every 0 must be between 1 s and"),
        ({"every": 0.5}, "every 0.5 must be between 1 s and"),
        ({"every": 5, "cron": "0 9 * * *"}, "give one of them"),
        ({"every": 5, "timezone": "UTC"}, "goes with cron="),
        ({}, "has neither cron nor every; give one of them"),
        ({"every": 5, "catch_up": "some"}, "catch_up 'some' is not one of one, none, all"),
    ],
)
def test_what_never_ticks_is_refused_and_nothing_is_stored(app, report, words, said):
    with app.testing() as t:
        with pytest.raises(InvalidError, match=said):
            app.schedules.put("acme", report.call(1), **words)
        assert (app.schedules.list(), t.jobs()) == ([], [])


def test_a_call_that_cannot_be_scheduled_is_refused(app, report):
    other = Mulligan("memory://")

    @other.task
    def foreign() -> None: ...

    with app.testing():
        with pytest.raises(InvalidError, match="is no call; give one"):
            app.schedules.put("acme", report, every=5)
        with pytest.raises(InvalidError, match="call of task foreign belongs to another app"):
            app.schedules.put("acme", foreign.call(), every=5)
        with pytest.raises(InvalidError, match="its call has a delay of 5 s"):
            app.schedules.put("acme", report.using(delay=5).call(1), every=5)
        with pytest.raises(InvalidError, match="use at most 107"):
            app.schedules.put("x" * 108, report.call(1), every=5)
        for change in (app.schedules.pause, app.schedules.resume, app.schedules.remove):
            with pytest.raises(UnknownScheduleError, match="no schedule 'none' is stored"):
                change("none")
        with pytest.raises(UnknownScheduleError, match="no schedule 'none' is stored"):
            app.schedules.run_now("none")


def test_many_edits_at_once_leave_one_tick(app, report):
    async def race() -> None:
        await asyncio.gather(
            *[app.schedules.aput("acme", report.call(n), every=60 + n) for n in range(8)]
        )

    with app.testing() as t:
        t.run(race())
        assert [job.status for job in t.jobs()] == ["pending"]


SPRING = datetime(2026, 3, 29, 0, 15, tzinfo=UTC).timestamp()
AUTUMN = datetime(2026, 10, 25, 0, 15, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(("start", "hour"), [(SPRING, "01:00"), (AUTUMN, "00:30")])
def test_in_a_night_in_which_the_clocks_change_a_tick_comes_once(app, ran, start, hour):
    @app.task(cron="30 2 * * *", timezone="Europe/Berlin")
    def nightly() -> None:
        ran.append(current_job().id)

    @app.task(cron="*/30 * * * *", timezone="Europe/Berlin")
    def often() -> None:
        ran.append(current_job().id)

    played(app, (2 * 3600, 2), start=start)
    [night] = [each for each in ran if each.startswith("nightly")]
    assert night.endswith(f"T{hour}:00Z")
    assert sorted(each[-9:-4] for each in ran if each.startswith("often")) == [
        "00:30",
        "01:00",
        "01:30",
        "02:00",
    ]
