"""Chains as a user writes them: what runs when, what is refused, what a handle tells."""

import enum
import re
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest

from mulligan import (
    Delays,
    Fail,
    Failure,
    InvalidError,
    JobCancelledError,
    JobFailedError,
    Mulligan,
    ResultTimeoutError,
    Retry,
    Snooze,
    UnknownJobError,
    current_job,
    each,
)

SOON = Retry(3, Delays((1,)))


@pytest.fixture
def app():
    return Mulligan("memory://")


@pytest.fixture
def runs():
    """Every attempt that ran, by task."""
    return []


@pytest.fixture
def pipeline(app, runs):
    """Three stages in three queues; each says that it ran."""

    @app.task(queue="ai")
    def classify(text: str) -> dict[str, str]:
        runs.append("classify")
        return {"text": text, "category": "news"}

    @app.task(queue="uploads")
    async def upload(item: dict[str, str]) -> str:
        runs.append("upload")
        return f"{item['category']}/{item['text']}"

    @app.task(queue="reports")
    def report(path: str) -> int:
        runs.append("report")
        return len(path)

    return classify | upload | report


def test_the_result_of_each_stage_is_the_argument_of_the_next(pipeline, runs):
    with pipeline.app.testing():
        assert pipeline.enqueue("abc").result() == len("news/abc")
    assert runs == ["classify", "upload", "report"]


def test_app_chain_is_the_same(app, pipeline):
    tasks = [app.tasks[name] for name in ("classify", "upload", "report")]
    with app.testing():
        assert app.chain(*tasks).enqueue("abc").result() == len("news/abc")


def test_a_chain_shows_its_stages(pipeline):
    assert repr(pipeline) == "<chain classify | upload | report>"
    with pipeline.app.testing() as t:
        chain = pipeline.using(id="monday").enqueue("abc")
        assert repr(chain) == "<chain monday: classify | upload | report>"
        first, second, third = chain.stages()
        assert [job.status for job in first.jobs] == ["pending"]
        assert (second.jobs, third.jobs) == ([], [])
        t.drain()
        assert [(s.number, s.name, s.members) for s in chain.stages()] == [
            (1, "classify", 1),
            (2, "upload", 1),
            (3, "report", 1),
        ]
        ids = [job.id for stage in chain.stages() for job in stage.jobs]
        assert ids == ["monday", "monday~1.2", "monday~1.3"]
        assert [job.queue for job in t.jobs()] == ["ai", "uploads", "reports"]


def test_a_failing_stage_retries_alone(app, runs):
    @app.task
    def first() -> int:
        runs.append("first")
        return 1

    @app.task(retry=SOON)
    def second(n: int) -> int:
        runs.append("second")
        if current_job().attempt < 3:
            raise ConnectionError("away")
        return n + 1

    with app.testing():
        chain = (first | second).enqueue()
        assert chain.result() == 2
        assert [(a.number, a.message) for a in chain.history()] == [(1, "away"), (2, "away")]
    assert runs == ["first", "second", "second", "second"]


def test_a_stage_keeps_its_own_policy_and_placement(app):
    seen = []

    @app.task
    def first() -> int:
        return 1

    @app.task(queue="other", retry=Retry(0))
    def second(n: int) -> None:
        seen.append(current_job())
        raise ValueError("no")

    placed = second.using(queue="special", priority="urgent", retry=Retry(1, Delays((0,))))
    with app.testing(queues=("default", "special")):
        chain = (first | placed).enqueue()
        with pytest.raises(JobFailedError, match="no"):
            chain.result()
    assert [(job.queue, job.lane, job.attempt) for job in seen] == [
        ("special", "urgent", 1),
        ("special", "urgent-retry", 2),
    ]


