"""What an attempt's end means, run by the real engine on the virtual clock."""

import asyncio
import functools
from datetime import timedelta
from typing import Any

import pytest

from mulligan import (
    Adaptive,
    Delays,
    Exponential,
    Fail,
    JobCancelledError,
    JobFailedError,
    Mulligan,
    Retry,
    RetryAfter,
    Snooze,
    current_job,
)
from mulligan.core.job import NewJob
from mulligan.core.lane import Priority
from tests.contract.builders import used

UNKNOWN = b'{"task":"gone","retry":{"max_retries":0}}'
PLAIN = Exponential(2, 2, 60, "none")


@pytest.fixture
def app():
    return Mulligan("memory://")


def test_a_plain_function_and_a_coroutine_both_give_their_results(app):
    @app.task
    def plain(x: int) -> int:
        return x + 1

    @app.task
    async def coroutine(x: int) -> int:
        await asyncio.sleep(1)
        return x + 2

    with app.testing():
        assert plain.enqueue(1).result() == 2
        assert coroutine.enqueue(1).result() == 3


def test_a_failed_attempt_is_retried_when_its_backoff_ends(app):
    @app.task(retry=Retry(1, PLAIN))
    async def once() -> str:
        if current_job().attempt == 1:
            raise ConnectionError("the network is down")
        return "done"

    with app.testing() as t:
        job = once.enqueue()
        assert job.result() == "done"
        assert t.now == pytest.approx(2, abs=0.5)
        [attempt] = job.history()
        assert (attempt.number, attempt.type, attempt.message, attempt.delay) == (
            1,
            "ConnectionError",
            "the network is down",
            2,
        )


def test_a_refused_result_is_a_failed_attempt_and_is_kept_in_the_history_alone(app):
    @app.task(retry=Retry(1, PLAIN), accept=lambda answer: answer["category"] != "Error")
    async def classify() -> dict[str, str]:
        return {"category": "Error"}

    with app.testing() as t:
        job = classify.enqueue()
        t.drain()
        assert job.info().status == "failed"
        assert job.info().result is None
        assert [(a.type, a.refused) for a in job.history()] == 2 * [
            ("Refused", '{"category":"Error"}')
        ]
        with pytest.raises(JobFailedError, match="refused"):
            job.result()


def test_a_result_that_accept_cannot_judge_is_refused(app):
    @app.task(retry=Retry(0), accept=lambda answer: answer["missing"])
    async def classify() -> dict[str, str]:
        return {}

    with app.testing() as t:
        job = classify.enqueue()
        t.drain()
        [attempt] = job.history()
        assert (job.status, attempt.type, attempt.refused) == ("failed", "Refused", "{}")
        assert attempt.message == "the result could not be checked: KeyError: 'missing'"


@pytest.mark.parametrize("how", ["raise", "return"])
def test_retry_after_names_its_own_delay(app, how):
    starts = []

    @app.task
    async def busy(how: str) -> object:
        starts.append(asyncio.get_running_loop().time())
        if len(starts) > 1:
            return None
        if how == "raise":
            raise RetryAfter(timedelta(minutes=2))
        return RetryAfter(120)

    with app.testing() as t:
        busy.enqueue(how)
        t.drain()
    assert starts == [0, 120]


@pytest.mark.parametrize("how", ["raise", "return"])
def test_fail_uses_up_no_more_retries(app, how):
    @app.task
    async def hopeless(how: str) -> object:
        if how == "raise":
            raise Fail("no such account", code="404")
        return Fail("no such account", code="404")

    with app.testing() as t:
        job = hopeless.enqueue(how)
        t.drain()
        assert (job.status, job.history()[0].code) == ("failed", "404")
        assert len(job.history()) == 1


def test_snooze_runs_later_and_uses_no_attempt(app):
    @app.task(retry=Retry(0))
    async def patient() -> int:
        if asyncio.get_running_loop().time() < 30:
            raise Snooze(10)
        return current_job().attempt

    with app.testing() as t:
        job = patient.enqueue()
        assert job.result() == 1
        assert job.info().snoozes == 3
        assert t.now == pytest.approx(30, abs=0.5)


