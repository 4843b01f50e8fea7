"""The public API, as a user meets it."""

import asyncio
import inspect
import pydoc
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import mulligan
from mulligan import (
    Budget,
    Delays,
    InvalidError,
    Mulligan,
    MulliganError,
    ResultTimeoutError,
    Retry,
    UnknownJobError,
    Weighted,
    current_job,
)


@pytest.fixture
def app():
    app = Mulligan("memory://")
    yield app
    app.close()


def test_a_task_is_still_its_function(app):
    @app.task
    def double(x: int) -> int:
        """Twice as much."""
        return 2 * x

    @app.task
    async def triple(x: int) -> int:
        return 3 * x

    assert double(4) == 8
    assert asyncio.run(triple(4)) == 12
    assert (double.__name__, double.__doc__) == ("double", "Twice as much.")
    assert repr(double) == "<task double of queue default>"


@pytest.mark.parametrize("name", mulligan.__all__)
def test_help_says_what_every_public_name_is(name):
    assert name in pydoc.render_doc(getattr(mulligan, name))


def test_help_says_what_the_package_is():
    assert "a job queue" in pydoc.render_doc(mulligan)


def test_two_tasks_of_one_name_are_refused(app):
    @app.task(name="same")
    def one() -> None: ...

    with pytest.raises(InvalidError, match="task 'same' exists already"):
        app.task(name="same")(one.function)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"queue": ""}, "queue '' has 0 characters"),
        ({"queue": "a\nb"}, "control character"),
        ({"queue": "x" * 129}, "129 characters"),
        ({"queue": 5}, "must be text"),
        ({"region": "*US"}, "must not begin with"),
        ({"priority": "high"}, "priority 'high' is not one of normal"),
        ({"retry": 3}, "use Retry"),
        ({"timeout": -1}, "timeout -1 must be between"),
        ({"delay": -1}, "delay -1 must be between"),
        ({"delay": float("nan")}, "delay nan must be between"),
        ({"delay": "soon"}, "must be a number of seconds"),
        ({"run_after": datetime(2030, 1, 1)}, "with a time zone"),  # noqa: DTZ001
        ({"delay": 1, "run_after": datetime.now(UTC)}, "not both"),
        ({"limits": {"api": 0}}, "cost 0 of limit 'api' must be"),
        ({"colour": "red"}, "option 'colour' is not one of"),
        ({"expires": 0.0001}, "expires"),
    ],
)
def test_options_that_make_no_sense_are_refused_when_given(app, options, words):
    @app.task
    def task() -> None: ...

    with pytest.raises(InvalidError, match=words):
        task.using(**options)


def test_a_task_that_is_declared_wrongly_is_told_what_there_is(app):
    with pytest.raises(InvalidError, match=r"option 'acept' is not one of queue, .*, accept, "):
        app.task(acept=bool)
    with pytest.raises(InvalidError, match="task 'send' is no function; give a name as name="):
        app.task("send")


def test_on_dead_must_be_a_task(app):
    with pytest.raises(InvalidError, match="must be a task"):
        app.task(on_dead=print)


def test_a_queues_settings_are_checked_when_declared(app):
    assert app.queue("a", policy="weighted(retry=0.2)").policy == Weighted(0.2)
    assert app.queue("b", policy=Weighted(0.3), budget=Budget(100)).budget == Budget(100)
    with pytest.raises(InvalidError, match="fetch policy 'fair'"):
        app.queue("c", policy="fair")
    assert app.queue_names == ("a", "b")


def test_enqueueing_many_keeps_their_order_and_duplicates_are_told(app):
    @app.task
    def ask(question: str) -> str:
        return question

    with app.testing() as t:
        handles = app.enqueue_many(ask.call(str(i)) for i in range(2500))
        assert len(handles) == 2500
        first = ask.using(unique_key="one").enqueue("x")
        second = ask.using(unique_key="one").enqueue("y")
        assert (first.created, second.created, second.id == first.id) == (True, False, True)
        assert first == second
        assert len({first, second}) == 1
        t.drain()
        assert ask.using(unique_key="one").enqueue("z").created
        named = ask.using(id="mine").enqueue("x")
        assert named.id == "mine"
        assert not ask.using(id="mine").enqueue("x").created


