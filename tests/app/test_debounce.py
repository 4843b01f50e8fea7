"""Debounce and throttle as a caller has them: what is refused, and what a stranger would try."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mulligan import InvalidError, Mulligan


@pytest.fixture
def app():
    made: Any = Mulligan("memory://")
    made.ran = []
    return made


@pytest.fixture
def index(app):
    @app.task
    async def index(document: str, version: int = 0) -> int:
        app.ran.append((document, version))
        return version

    return index


KEY = {"unique_key": "k"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"debounce": 5}, r"debounce 5 needs a unique_key, .*add unique_key=, or take debounce="),
        ({"unique_for": 5}, r"unique_for 5 needs a unique_key, .* take unique_for= away"),
        ({"debounce_max": 5, **KEY}, r"debounce_max 5 needs debounce; add debounce=0.5|such as"),
        ({"debounce": 5, "delay": 3, **KEY}, r"debounce 5 says itself when .*; take delay= away"),
        (
            {"debounce": 5, "run_after": datetime.now(UTC), **KEY},
            r"debounce 5 says itself .*; take run_after= away",
        ),
        ({"debounce": 5, "id": "mine", **KEY}, r"debounce 5 says itself .*; take id= away"),
        ({"debounce": 5, "debounce_max": 4, **KEY}, r"debounce_max 4 is shorter than debounce 5"),
        ({"debounce": 5, "unique_for": 9, **KEY}, r"debounce 5 frees its key .*; use one of them"),
        ({"debounce": 5, "expires": 50, **KEY}, r"debounce_max 50 is not shorter than expires 50"),
        ({"debounce": 0, **KEY}, r"debounce 0 must be between 0.001 s and"),
        ({"debounce": "5", **KEY}, r"debounce '5' must be a number of seconds"),
        ({"unique_for": -1, **KEY}, r"unique_for -1 must be between"),
    ],
)
def test_options_that_cannot_mean_anything_are_refused_with_the_remedy(index, options, words):
    with pytest.raises(InvalidError, match=words):
        index.using(**options)


@pytest.mark.parametrize("options", [{"debounce": 5}, {"unique_for": 60}])
def test_a_chain_is_neither_debounced_nor_throttled(app, index, options):
    [name] = options

    @app.task
    def after(version: int) -> int:
        return version

    words = rf"has {name}=, and the unique_key of a chain is held until .*; take {name}= away"
    with pytest.raises(InvalidError, match=words):
        index.using(**options, **KEY) | after
    with pytest.raises(InvalidError, match=words):
        (index | after).using(**options, **KEY)
    with pytest.raises(InvalidError, match=words):
        index | after.using(**options, **KEY)
    with pytest.raises(InvalidError, match=words):
        app.gather([], after.using(**options, **KEY))


def test_a_task_may_be_debounced_for_all_its_calls(app):
    @app.task(unique_key="all", debounce=timedelta(seconds=5))
    def rebuild() -> None:
        app.ran.append("rebuilt")

    with app.testing() as t:
        jobs = {rebuild.enqueue().id for _ in range(5)}
        assert len(jobs) == 1
        t.drain()
    assert app.ran == ["rebuilt"]


def test_a_debounced_job_explains_what_it_waits_for(app, index):
    with app.testing():
        job = index.using(debounce=5, debounce_max=60, **KEY).enqueue("a")
        said = job.explain()
        assert "Debounced: another call with key 'k' takes its place, for 60 s at most" in said
        assert "due in 5.0 s" in said


def test_each_call_in_time_is_put_off_until_the_maximum_and_then_a_new_job_is_made(app, index):
    with app.testing() as t:
        calm = index.using(debounce=5, debounce_max=12, **KEY)
        ids = []
        for version in range(8):
            ids.append(calm.enqueue("a", version).id)
            t.advance(4)
        t.drain()
    # Enqueued at 0, 4, 8, ..., started at 12 with what was said at 8, and so on.
    assert [version for _, version in app.ran] == [2, 5, 7]
    assert len(set(ids)) == 3


def test_a_thousand_calls_in_one_batch_are_one_job(app, index):
    calls = [index.using(debounce=5, **KEY).call("a", version) for version in range(1000)]
    with app.testing() as t:
        handles = app.enqueue_many(calls)
        assert len({each.id for each in handles}) == 1
        assert sum(each.created for each in handles) == 1
        t.drain()
    assert app.ran == [("a", 999)]


def test_a_throttled_job_is_kept_as_long_as_its_key(app, index):
    with app.testing() as t:
        seldom = index.using(unique_for=7_200, keep=60, **KEY)
        first = seldom.enqueue("a", 1)
        t.drain()
        t.advance(7_000)
        assert seldom.enqueue("a", 2).id == first.id
        assert first.result() == 1
        t.advance(300)
        assert seldom.enqueue("a", 3).created