def test_a_job_may_snooze_a_hundred_times_and_no_more(app):
    @app.task(retry=Retry(0))
    async def lazy() -> None:
        raise Snooze(1)

    with app.testing() as t:
        job = lazy.enqueue()
        t.drain()
        assert (job.status, job.info().snoozes) == ("failed", 100)


def test_a_timeout_ends_the_attempt(app):
    @app.task(timeout=5, retry=Retry(0))
    async def slow() -> None:
        await asyncio.sleep(100)

    with app.testing() as t:
        job = slow.enqueue()
        t.drain()
        assert t.now == pytest.approx(5)
        assert job.history()[0].type == "Timeout"


def test_a_timeout_error_of_the_tasks_own_is_reported_as_such(app):
    @app.task(timeout=5, retry=Retry(0))
    async def slow() -> None:
        raise TimeoutError("the service did not answer")

    with app.testing() as t:
        job = slow.enqueue()
        t.drain()
        assert job.history()[0].type == "TimeoutError"


def test_a_task_that_calls_exit_fails_its_attempt_and_not_the_worker(app):
    @app.task(retry=Retry(0))
    async def leaves() -> None:
        raise SystemExit(3)

    @app.task
    async def stays() -> str:
        return "still here"

    with app.testing() as t:
        job = leaves.enqueue()
        t.drain()
        assert (job.status, job.history()[0].type) == ("failed", "SystemExit")
        assert stays.enqueue().result() == "still here"


def test_a_result_that_json_cannot_carry_is_a_failed_attempt(app):
    @app.task(retry=Retry(0))
    async def odd() -> object:
        return object()

    with app.testing() as t:
        job = odd.enqueue()
        t.drain()
        assert (job.status, job.history()[0].type) == ("failed", "ResultNotJson")


async def fetch(number: int) -> int:
    return number


async def forgotten(number: int) -> Any:
    return fetch(number)


async def forgotten_in_a_list(number: int) -> Any:
    return {"answers": [fetch(number), fetch(number)]}


@functools.wraps(fetch)
def wrapped(number: int) -> Any:
    return fetch(number)


@pytest.mark.parametrize("accept", [None, bool], ids=["any result", "accept="])
@pytest.mark.parametrize("function", [forgotten, wrapped])
def test_a_task_that_returns_a_coroutine_is_told_to_await_it(app, function, accept):
    task = app.task(name="forgetful", retry=Retry(3, Delays((0,))), accept=accept)(function)

    with app.testing() as t:
        job = task.enqueue(1)
        t.drain()
        [attempt] = job.history()
        assert attempt.type == "ResultNotJson"
        assert attempt.message.startswith("the task returned a coroutine; await it;")
        assert "make its wrapper async def" in attempt.message


def test_a_coroutine_within_a_result_is_named_with_what_holds_it(app):
    task = app.task(forgotten_in_a_list)

    with app.testing() as t:
        job = task.enqueue(1)
        t.drain()
        assert job.history()[0].message.startswith(
            "the task returned a dict with a coroutine in it; await it;"
        )


def test_a_result_over_the_limit_is_a_failed_attempt(app):
    @app.task(retry=Retry(0))
    async def large() -> str:
        return "x" * 300_000

    with app.testing() as t:
        job = large.enqueue()
        t.drain()
        assert job.history()[0].type == "ResultTooLarge"


def charge_with_more(order: int, currency: str) -> str:
    return f"{order} {currency}"


def charge_with_a_keyword(order: Any, *, currency: Any) -> str:
    return f"{order} {currency}"


async def charge_in_a_coroutine(order: int, currency: str, *notes: str) -> str:
    return f"{order} {currency} {notes}"


