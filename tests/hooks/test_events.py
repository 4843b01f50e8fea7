"""Events: hooks are told what has happened to jobs, and change nothing."""

import asyncio
import logging
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from mulligan import Delays, Fail, InvalidError, JobEvent, Mulligan, Retry, Snooze, each
from mulligan.core.event import EVENTS
from mulligan.core.fairness import Carry, plan_claim
from mulligan.core.worker import Worker
from mulligan.engine import events as engine_events
from tests.hooks.worker import worked

REQUEST: ContextVar[str] = ContextVar("request", default="none")
SOON = Retry(3, Delays((5,)))


@pytest.fixture
def app():
    return Mulligan("memory://")


@pytest.fixture
def told(app):
    """Every event of the app, in the order in which hooks are told."""
    events: list[JobEvent] = []
    for name in EVENTS:
        app.on(name)(events.append)
    return events


def names(events: list[JobEvent]) -> list[str]:
    return [event.name for event in events]


def test_a_job_that_fails_once_is_told_from_enqueue_to_success(app, told):
    @app.task(queue="questions", region="EU", retry=SOON)
    async def ask(fails: int) -> str:
        await asyncio.sleep(2)
        if not ran:
            ran.append(1)
            raise ConnectionError("no line")
        return "yes"

    ran: list[int] = []
    with app.testing(regions=["EU"]) as t:
        ask.using(id="x").enqueue(1)
        t.drain()
    assert names(told) == ["enqueue", "start", "retry", "start", "success"]
    assert {(event.id, event.task, event.queue, event.region) for event in told} == {
        ("x", "ask", "questions", "EU")
    }
    enqueue, start, retry, again, success = told
    assert (enqueue.attempt, enqueue.worker, enqueue.runtime) == (0, "", None)
    assert (start.attempt, start.worker, start.worker_region) == (1, "EU-0", "EU")
    assert (retry.attempt, retry.runtime, retry.delay) == (1, 2.0, 5.0)
    assert retry.error_type is not None
    assert retry.error_type.endswith("ConnectionError")
    assert retry.error_message == "no line"
    assert isinstance(retry.exception, ConnectionError)
    assert (again.attempt, success.attempt, success.runtime) == (2, 2, 2.0)
    assert success.error_type is None


def test_a_dead_letter_is_told_with_its_last_failure(app, told):
    @app.task(retry=SOON)
    def ask() -> None:
        raise Fail("no such user", "unknown")

    with app.testing() as t:
        ask.enqueue()
        t.drain()
    assert names(told) == ["enqueue", "start", "dead"]
    assert (told[-1].error_type, told[-1].error_message) == ("Fail", "no such user")
    assert told[-1].runtime == 0.0


def test_a_snooze_is_no_retry(app, told):
    asked = [Snooze(10)]

    @app.task
    def ask() -> Any:
        return asked.pop() if asked else None

    with app.testing() as t:
        ask.enqueue()
        t.drain()
    assert names(told) == ["enqueue", "start", "start", "success"]


def test_a_delay_is_told_with_the_enqueue(app, told):
    @app.task
    def ask() -> None: ...

    with app.testing() as t:
        ask.using(delay=60).enqueue()
        t.drain()
    assert told[0].delay == 60


def test_a_job_that_was_there_before_is_not_enqueued_again(app, told):
    @app.task
    def ask() -> None: ...

    with app.testing():
        assert ask.using(unique_key="k").enqueue().created
        assert not ask.using(unique_key="k").enqueue().created
    assert names(told).count("enqueue") == 1


def test_every_stage_of_a_chain_its_sink_and_on_dead_are_enqueued(app, told):
    @app.sink
    def save(result: int, key: str) -> None: ...

    @app.task
    def bury(letter: dict[str, object]) -> None: ...

    @app.task
    def split() -> list[int]:
        return [1, 2]

    @app.task(sink=save)
    def double(n: int) -> int:
        return n * 2

    @app.task(on_dead=bury, retry=Retry(0))
    def total(numbers: list[int]) -> int:
        raise Fail("no sum")

    with app.testing() as t:
        (split | each(double) | total).enqueue()
        t.drain()
    enqueued = sorted(event.task for event in told if event.name == "enqueue")
    assert enqueued == ["bury", "double", "double", "save", "save", "split", "total"]