def test_a_result_that_is_late_says_why(app):
    @app.task(region="MARS")
    def ask() -> None: ...

    with app.testing():
        job = ask.enqueue()
        with pytest.raises(ResultTimeoutError, match="no live worker serves queue default"):
            job.result(timeout=timedelta(seconds=10))


def test_an_unknown_job_is_said_to_be_unknown(app):
    with app.testing(), pytest.raises(UnknownJobError, match="no job 'nope' is stored"):
        app.job("nope").info()
    with app.testing(), pytest.raises(UnknownJobError):
        app.job("nope").explain()


def test_current_job_outside_a_task_is_refused():
    with pytest.raises(MulliganError, match="outside a running task"):
        current_job()


def test_run_after_is_a_moment(app):
    @app.task
    def ask() -> None: ...

    with app.testing() as t:
        job = ask.using(run_after=datetime.now(UTC) + timedelta(hours=1)).enqueue()
        assert job.info().due == pytest.approx(3600, abs=5)
        past = ask.using(run_after=datetime.now(UTC) - timedelta(hours=1)).enqueue()
        assert past.info().due <= t.now


def test_dead_letters_can_be_listed_replayed_and_purged(app):
    @app.task(retry=Retry(0))
    def doomed(n: int) -> None:
        raise ValueError(f"no {n}")

    with app.testing() as t:
        handles = [doomed.enqueue(n) for n in range(3)]
        t.drain()
        letters = app.dead_letters("default")
        assert len(letters) == 3
        assert {job.last_failure_reason for job in letters} == {
            f"ValueError: no {n}" for n in range(3)
        }
        assert letters.replay() == 3
        t.drain()
        assert handles[0].info().replay == 1
        assert app.replay([handles[0].id, "nope"]) == [True, False]
        t.drain()
        assert app.purge([handles[0].id]) == [True]
        assert app.dead_letters().purge() == 2
        assert t.jobs() == []


def test_plain_code_and_coroutines_reach_the_store_alike(app):
    @app.task
    def ask(x: int) -> int:
        return x

    job = ask.enqueue(1)
    assert job.status == "pending"
    assert "no live worker" in job.explain()

    async def from_another_loop() -> None:
        other = await ask.aenqueue(2)
        assert (await other.ainfo()).status == "pending"
        assert await other.acancel("enough")
        assert (await other.ainfo()).cancel_reason == "enough"
        await app.apause("default")
        assert "paused" in await job.aexplain()
        await app.aresume("default")
        assert len(await app.dead_letters().alist()) == 0

    asyncio.run(from_another_loop())
    assert job.cancel()
    assert not job.cancel()


def test_every_plain_method_has_an_async_twin():
    from mulligan.app.dead_letters import DeadLetters  # noqa: PLC0415
    from mulligan.app.handle import JobHandle  # noqa: PLC0415
    from mulligan.app.task import Task  # noqa: PLC0415

    for owner, names in (
        (Mulligan, ["enqueue_many", "pause", "resume", "replay", "purge", "configure"]),
        (JobHandle, ["info", "result", "history", "cancel", "explain"]),
        (DeadLetters, ["replay", "purge"]),
        (Task, ["enqueue"]),
    ):
        for name in names:
            assert inspect.iscoroutinefunction(getattr(owner, f"a{name}")), name
            assert not inspect.iscoroutinefunction(getattr(owner, name)), name


def test_one_id_is_no_list_of_ids(app):
    with pytest.raises(InvalidError, match=r"for one job give \['abc'\]"):
        app.replay("abc")


def test_a_delay_that_outlasts_its_expiry_is_refused(app):
    @app.task
    def ask() -> None: ...

    with pytest.raises(InvalidError, match="would always expire"):
        ask.using(delay=100, expires=10)


