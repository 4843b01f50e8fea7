"""Arguments are checked when enqueued and arrive in the function's own types."""

import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import Struct

from mulligan import InvalidError, Mulligan, Settings


class Order(Struct):
    number: int
    lines: list[str]


@pytest.fixture
def app():
    return Mulligan("memory://", settings=Settings(payload_limit=2000))


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {}, "missing a required argument: 'question'"),
        (("a", "b", "c"), {}, "too many positional arguments"),
        (("a",), {"colour": "red"}, "unexpected keyword argument 'colour'"),
        ((5,), {}, "argument question=5 is not str"),
        (("a", "many"), {}, "argument times='many' is not int"),
        (("a", 1.5), {}, "argument times=1.5 is not int"),
        (("\ud800",), {}, "cannot be written as JSON"),
        (("x" * 2000,), {}, "more than the 2000 allowed"),
    ],
)
def test_a_wrong_call_is_refused_at_enqueue(app, args, kwargs, words):
    @app.task
    async def ask(question: str, times: int = 1) -> None: ...

    with app.testing() as t:
        with pytest.raises(InvalidError, match=words.replace("(", r"\(")):
            ask.enqueue(*args, **kwargs)
        assert t.jobs() == []


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("-inf"),
        {1, 2},
        b"bytes",
        object(),
        {1: "int key"},
        [[float("inf")]],
        datetime.now(UTC),
        2**64,
    ],
)
def test_without_an_annotation_only_what_json_gives_back_is_taken(app, value):
    @app.task
    async def anything(x) -> None: ...

    with app.testing(), pytest.raises(InvalidError, match="JSON"):
        anything.enqueue(value)


def test_nesting_without_end_is_refused(app):
    @app.task
    async def anything(x: Any) -> None: ...

    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    with app.testing(), pytest.raises(InvalidError, match="200 levels"):
        anything.enqueue(deep)


def test_annotated_arguments_arrive_in_their_own_types(app):
    seen = []

    @app.task
    async def ship(
        order: Order, after: datetime, within: timedelta, *tags: str, **more: int
    ) -> None:
        seen.append((order, after, within, tags, more))

    moment = datetime(2030, 1, 2, tzinfo=UTC)
    order = Order(7, ["a"])
    with app.testing() as t:
        ship.enqueue(order, moment, timedelta(hours=1), "x", "y", n=1)
        ship.enqueue(order, within=timedelta(hours=1), after=moment)
        t.drain()
    assert seen == [
        (order, moment, timedelta(hours=1), ("x", "y"), {"n": 1}),
        (order, moment, timedelta(hours=1), (), {}),
    ]


def test_plain_json_arrives_unchanged(app):
    seen = []

    @app.task
    async def keep(x: Any, y=None) -> None:
        seen.append((x, y))

    value = {"a": [1, 2.5, None, True, "ü€"], "b": {"c": []}}
    with app.testing() as t:
        keep.enqueue(value, y=[value])
        t.drain()
    assert seen == [(value, [value])]


def test_an_annotation_that_cannot_be_read_is_named(app):
    def broken(x: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    task = app.task(broken)
    with app.testing(), pytest.raises(InvalidError, match="Missing"):
        task.enqueue(1)


# What Python 3.14 takes, and those before refuse themselves.
UNQUOTED = """
@app.task
def take(order: Later) -> Later:
    return order

@app.middleware
def around(call: NeverDefined, job: NeverDefined) -> NeverDefined:
    return call()

@app.on("success")
def told(event: NeverDefined) -> NeverDefined: ...
"""


@pytest.mark.skipif(sys.version_info < (3, 14), reason="Python 3.14 defers annotations")
def test_an_unquoted_annotation_may_name_what_is_defined_later_or_never(app):
    module: dict[str, Any] = {"app": app}
    exec(UNQUOTED, module)  # noqa: S102 - older versions cannot run it
    module["Later"] = Order
    with app.testing():
        assert module["take"].enqueue(Order(1, ["a"])).result() == Order(1, ["a"])