def test_a_dead_stage_is_replayed_and_the_chain_goes_on_from_there(app, runs):
    healthy: list[bool] = []

    @app.task
    def first() -> str:
        runs.append("first")
        return "a"

    @app.task(retry=Retry(0))
    def second(text: str) -> str:
        runs.append("second")
        if not healthy:
            raise ConnectionError("away")
        return text + "b"

    @app.task
    def third(text: str) -> str:
        runs.append("third")
        return text + "c"

    with app.testing() as t:
        chain = (first | second | third).using(id="x").enqueue()
        with pytest.raises(JobFailedError):
            chain.result()
        assert chain.status == "failed"
        healthy.append(True)
        assert app.dead_letters().replay() == 1
        assert chain.result() == "abc"
        t.drain()
    assert runs == ["first", "second", "second", "third"]


def test_a_stage_that_is_snoozed_delays_the_chain_and_uses_no_attempt(app):
    snoozed: list[bool] = []

    @app.task
    def first() -> int:
        if not snoozed:
            snoozed.append(True)
            raise Snooze(100)
        return current_job().attempt

    @app.task
    def second(n: int) -> int:
        return n

    with app.testing() as t:
        assert (first | second).enqueue().result() == 1
        assert t.now >= 100


def test_a_result_of_none_reaches_the_next_stage(app):
    @app.task
    def nothing() -> None: ...

    @app.task
    def after(value: None) -> str:
        return repr(value)

    with app.testing():
        assert (nothing | after).enqueue().result() == "None"


def test_a_stage_that_gives_up_tells_on_dead_and_nothing_comes_after(app, runs):
    letters = []

    @app.task
    def mourn(letter: dict[str, object]) -> None:
        letters.append((letter["id"], letter["message"]))

    @app.task
    def first() -> int:
        return 1

    @app.task(on_dead=mourn)
    def second(n: int) -> int:
        raise Fail("hopeless")

    @app.task
    def third(n: int) -> None:
        runs.append("third")

    with app.testing() as t:
        (first | second | third).using(id="x").enqueue()
        t.drain()
    assert letters == [("x~1.2", "hopeless")]
    assert runs == []


def test_a_chain_with_a_key_runs_once_whatever_stage_it_is_at(pipeline, runs):
    with pipeline.app.testing() as t:
        keyed = pipeline.using(unique_key="monday")
        first = keyed.enqueue("abc")
        assert first.created
        pipeline.app.pause("reports")
        t.advance(10)
        assert [len(stage.jobs) for stage in first.stages()] == [1, 1, 1]
        again = keyed.enqueue("abc")
        assert (again.id, again.created) == (first.id, False)
        pipeline.app.resume("reports")
        assert again.result() == first.result() == 8
        assert keyed.enqueue("abc").created
        t.drain()
    assert runs.count("report") == 2


def test_a_dead_chain_lets_its_key_go_and_takes_it_again_when_replayed(app):
    healthy: list[bool] = []

    @app.task
    def first() -> int:
        return 1

    @app.task(retry=Retry(0))
    def second(n: int) -> int:
        if not healthy:
            raise ConnectionError
        return n

    keyed = (first | second).using(unique_key="k", delay=5)
    with app.testing() as t:
        dead = keyed.enqueue()
        t.drain()
        newer = keyed.enqueue()
        assert newer.created
        assert app.replay([f"{dead.id}.2"]) == [False]  # the newer one holds the key
        healthy.append(True)
        t.drain()
        assert app.replay([f"{dead.id}.2"]) == [True]
        assert keyed.enqueue().id == dead.id
        assert dead.result() == 1


def test_enqueueing_a_chain_of_the_same_id_returns_the_first(pipeline):
    with pipeline.app.testing() as t:
        first = pipeline.using(id="x").enqueue("abc")
        t.drain()
        again = pipeline.using(id="x").enqueue("other")
        assert (again.created, again.result()) == (False, first.result())


