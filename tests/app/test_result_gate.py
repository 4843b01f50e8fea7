"""The result gate: what `accept=` takes, and what becomes of a refused result."""

from typing import Literal, TypedDict

import pytest

from mulligan import Delays, InvalidError, JobFailedError, Mulligan, Retry
from mulligan.app.result_gate import gate_of

ONCE = Retry(0)


class Answer(TypedDict):
    category: Literal["news", "sport"]


@pytest.fixture
def app():
    return Mulligan("memory://")


@pytest.mark.parametrize(
    ("accept", "good", "bad"),
    [
        (lambda answer: answer != "Error", ["news"], ["Error"]),
        (str, ["a", ""], [5, None, ["a"]]),
        (list[int], [[], [1], (1, 2)], [["a"], "12", None]),
        (int | None, [1, None], ["1", 1.5]),
        (Literal["yes", "no"], ["yes"], ["Error", None]),
        (Answer, [{"category": "news"}], [{"category": "Error"}, {}, "news", None]),
        (float, [1.5, 1], ["1.5"]),
    ],
)
def test_a_predicate_or_a_type_says_which_results_are_good(accept, good, bad):
    gate = gate_of(accept, print)
    assert gate is not None
    assert [gate(value) for value in good] == [True] * len(good)
    assert [gate(value) for value in bad] == [False] * len(bad)


def test_what_json_cannot_carry_has_no_type():
    gate = gate_of(str, print)
    assert gate is not None
    assert not gate(object())


def test_true_means_the_annotation():
    def ask() -> Answer:
        return {"category": "news"}

    gate = gate_of(True, ask)  # noqa: FBT003 - the word that users write
    assert gate is not None
    assert gate({"category": "sport"})
    assert not gate({"category": "Error"})


@pytest.mark.parametrize("accept", [None, False])
def test_without_a_gate_every_result_is_good(accept):
    assert gate_of(accept, print) is None


def test_what_cannot_be_a_gate_is_refused(app):
    def bare(): ...

    def strange() -> "Unknown":  # type: ignore[name-defined]  # noqa: F821
        ...

    with pytest.raises(InvalidError, match="accept=True needs a return annotation on bare; add"):
        app.task(accept=True)(bare)
    with pytest.raises(
        InvalidError, match="accept=True on strange: its annotations cannot be read"
    ):
        app.task(accept=True)(strange)
    with pytest.raises(InvalidError, match="accept 5 must be a predicate, a type, or True"):
        app.task(accept=5)(bare)
    with pytest.raises(InvalidError, match="is no type that a result can be held to"):
        app.task(accept=list[int] | tuple[int, ...])(bare)


def test_a_refused_result_is_a_failed_attempt_kept_in_the_history_alone(app):
    @app.task(retry=Retry(1, Delays((0,))), accept=Answer)
    def ask() -> dict[str, str]:
        return {"category": "Error"}

    with app.testing() as t:
        job = ask.enqueue()
        t.drain()
        info = job.info()
        assert (info.status, info.result) == ("failed", None)
        assert [(a.type, a.refused) for a in job.history()] == [
            ("Refused", '{"category":"Error"}')
        ] * 2
        with pytest.raises(JobFailedError, match="the result was refused"):
            job.result()


def test_a_predicate_that_raises_accepts_nothing(app):
    after = []

    @app.sink
    def save(result: object, key: str) -> None:
        after.append(result)

    @app.task(retry=ONCE, accept=lambda answer: answer["category"] != "Error", sink=save)
    def ask() -> dict[str, str]:
        return {"oops": "no category"}

    @app.task
    def later(answer: dict[str, str]) -> None:
        after.append(answer)

    with app.testing() as t:
        job = (ask | later).enqueue()
        t.drain()
        assert (job.info().status, job.info().result) == ("failed", None)
    assert after == []


def test_a_refused_result_does_not_reach_the_next_stage(app):
    after = []

    @app.task(retry=ONCE, accept=True)
    def ask() -> Literal["news"]:
        return "Error"  # type: ignore[return-value]

    @app.task
    def later(category: str) -> None:
        after.append(category)

    with app.testing() as t:
        (ask | later).enqueue()
        t.drain()
    assert after == []


def test_a_coroutine_function_is_no_gate(app):
    async def later(answer: str) -> bool:
        return True

    with pytest.raises(InvalidError, match="is a coroutine function; give a plain one"):

        @app.task(accept=later)
        def ask() -> str:
            return ""


def test_a_gate_that_answers_later_refuses(app):
    async def later(answer: str) -> bool:
        return True

    @app.task(accept=lambda answer: later(answer), retry=Retry(0))  # noqa: PLW0108 - it awaits
    def ask() -> str:
        return "Error"

    with app.testing() as t:
        job = ask.enqueue()
        t.drain()
        assert job.history()[0].message.endswith("accept did not answer at once")