async def test_ticks_are_told_as_enqueued_by_one_worker(store_url):
    app = Mulligan(store_url)
    told: list[JobEvent] = []
    stop = asyncio.Event()

    @app.task(every=1000)
    def tidy() -> None: ...

    loop = asyncio.get_running_loop()

    @app.on("enqueue")
    def hook(event: JobEvent) -> None:
        told.append(event)
        loop.call_soon_threadsafe(stop.set)

    await worked(app, stop)
    app.close()
    assert [event.task for event in told] == ["tidy"]
    assert told[0].delay > 0


async def test_hooks_are_told_on_every_store_once_it_has_accepted_the_outcome(store_url):
    app = Mulligan(store_url)
    stop = asyncio.Event()
    seen: list[tuple[str, str]] = []

    @app.task(retry=Retry(0))
    async def fine() -> int:
        return 1

    @app.task(retry=Retry(0))
    def broken() -> None:
        raise ValueError("broken")

    async def look(event: JobEvent) -> None:
        seen.append((event.name, (await app.job(event.id).ainfo()).status))
        if len(seen) == 2:
            stop.set()

    app.on("success")(look)
    app.on("dead")(look)
    await fine.aenqueue()
    await broken.aenqueue()
    await worked(app, stop)
    app.close()
    assert sorted(seen) == [("dead", "failed"), ("success", "done")]


async def test_a_stale_outcome_is_no_event(app):
    told: list[JobEvent] = []

    @app.task
    async def ask() -> None:
        [job] = t.store.state.jobs
        await t.store.cancel([job], "cancelled meanwhile")

    for name in ("success", "retry", "dead"):
        app.on(name)(told.append)
    async with app.testing() as t:
        await ask.aenqueue()
        await t.adrain()
    assert told == []


def test_a_lost_attempt_is_told_by_the_worker_that_reclaims_it(app, told):
    dead = Worker("dead")

    @app.task(retry=SOON)
    async def ask() -> None: ...

    async def lose() -> None:
        facts = (await t.store.beat(dead, [])).facts
        await t.store.claim(plan_claim(1, "default", [("default", Carry())], facts), dead)

    with app.testing(queues=["another"]) as t:
        ask.enqueue()
        t.run(lose())
        t.advance(60)
    assert names(told) == ["enqueue", "retry"]
    assert (told[1].error_type, told[1].worker, told[1].runtime) == ("Lost", "dead", None)


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_hook_that_raises_is_logged_and_counted_and_changes_nothing(app, caplog, kind):
    def plain(event: JobEvent) -> None:
        raise LookupError(f"hook for {event.name}")

    async def coroutine(event: JobEvent) -> None:
        plain(event)

    after: list[JobEvent] = []

    @app.task(retry=SOON)
    def ask() -> int:
        return 1

    for name in ("enqueue", "start", "success"):
        app.on(name)(plain if kind == "plain" or name == "enqueue" else coroutine)
        app.on(name)(after.append)
    with app.testing() as t:
        job = ask.enqueue()
        t.drain()
        assert job.result() == 1
        t.advance(5)
        counts = t.run(t.store.counts())
    assert names(after) == ["enqueue", "start", "success"]
    assert {name: value for (_, _, name), value in counts.ever.items() if "hook" in name} == {
        "hook-failed.start": 1,
        "hook-failed.success": 1,
    }
    records = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert len(records) == 3
    assert all(each.exc_info and each.exc_info[0] is LookupError for each in records)


def test_a_hook_that_cancels_itself_does_not_end_the_worker(app, caplog):
    @app.on("start")
    async def cancels(event: JobEvent) -> None:
        raise asyncio.CancelledError

    @app.task
    def ask() -> int:
        return 1

    with app.testing() as t:
        jobs = [ask.enqueue(), ask.enqueue()]
        t.drain()
        assert [job.result() for job in jobs] == [1, 1]
    assert caplog.text.count("hook cancels raised") == 2


