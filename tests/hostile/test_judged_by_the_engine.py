"""What the engine makes of results that JSON has no word for, and of bodies that it cannot read."""

from dataclasses import dataclass
from math import inf, nan
from typing import Any

import pytest

from mulligan import Delays, Mulligan, Retry
from mulligan.core.job import NewJob, encode

FOREVER = Retry(None, Delays((1,)))


@dataclass
class Price:
    """A result as tasks return it."""

    amount: float
    note: str | None = None


@pytest.mark.parametrize(
    "value",
    [nan, inf, -inf, [1.0, nan], {"a": {"b": [inf]}}, Price(nan), (1, {2.5: nan})],
    ids=repr,
)
def test_a_number_that_is_none_is_a_failed_attempt_and_not_null(value):
    app = Mulligan("memory://")

    @app.task(retry=Retry(0))
    def give() -> Any:
        return value

    with app.testing() as t:
        job = give.enqueue()
        t.drain()
        assert job.status == "failed"
        [attempt] = job.history()
    assert attempt.type == "ResultNotJson"
    assert "NaN or Infinity; return text, finite numbers, lists and dicts" in attempt.message


@pytest.mark.parametrize("value", [[None], {"a": None}, "null", Price(1.0), [1.5, None, "null"]])
def test_null_is_a_result(value):
    app = Mulligan("memory://")

    @app.task
    def give() -> Any:
        return value

    with app.testing() as t:
        job = give.enqueue()
        t.drain()
        assert job.status == "done"


@pytest.mark.parametrize("body", [{"args": 5}, {"kwargs": []}, {"timeout": "soon"}, {"flow": 7}])
def test_a_body_that_cannot_be_read_is_not_tried_again_however_many_retries_it_has(body):
    app = Mulligan("memory://")

    @app.task
    def give() -> None: ...

    with app.testing() as t:
        whole = {"task": "give", "args": [], "kwargs": {}, "retry": FOREVER} | body
        t.run(t.store.enqueue([NewJob("j", "default", "give", encode(whole))]))
        t.drain()
        job = app.job("j").info()
        [attempt] = app.job("j").history()
    assert (job.status, job.retry_count) == ("failed", 0)
    assert attempt.code == "unreadable"
    assert "the job's body cannot be read" in attempt.message


def test_an_unsigned_job_of_a_task_that_nobody_knows_is_a_dead_letter_at_once():
    app = Mulligan("memory://", signing_keys=["k" * 32])

    @app.task
    def give() -> None: ...

    with app.testing() as t:
        t.run(t.store.enqueue([NewJob("j", "default", "nothing", encode({"task": "nothing"}))]))
        assert t.drain() < 1
        [attempt] = app.job("j").history()
    assert attempt.code == "signature"