def test_cancelling_a_chain_ends_it_at_whatever_stage_it_is(pipeline, runs):
    with pipeline.app.testing() as t:
        pipeline.app.pause("uploads")
        chain = pipeline.enqueue("abc")
        t.advance(10)
        assert chain.cancel("not needed")
        with pytest.raises(JobCancelledError, match="not needed"):
            chain.result()
        pipeline.app.resume("uploads")
        t.drain()
        assert not chain.cancel()
    assert runs == ["classify"]


def test_a_chain_that_is_between_two_stages_is_cancelled_when_the_next_is_there(pipeline):
    """As on a store that delivers the next stage a moment after the last."""
    with pipeline.app.testing() as t:
        pipeline.app.pause("uploads")
        chain = pipeline.using(id="x").enqueue("abc")
        t.advance(1)
        withheld = t.store.state.jobs.pop("x~1.2")
        t.loop.call_later(0.1, lambda: t.store.state.jobs.update({"x~1.2": withheld}))
        assert chain.cancel("not needed")
        assert pipeline.app.job("x~1.2").status == "cancelled"


def test_a_chain_whose_next_stage_never_comes_cannot_be_cancelled(pipeline):
    with pipeline.app.testing() as t:
        pipeline.app.pause("uploads")
        chain = pipeline.using(id="x").enqueue("abc")
        t.advance(1)
        t.store.state.jobs.pop("x~1.2")
        assert not chain.cancel()


def test_cancelling_a_chain_ends_the_members_of_its_fan_out(app, runs):
    @app.task
    def spread() -> list[int]:
        return [1, 2, 3]

    @app.task(queue="slow")
    def member(n: int) -> int:
        runs.append(n)
        return n

    @app.task
    def total(n: list[int]) -> int:
        return sum(n)

    with app.testing() as t:
        app.pause("slow")
        chain = (spread | each(member) | total).enqueue()
        t.advance(10)
        assert chain.cancel("not needed")
        app.resume("slow")
        t.drain()
        assert [job.status for job in t.jobs()] == ["done", *["cancelled"] * 4]
        assert {job.cancel_reason for job in t.jobs()[1:]} == {"not needed"}
    assert runs == []


def test_a_chain_explains_the_job_that_it_has_come_to(pipeline):
    with pipeline.app.testing() as t:
        pipeline.app.pause("uploads")
        chain = pipeline.enqueue("abc")
        t.advance(10)
        assert "queue uploads is paused" in chain.explain()
        with pytest.raises(ResultTimeoutError, match="queue uploads is paused"):
            chain.result(timeout=1)


def test_chains_can_be_enqueued_together(app, pipeline):
    with app.testing() as t:
        jobs = app.enqueue_many([pipeline.call("a"), pipeline.call("bc")])
        t.drain()
        assert [job.result()["text"] for job in jobs] == ["a", "bc"]
        assert len(t.jobs()) == 6


async def test_a_chain_is_enqueued_from_a_coroutine(pipeline):
    chain = await pipeline.aenqueue("abc")
    assert [len(stage.jobs) for stage in await chain.astages()] == [1, 0, 0]
    assert (await chain.ainfo()).id == chain.id
    pipeline.app.close()


def test_a_chain_that_is_no_longer_stored_is_unknown(pipeline):
    with pipeline.app.testing() as t:
        chain = pipeline.enqueue("abc")
        t.drain()
        t.advance(2 * 3600)
        with pytest.raises(UnknownJobError):
            chain.result()


# -- fan-out ------------------------------------------------------------------------------------


@pytest.fixture
def spreading(app):
    @app.task
    def split(text: str) -> list[str]:
        return text.split()

    @app.task
    def measure(word: str) -> int:
        return len(word)

    @app.task
    def total(lengths: list[int]) -> int:
        return sum(lengths)

    return split, measure, total


def test_a_fan_out_has_a_job_for_each_element_and_its_results_are_in_order(app, spreading):
    split, measure, _ = spreading

    @app.task
    def show(lengths: list[int]) -> list[int]:
        return lengths

    with app.testing(concurrency=3):
        assert (split | each(measure) | show).enqueue("a bbb cc").result() == [1, 3, 2]