def test_a_delay_that_outlasts_the_expiry_of_its_task_is_refused(app):
    @app.task(expires=10)
    def ask() -> None: ...

    with pytest.raises(InvalidError, match="delay 100 is not shorter than expires 10"):
        ask.using(delay=100)
    with pytest.raises(InvalidError, match="would always expire"):
        ask.using(run_after=datetime.now(UTC) + timedelta(hours=1)).call()
    assert ask.using(run_after=datetime.now(UTC) - timedelta(hours=1)).call().job.delay == 0


def test_a_function_of_the_arguments_is_the_unique_key_of_each_call(app):
    @app.task(unique_key=lambda number, *, draft=False: None if draft else f"doc-{number}")
    def index(number: int, *, draft: bool = False) -> int:
        return number

    with app.testing() as t:
        jobs = app.enqueue_many(index.call(number) for number in (1, 2, 1))
        assert [job.created for job in jobs] == [True, True, False]
        assert [job.info().unique_key for job in jobs] == ["doc-1", "doc-2", "doc-1"]
        drafts = [index.enqueue(1, draft=True) for _ in range(2)]
        assert [job.info().unique_key for job in drafts] == [None, None]
        t.drain()
        assert index.enqueue(1).created


def test_the_unique_key_of_a_chain_may_be_a_function_of_its_first_arguments(app):
    @app.task
    def index(number: int) -> int:
        return number

    chain = (index | index).using(unique_key=lambda number: f"doc-{number}")
    with app.testing() as t:
        assert [chain.enqueue(number).created for number in (1, 2, 1)] == [True, True, False]
        t.drain()
        assert chain.enqueue(1).created


def test_a_call_is_debounced_under_the_key_that_its_arguments_make(app):
    ran: list[tuple[int, str]] = []

    @app.task(unique_key=lambda number, _: f"doc-{number}", debounce=5)
    def index(number: int, text: str) -> None:
        ran.append((number, text))

    with app.testing() as t:
        for number, text in ((1, "a"), (2, "b"), (1, "c")):
            index.enqueue(number, text)
        t.drain()
    assert sorted(ran) == [(1, "c"), (2, "b")]


def test_a_pinned_job_stays_in_its_region_and_explain_says_so(app):
    tries: list[str] = []

    @app.task(pinned=True, retry=Retry(5, Delays((1,))))
    async def ask() -> str:
        tries.append(current_job().worker_region)
        if len(tries) < 4:
            raise TimeoutError
        return tries[-1]

    @app.task
    async def shout(text: str) -> str:
        return f"{text} {current_job().worker_region}"

    with app.testing(regions=("EU", "US", "ASIA")) as t:
        job = (ask | shout).using(region="US").enqueue()
        delayed = ask.using(region="US", delay=60).enqueue()
        assert "in region US and never elsewhere: it is pinned" in delayed.explain()
        assert job.result() == "US US"
        t.drain()
        assert tries == ["US"] * 5
    with app.testing(regions=("EU",)) as t:
        job = ask.using(region="US").enqueue()
        t.advance(100)
        assert "no live worker serves queue default in region US" in job.explain()


def test_a_pin_needs_a_region_and_marks_it_at_every_door(app):
    @app.task
    def ask() -> None: ...

    with app.testing():
        assert ask.using(region="=US").enqueue().info().region == "=US"
        assert ask.using(region="US", pinned=True).enqueue().info().region == "=US"
        assert ask.using(region="=US", pinned=True).enqueue().info().region == "=US"
        places: tuple[Any, ...] = ({}, {"region": "*"})
        for place in places:
            with pytest.raises(InvalidError, match="pinned=True needs the region"):
                ask.using(pinned=True, **place).enqueue()
    for region in ("=", "=*", "==US"):
        with pytest.raises(InvalidError, match="pins a job to no region"):
            ask.using(region=region)
    with pytest.raises(InvalidError, match="pinned 1 must be True or False"):
        ask.using(pinned=1)
