"""`Retry(on=…, never=…)` as a user says it: on tasks, for one job, for the whole app."""

import asyncio
from typing import Any

import pytest

from mulligan import Delays, Fail, InvalidError, Mulligan, Retry, RetryAfter

SOON = Delays((1,))


@pytest.fixture
def app():
    return Mulligan("memory://")


def attempts(app: Mulligan, *calls: Any) -> list[int]:
    """How many attempts each of the calls had; all fail."""
    with app.testing() as t:
        jobs = app.enqueue_many(calls)
        t.drain()
        assert {job.status for job in jobs} == {"failed"}
        return [len(job.history()) for job in jobs]


def test_only_what_the_policy_names_is_retried(app):
    @app.task(retry=Retry(2, SOON, on=(TimeoutError, ConnectionError)))
    async def ask(error: str) -> None:
        raise {"reset": ConnectionResetError, "value": ValueError}[error]

    assert attempts(app, ask.call("reset"), ask.call("value")) == [3, 1]


def test_a_job_may_carry_its_own(app):
    @app.task(retry=Retry(2, SOON, on=TimeoutError))
    async def ask() -> None:
        raise ValueError

    own = ask.using(retry=Retry(1, SOON, on="ValueError"))
    assert attempts(app, ask.call(), own.call()) == [1, 2]


def test_a_task_may_have_a_predicate_which_its_worker_asks(app):
    @app.task(retry=Retry(2, SOON, on=lambda error: "busy" in str(error)))
    async def ask(message: str) -> None:
        raise RuntimeError(message)

    own = ask.using(retry=Retry(1, SOON))
    assert attempts(app, ask.call("busy"), ask.call("gone"), own.call("gone")) == [3, 1, 2]


def test_a_predicate_that_raises_is_told_and_the_attempt_is_retried(app, caplog):
    @app.task(retry=Retry(1, SOON, on=lambda error: error.status == 503))
    async def ask() -> None:
        raise RuntimeError

    assert attempts(app, ask.call()) == [2]
    assert "the predicate in Retry(on=…) raised" in caplog.text


def test_a_predicate_is_not_asked_about_signals(app):
    @app.task(retry=Retry(1, SOON, on=lambda _error: False))
    async def ask(*, fail: bool) -> None:
        raise Fail("no") if fail else RetryAfter(1)

    assert attempts(app, ask.call(fail=True), ask.call(fail=False)) == [1, 2]


def test_a_predicate_for_one_job_is_refused_with_the_remedy(app):
    @app.task
    async def ask() -> None: ...

    with pytest.raises(InvalidError, match="put it on the task"):
        ask.using(retry=Retry(on=lambda _error: True))


def test_a_timeout_of_an_attempt_is_a_timeout_error(app):
    @app.task(timeout=1, retry=Retry(1, SOON, on=TimeoutError))
    async def slow() -> None:
        await asyncio.sleep(60)

    @app.task(timeout=1, retry=Retry(1, SOON, never=TimeoutError))
    async def never_again() -> None:
        await asyncio.sleep(60)

    assert attempts(app, slow.call(), never_again.call()) == [2, 1]


def test_an_app_has_defaults_and_a_task_of_its_own_wins():
    app = Mulligan("memory://", retry=Retry(2, SOON), timeout=1, on_dead="bury")
    letters: list[str] = []

    @app.task
    async def slow() -> None:
        await asyncio.sleep(60)

    @app.task(retry=Retry(0), timeout=None, on_dead=None)
    async def own() -> None:
        await asyncio.sleep(60)
        raise ValueError

    @app.task
    async def bury(letter: dict[str, Any]) -> None:
        letters.append(letter["task"])

    assert attempts(app, slow.call(), own.call()) == [3, 1]
    assert letters == ["slow"]


def test_an_app_wide_policy_may_have_a_predicate():
    app = Mulligan("memory://", retry=Retry(2, SOON, on=lambda error: isinstance(error, OSError)))

    @app.task
    async def ask(*, known: bool) -> None:
        raise OSError if known else ValueError

    assert attempts(app, ask.call(known=True), ask.call(known=False)) == [3, 1]


def test_a_task_may_be_told_of_dead_letters_by_a_name_that_is_declared_later(app):
    letters: list[str] = []

    @app.task(retry=Retry(0), on_dead="bury")
    async def ask() -> None:
        raise ValueError

    early = ask.using(region="default")
    with pytest.raises(InvalidError, match="on_dead 'bury', and there is no task of that name"):
        ask.call()

    @app.task
    async def bury(letter: dict[str, Any]) -> None:
        letters.append(letter["id"])

    attempts(app, ask.using(id="a").call(), early.call())
    assert len(letters) == 2


def test_who_is_told_of_dead_letters_is_not_told_of_its_own():
    app = Mulligan("memory://", retry=Retry(0), on_dead="bury")
    letters: list[str] = []

    @app.task
    async def bury(letter: dict[str, Any]) -> None:
        letters.append(letter["id"])
        raise ValueError

    @app.task
    async def ask() -> None:
        raise ValueError

    with app.testing() as t:
        ask.using(id="a").enqueue()
        t.drain()
    assert letters == ["a"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"retry": 3}, "must be a Retry"),
        ({"retry": "often"}, "is not one of"),
        ({"timeout": -1}, "timeout"),
        ({"on_dead": 7}, "must be a task of the app, or its name"),
    ],
)
def test_a_default_that_no_task_could_have_is_refused_at_once(wrong, words):
    with pytest.raises(InvalidError, match=words):
        Mulligan("memory://", **wrong)
