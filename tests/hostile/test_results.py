"""Results that cannot be stored: a failure for good that says why, never a success."""

from collections.abc import Sequence
from math import nan
from typing import Any

import pytest

from mulligan import Delays, Mulligan, Retry, Settings
from tests.engine.real_engine import until
from tests.hostile.test_arguments import Thing, Unshown, itself, nested
from tests.hostile.worker import QUICK, bare, ended, working

BAD: dict[str, tuple[Any, str]] = {
    "an object": (Thing(), "Thing is unsupported"),
    "an object inside": ([{"a": Thing()}], "Thing is unsupported"),
    "a function": (nested, "function is unsupported"),
    "what cannot be shown": (Unshown(), "Unshown is unsupported"),
    "an exception": (ValueError("returned"), "ValueError is unsupported"),
    "half a character": ("a\ud800b", "surrogates not allowed"),
    "half a character as a key": ({"\ud800": 1}, "surrogates not allowed"),
    "a tuple as a key": ({(1, 2): 3}, "Only dicts with str-like"),
    "lists 10,000 deep": (nested("list"), "more than 200 levels deep"),
    "lists 201 deep": (nested("list", 200), "more than 200 levels deep"),
    "dicts 10,000 deep": (nested("dict"), "more than 200 levels deep"),
    "itself": (itself(), "more than 200 levels deep"),
    "complex": (1j, "complex is unsupported"),
    "NaN": ([nan], "it holds NaN or Infinity"),
    "too large": ("x" * 300_000, "more than the 262144 allowed"),
}


async def test_a_result_that_cannot_be_stored_ends_the_job_at_its_first_attempt(app: Mulligan):
    told: list[str] = []

    @app.task
    async def tell(letter: dict[str, Any]) -> None:
        told.append(letter["id"])

    @app.task(retry=Retry(1, Delays((0,))), on_dead=tell)
    async def give(name: str):
        return BAD[name][0]

    @app.task(retry=Retry(1, Delays((0,))), on_dead=tell)
    def give_plainly(name: str):
        return BAD[name][0]

    async with bare(app) as store, working(app):
        for name in BAD:
            await give.using(id=name).aenqueue(name)
            await give_plainly.using(id=f"plain {name}").aenqueue(name)
        jobs = [await ended(store, f"{how}{name}") for name in BAD for how in ("", "plain ")]
        await until(lambda: as_many(told, jobs))
    for job in jobs:
        assert job.status == "failed", job.id
        assert job.result is None
        assert BAD[job.id.removeprefix("plain ")][1] in str(job.last_failure_reason)
        assert "then replay the job" in str(job.last_failure_reason)
        assert job.retry_count == 0
    assert sorted(told) == sorted(job.id for job in jobs)


async def as_many(some: Sequence[object], others: Sequence[object]) -> bool:
    return len(some) >= len(others)


@pytest.mark.parametrize("name", BAD)
def test_no_next_stage_is_given_such_a_result(name):
    app = Mulligan("memory://", settings=QUICK)
    given: list[object] = []

    @app.task(retry=Retry(0))
    def give() -> Any:
        return BAD[name][0]

    @app.task
    def take(value: Any) -> None:
        given.append(value)

    with app.testing() as t:
        (give | take).enqueue()
        t.drain()
        assert [job.status for job in t.jobs()] == ["failed"]
    assert given == []


def test_the_limit_of_a_result_is_a_setting():
    app = Mulligan("memory://", settings=Settings(result_limit=10))

    @app.task(retry=Retry(0))
    def give(size: int) -> str:
        return "x" * size

    with app.testing() as t:
        small, large = give.enqueue(8), give.enqueue(9)
        t.drain()
        assert (small.status, large.status) == ("done", "failed")
        [attempt] = large.history()
    assert attempt.type == "ResultTooLarge"
    assert "store it elsewhere and return a link to it" in attempt.message