def test_a_fan_out_over_nothing_is_gathered_at_once(app, spreading):
    split, measure, total = spreading
    with app.testing():
        chain = (split | each(measure) | total).enqueue("")
        assert chain.result() == 0
        assert [(s.members, len(s.jobs)) for s in chain.stages()] == [(1, 1), (0, 0), (1, 1)]


def test_a_chain_may_end_in_a_fan_out_and_then_has_no_one_result(app, spreading):
    split, measure, _ = spreading
    with app.testing() as t:
        chain = (split | each(measure)).enqueue("a bb")
        t.drain()
        assert [job.value() for job in chain.stages()[1].jobs] == [1, 2]
        with pytest.raises(InvalidError, match=r"ends in each\(measure\), which has no one result"):
            chain.result()


def test_a_chain_may_fan_out_twice(app, spreading):
    split, measure, _ = spreading

    @app.task
    def again(lengths: list[int]) -> list[str]:
        return ["x" * n for n in lengths]

    @app.task
    def done(lengths: list[int]) -> list[int]:
        return lengths

    chain = split | each(measure) | again | each(measure.using(priority="urgent")) | done
    assert repr(chain) == "<chain split | each(measure) | again | each(measure) | done>"
    with app.testing():
        assert chain.enqueue("a bb ccc").result() == [1, 2, 3]


def test_a_member_that_failed_leaves_the_rest_waiting_until_it_is_replayed(app, spreading):
    split, _, total = spreading
    healthy: list[bool] = []

    @app.task(retry=Retry(0))
    def fragile(word: str) -> int:
        if word == "bb" and not healthy:
            raise ConnectionError("away")
        return len(word)

    with app.testing() as t:
        chain = (split | each(fragile) | total).using(id="x").enqueue("a bb ccc")
        t.advance(10)
        assert chain.status == "pending"
        assert "Waiting for 1 of 3 jobs" in chain.explain()
        healthy.append(True)
        assert app.replay(["x~1.2.1"]) == [True]
        assert chain.result() == 6


def test_a_member_that_is_cancelled_cancels_what_would_gather_it(app, spreading):
    split, measure, total = spreading
    chain = split | each(measure.using(queue="slow")) | total
    with app.testing(queues=("default", "slow")) as t:
        app.pause("slow")
        job = chain.using(id="x").enqueue("a bb")
        t.advance(1)
        assert app.job("x~1.2.1").cancel()
        with pytest.raises(JobCancelledError, match=r"job x~1\.2\.1, which it awaits, was"):
            job.result()


def test_what_is_no_list_cannot_be_spread_and_the_job_is_a_dead_letter(app, spreading):
    _, measure, _ = spreading

    @app.task
    def odd() -> list[str]:
        return "text"  # type: ignore[return-value]

    with app.testing() as t:
        chain = (odd | each(measure)).enqueue()
        t.drain()
        [job] = chain.stages()[0].jobs
        assert (job.status, job.result) == ("failed", None)
        assert job.last_failure_reason == "Flow: each(measure) needs a list, and the result is none"


def test_a_fan_out_shows_its_first_hundred_jobs(app, spreading):
    _, measure, total = spreading

    @app.task
    def many() -> list[str]:
        return ["a"] * 150

    with app.testing(concurrency=50) as t:
        chain = (many | each(measure) | total).enqueue()
        t.drain()
        stage = chain.stages()[1]
        assert (stage.members, len(stage.jobs)) == (150, 100)
        assert chain.result() == 150


def test_how_many_members_there_were_is_known_after_they_are_gone(app, spreading):
    split, measure, total = spreading
    with app.testing() as t:
        chain = (split | each(measure) | total).using(id="x").enqueue("a bb ccc")
        t.drain()
        assert app.purge(["x~1.2.0", "x~1.2.1", "x~1.2.2"]) == [True] * 3
        assert [(stage.members, len(stage.jobs)) for stage in chain.stages()][1] == (3, 0)