@pytest.mark.parametrize("kwargs", [{}, {"order": 7}], ids=["by position", "by name"])
@pytest.mark.parametrize(
    "function", [charge_with_more, charge_with_a_keyword, charge_in_a_coroutine]
)
def test_a_job_without_an_argument_that_its_task_gained_fails_once(app, function, kwargs):
    @Mulligan("memory://").task(name="charge")
    def charge(order: int) -> None: ...

    app.task(name="charge", retry=Retry(3, Delays((0,))))(function)
    stored = charge.call(**kwargs) if kwargs else charge.call(7)
    with app.testing() as t:
        t.run(t.store.enqueue([stored.job]))
        t.drain()
        job = app.job(stored.job.id)
        [attempt] = job.history()
        assert (job.status, attempt.code) == ("failed", "signature")
        assert "needs currency, and the job was stored without" in attempt.message
        assert "give currency a default and replay the job" in attempt.message


def test_a_job_without_an_argument_that_has_a_default_runs(app):
    @Mulligan("memory://").task(name="charge")
    def charge(order: int) -> None: ...

    @app.task(name="charge")
    def charge_now(order: int, currency: str = "EUR", *more: int, **others: int) -> str:
        return currency

    stored = charge.call(7)
    with app.testing() as t:
        t.run(t.store.enqueue([stored.job]))
        t.drain()
        assert app.job(stored.job.id).result() == "EUR"


def test_an_unknown_task_is_tried_later_and_ends_as_a_dead_letter(app):
    @app.task
    async def known() -> None: ...

    with app.testing() as t:
        stray = NewJob("stray", "default", "gone", UNKNOWN)
        t.run(t.store.enqueue([stray]))
        job = app.job("stray")
        t.advance(60)
        assert job.status == "pending"
        t.drain()
        assert job.status == "failed"


def test_an_unknown_task_is_told_once_a_minute_with_the_remedy(app, caplog):
    @app.task
    async def known() -> None: ...

    with app.testing() as t:
        t.run(t.store.enqueue([NewJob(f"s{n}", "default", "gone", UNKNOWN) for n in range(20)]))
        t.advance(150)
    said = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert len(said) == 3
    assert "no live worker knows the task 'gone'" in said[0]
    assert "import the module that declares it" in said[0]


def test_on_dead_is_told_once_per_dead_letter(app):
    told = []

    @app.task
    async def notify(letter: dict[str, object]) -> None:
        told.append((letter["id"], letter["message"], letter["attempts"]))

    @app.task(retry=Retry(1, PLAIN), on_dead=notify)
    async def doomed() -> None:
        raise ValueError("no")

    with app.testing() as t:
        job = doomed.enqueue()
        t.drain()
        assert told == [(job.id, "no", 2)]
        assert app.dead_letters("default").replay() == 1
        t.drain()
        assert told == 2 * [(job.id, "no", 2)]


def test_on_dead_runs_where_and_how_its_own_task_says(app):
    told = []

    @app.task(queue="alerts", region="EU", priority="urgent", timeout=5, retry=Retry(0))
    async def notify(letter: dict[str, object]) -> None:
        told.append((current_job().queue, current_job().worker_region))
        await asyncio.sleep(100)

    @app.task(retry=Retry(0), on_dead=notify)
    async def doomed() -> None:
        raise ValueError("no")

    with app.testing(regions=("US", "EU")) as t:
        doomed.using(region="US", id="x").enqueue()
        t.advance(6)
        [news] = [job for job in t.jobs() if job.task == "notify"]
    assert told == [("alerts", "EU")]
    assert news.priority == Priority.URGENT
    assert news.last_failure_reason == "Timeout: the attempt took longer than 5 s"


def test_a_cancelled_job_stops_running_at_the_next_beat(app):
    ended = []

    @app.task
    async def endless() -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            ended.append(asyncio.get_running_loop().time())
            raise

    with app.testing() as t:
        job = endless.enqueue()
        t.advance(1)
        assert job.cancel("not needed")
        t.advance(6)
        assert job.info().cancel_reason == "not needed"
        with pytest.raises(JobCancelledError, match="not needed"):
            job.result()
    assert [at <= 7 for at in ended] == [True]