def test_a_hook_that_hangs_delays_no_outcome_and_events_beyond_the_bound_are_dropped(
    app, monkeypatch, caplog
):
    monkeypatch.setattr(engine_events, "MOST_WAITING", 3)

    @app.on("success")
    async def hangs(event: JobEvent) -> None:
        await asyncio.sleep(1_000_000)

    @app.task
    def ask() -> int:
        return 1

    with app.testing() as t:
        jobs = [ask.enqueue() for _ in range(10)]
        t.advance(60)
        assert [job.status for job in jobs] == ["done"] * 10
        counts = t.run(t.store.counts())
    assert counts.ever["default", "default", "event-dropped"] == 6
    assert "hooks are slow: they were not told of 3 events" in caplog.text


def test_a_drain_of_testing_waits_for_hooks_and_names_one_that_hangs(app):
    told: list[str] = []

    @app.on("success")
    async def slow(event: JobEvent) -> None:
        await asyncio.sleep(10)
        told.append(event.id)

    @app.task
    def ask() -> None: ...

    with app.testing() as t:
        ask.using(id="x").enqueue()
        assert t.drain() == 10
        assert told == ["x"]
        ask.enqueue()
        with pytest.raises(AssertionError, match="a hook has not ended after 5 s"):
            t.drain(within=5)


async def test_plain_hooks_of_a_worker_have_a_thread_and_coroutines_its_loop(tmp_path):
    app = Mulligan(f"sqlite:///{tmp_path}/jobs.db")
    where: dict[str, int] = {}
    stop = asyncio.Event()

    @app.on("success")
    def plain(event: JobEvent) -> None:
        where["plain"] = threading.get_ident()

    @app.on("success")
    async def coroutine(event: JobEvent) -> None:
        where["coroutine"] = threading.get_ident()
        stop.set()

    @app.task
    async def ask() -> None: ...

    await ask.aenqueue()
    await worked(app, stop)
    app.close()
    assert where["coroutine"] == threading.get_ident() != where["plain"]


async def test_plain_code_is_told_of_its_enqueue_in_its_own_thread_and_context(store_url):
    app = Mulligan(store_url)
    seen: list[tuple[int, str]] = []

    @app.task
    def ask(number: int) -> None: ...

    @app.on("enqueue")
    def hook(event: JobEvent) -> None:
        seen.append((threading.get_ident(), REQUEST.get()))

    REQUEST.set("mine")
    ask.enqueue(1)
    app.enqueue_many([ask.call(2), ask.call(3)])
    app.close()
    assert seen == [(threading.get_ident(), "mine")] * 3


async def test_a_coroutine_is_told_of_its_enqueue_where_it_runs(store_url):
    app = Mulligan(store_url)
    seen: list[tuple[int, str]] = []

    @app.task
    def ask() -> None: ...

    @app.on("enqueue")
    def hook(event: JobEvent) -> None:
        seen.append((threading.get_ident(), event.task))

    async with app.connected():
        await ask.aenqueue()
    await ask.aenqueue()
    app.close()
    assert seen == [(threading.get_ident(), "ask")] * 2


def test_an_enqueue_that_is_refused_is_no_event(app, told):
    @app.task
    def ask(number: int) -> None: ...

    with pytest.raises(InvalidError):
        ask.enqueue("five")
    assert told == []


def test_what_cannot_be_a_hook_is_refused_at_the_declaration(app):
    async def coroutine(event): ...

    def two(event, more): ...

    with pytest.raises(InvalidError, match="event 'failure' is not one of enqueue, start, success"):
        app.on("failure")
    with pytest.raises(InvalidError, match=r'has no event; write @app.on\("dead"\) above it'):
        app.on(two)
    with pytest.raises(InvalidError, match="coroutine is a coroutine function, and plain code"):
        app.on("enqueue")(coroutine)
    with pytest.raises(InvalidError, match=r"is called as two\(event\): missing"):
        app.on("dead")(two)
    with pytest.raises(InvalidError, match="None is no function"):
        app.on("dead")(None)
    assert app.event_hooks == {}