# -- what is refused ----------------------------------------------------------------------------


def test_a_chain_is_made_of_tasks(app, spreading):
    split, *_ = spreading
    with pytest.raises(
        InvalidError, match=r"made of tasks, task\.using\(\.\.\.\), .* and each\(task\)"
    ):
        split | len


def test_the_first_stage_has_nothing_to_spread(app, spreading):
    split, measure, _ = spreading
    with pytest.raises(InvalidError, match="the first stage has no result before it to spread"):
        app.chain(each(measure), split)


def test_two_fan_outs_need_a_task_between_them(app, spreading):
    split, measure, _ = spreading
    with pytest.raises(InvalidError, match="comes a task that takes the list of results"):
        split | each(measure) | each(measure)


def test_tasks_of_two_apps_make_no_chain(app, spreading):
    split, *_ = spreading

    @Mulligan("memory://").task
    def foreign(words: list[str]) -> None: ...

    with pytest.raises(InvalidError, match="its tasks belong to different apps"):
        split | foreign


def test_a_stage_that_needs_more_than_one_value_is_refused_when_the_chain_is_written(app):
    @app.task
    def one() -> int:
        return 1

    @app.task
    def none() -> None: ...

    @app.task
    def two(a: int, b: int) -> None: ...

    @app.task
    def optional(a: int, b: int = 2) -> int:
        return a + b

    for wrong in (none, two):
        with pytest.raises(InvalidError, match="is called with the result before it alone"):
            one | wrong
    with app.testing():
        assert (one | optional).enqueue().result() == 3


@pytest.mark.parametrize(
    ("options", "word"),
    [({"id": "x"}, "id="), ({"unique_key": "x"}, "unique_key=")],
)
def test_ids_and_keys_are_for_the_first_stage(spreading, options, word):
    split, _, total = spreading
    with pytest.raises(InvalidError, match=f"total has {word}, which only the first job"):
        split | total.using(**options)


def test_a_key_needs_one_last_job_to_hold_it(spreading):
    split, measure, total = spreading
    keyed = split.using(unique_key="k") | each(measure)
    with pytest.raises(InvalidError, match="it ends in many; add a stage"):
        keyed.enqueue("a b")
    with keyed.app.testing():
        assert (keyed | total).enqueue("a b").result() == 2


def test_what_gathers_cannot_be_delayed(spreading):
    split, measure, total = spreading
    with pytest.raises(InvalidError, match="starts when the last of each"):
        split | each(measure) | total.using(delay=5)


def test_an_id_that_leaves_no_room_for_those_of_later_jobs_is_refused(pipeline):
    with pytest.raises(InvalidError, match="that of a chain has at most 100"):
        pipeline.using(id="x" * 101).enqueue("a")
    with pipeline.app.testing():
        assert pipeline.using(id="x" * 100).enqueue("a").result() == 6


def test_wrong_arguments_are_refused_when_the_chain_is_enqueued(pipeline):
    with pytest.raises(InvalidError, match="task classify"):
        pipeline.enqueue(5)


def test_a_chain_runs_to_its_end_while_stages_of_an_earlier_one_of_its_id_are_stored(app):
    healthy: list[bool] = []

    @app.task
    def first() -> list[int]:
        return [1, 2]

    @app.task(retry=Retry(0))
    def second(number: int) -> int:
        if not healthy and number == 1:
            raise ValueError("not yet")
        return number

    @app.task
    def third(numbers: list[int]) -> int:
        return sum(numbers)

    chain = (first | each(second) | third).using(id="order-7")
    with app.testing() as t:
        stuck = chain.enqueue()
        t.advance(10)
        assert not chain.enqueue().created
        app.purge(["order-7"])
        healthy.append(True)
        again = chain.enqueue()
        assert again.created
        assert again.result() == 3
        assert stuck.status == "pending"
        assert {job.id for stage in again.stages() for job in stage.jobs}.isdisjoint(
            job.id for stage in stuck.stages()[1:] for job in stage.jobs
        )
        assert [len(stage.jobs) for stage in again.stages()] == [1, 2, 1]