def test_a_job_ten_times_longer_than_its_lease_runs_once(app):
    runs = []

    @app.task
    async def long() -> None:
        runs.append(used(current_job()))
        await asyncio.sleep(10 * app.settings.lease)

    with app.testing(regions=("US", "EU")) as t:
        long.using(region="*").enqueue()
        t.drain()
    assert runs == [1]


def test_a_delay_far_longer_than_the_lease_starts_once(app):
    runs = []

    @app.task
    async def later() -> None:
        runs.append(used(current_job()))

    with app.testing(regions=("US", "EU")) as t:
        later.using(region="*", delay=1000 * app.settings.lease).enqueue()
        t.drain()
    assert runs == [1]


def test_a_paused_queue_starts_nothing_until_resumed(app):
    @app.task
    async def quick() -> int:
        return 1

    with app.testing() as t:
        app.pause("default")
        job = quick.enqueue()
        t.advance(100)
        assert job.status == "pending"
        assert "paused" in job.explain()
        app.resume("default")
        t.advance(0.1)
        assert job.status == "done"


def test_adaptive_backoff_stretches_with_the_fresh_work_that_waits(app):
    @app.task(retry=Retry(1, Adaptive(base=2, per=10)))
    async def flaky() -> None:
        await asyncio.sleep(1)
        raise ValueError

    with app.testing(concurrency=1) as t:
        first = flaky.enqueue()
        for _ in range(20):
            flaky.enqueue()
        t.advance(1.5)
        assert first.history()[0].delay == pytest.approx(2 * (1 + 20 / 10))


def test_a_task_may_enqueue_more_work_both_ways(app):
    @app.task
    async def child(n: int) -> int:
        return n

    @app.task
    async def parent() -> list[str]:
        return [child.enqueue(1).id, (await child.aenqueue(2)).id]

    with app.testing() as t:
        ids = parent.enqueue().result()
        t.drain()
        assert [app.job(i).result() for i in ids] == [1, 2]


def test_urgent_work_goes_before_what_waits(app):
    order = []

    @app.task
    async def note(name: str) -> None:
        order.append(name)
        await asyncio.sleep(1)

    with app.testing() as t:
        app.pause("default")
        note.enqueue("a")
        note.enqueue("b")
        note.using(priority="urgent").enqueue("u")
        app.resume("default")
        t.drain()
    assert order == ["u", "a", "b"]


def test_a_delayed_job_starts_when_its_time_has_come(app):
    starts = []

    @app.task
    async def note() -> None:
        starts.append(asyncio.get_running_loop().time())

    with app.testing() as t:
        note.using(delay=timedelta(hours=3)).enqueue()
        t.drain()
    assert starts == [3 * 3600]


def test_no_more_jobs_of_a_limit_run_than_it_allows(app):
    running: list[int] = []
    most = []

    app.limit("account", concurrency=2)

    @app.task(limits="account")
    async def step() -> None:
        running.append(1)
        most.append(len(running))
        await asyncio.sleep(1)
        running.pop()

    with app.testing(concurrency=10) as t:
        for _ in range(10):
            step.enqueue()
        assert t.drain() == pytest.approx(5, abs=0.1)
    assert max(most) == 2


def test_a_job_that_does_not_start_in_time_is_dropped(app):
    @app.task
    async def block() -> None:
        await asyncio.sleep(100)

    with app.testing(concurrency=1) as t:
        block.enqueue()
        late = block.using(expires=10).enqueue()
        t.drain()
        assert late.status == "cancelled"
        assert "expired" in (late.info().cancel_reason or "")


def test_draining_says_what_holds_up_the_test(app):
    @app.task(retry=Retry(None, PLAIN))
    async def never() -> None:
        raise ValueError("always")

    with app.testing() as t:
        never.enqueue()
        with pytest.raises(AssertionError, match="1 jobs have not ended after 600 s"):
            t.drain(within=600)