class Line(msgspec.Struct):
    text: str


class Page(pydantic.BaseModel):
    text: str


class Color(enum.Enum):
    RED = "red"


def stages(app, returned, taken):
    """A task that returns the one type, and a task that takes the other."""

    def make(): ...

    def take(value): ...

    make.__annotations__ = {} if returned is None else {"return": returned}
    take.__annotations__ = {} if taken is None else {"value": taken}
    return app.task(make), app.task(take)


FIT = [
    (None, int),
    (int, None),
    (Any, int),
    (int, float),
    (float, int),
    (int, Decimal),
    (int | None, int),
    (str, datetime),
    (datetime, str),
    (Path, str),
    (str, Color),
    (bytes, str),
    (Line, dict),
    (dict[str, Any], Line),
    (Page, Line),
    (dict, Page),
    (int, Page),  # a validator of pydantic may take anything
    (list, list[int]),
    (list[int], list[float]),
    (set[int], list[int]),
    (tuple[int, str], list[int]),
    (list[int] | str, str),
]
MISFIT = [
    (list[int] | str, list[str]),
    (int, str),
    (str, int),
    (bool, int),
    (type(None), str),
    (list[int], int),
    (int, list[int]),
    (Line, str),
    (Page, int),
    (Color, int),
    (datetime, int),
    (list[int], list[str]),
    (list[Line], list[int]),
    (list[int] | None, list[str]),
    (int | list[int], str),
]


@pytest.mark.parametrize(("returned", "taken"), FIT)
def test_types_that_may_fit_make_a_chain(app, returned, taken):
    a, b = stages(app, returned, taken)
    assert a | b


@pytest.mark.parametrize(("returned", "taken"), MISFIT)
def test_types_that_cannot_fit_are_refused_when_they_are_chained(app, returned, taken):
    a, b = stages(app, returned, taken)
    with pytest.raises(InvalidError, match="; mend one of the annotations, or put a task between"):
        a | b


def test_elements_are_compared_where_a_stage_runs_for_each(app):
    @app.task
    def numbers() -> list[int]:
        return [1]

    @app.task
    def text(value: str) -> str:
        return value

    @app.task
    def double(number: int) -> int:
        return 2 * number

    @app.task
    def joined(texts: list[str]) -> str:
        return "".join(texts)

    assert numbers | each(double)
    for make, words in (
        (lambda: numbers | each(text), "numbers returns list[int], and each(text) takes elements"),
        (lambda: double | each(double), "each(double) needs a list, but double returns int; let"),
        (lambda: numbers | each(double) | joined, "each(double) returns list[int], and joined"),
        (lambda: numbers | each(double) | double, "and double takes it as int"),
    ):
        with pytest.raises(InvalidError, match=re.escape(words)):
            make()
    assert numbers | each(double) | text.without_result("done")


def test_results_are_compared_with_the_list_that_gathers_them(app):
    @app.task
    def double(number: int) -> int:
        return 2 * number

    @app.task
    def joined(texts: list[str]) -> str:
        return "".join(texts)

    @app.task
    def either(values: list[int | Failure]) -> int:
        return len(values)

    words = "gather: double returns int, and joined takes the list of results as list[str]"
    with app.testing():
        with pytest.raises(InvalidError, match=re.escape(words)):
            app.gather([double.call(1)], joined)
        with pytest.raises(InvalidError, match="gather: either returns int, and joined takes"):
            app.gather([app.gather_call([], either)], joined)
        with pytest.raises(InvalidError, match="takes the list of results as int"):
            app.gather([double.call(1)], double)
        assert app.gather([double.call(1)], either, return_exceptions=True).result() == 1
        assert app.gather([(double | double).call(1)], joined.without_result([])).result() == ""
