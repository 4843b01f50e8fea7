"""Arguments that JSON cannot carry, or that are too much: refused in words, nothing written."""

import asyncio
import contextlib
import datetime as dt
import decimal
import sys
import uuid
from math import inf, nan
from typing import Any

import msgspec
import pytest

from mulligan import InvalidError, Mulligan
from mulligan.core.job import NewJob, encode
from mulligan.core.settings import Settings
from tests.hostile.worker import bare, ended, working


class Thing:
    """No JSON has a word for it."""


class Unshown:
    """Not even in an error message."""

    def __repr__(self) -> str:
        raise OSError("no")


def nested(kind: str, levels: int = 10_000) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value] if kind == "list" else {"a": value}
    return value


BAD: dict[str, Any] = {
    "nan": nan,
    "infinity": inf,
    "minus infinity": -inf,
    "nan inside": {"a": [1.0, nan]},
    "2**64": 2**64,
    "below -2**63": -(2**63) - 1,
    "huge number": 10**4000,
    "lone surrogate": "a\ud800b",
    "lone surrogate inside": [{"a": "\udfff"}],
    "lone surrogate as a key": {"\ud800": 1},
    "set": {1, 2},
    "bytes": b"x",
    "object": Thing(),
    "function": nested,
    "moment": dt.datetime.now(dt.UTC),
    "decimal": decimal.Decimal("1.5"),
    "uuid": uuid.uuid4(),
    "complex": 1j,
    "number as a key": {1: 2},
    "tuple as a key": {(1, 2): 3},
    "None as a key": {None: 1},
    "lists 10,000 deep": nested("list"),
    "dicts 10,000 deep": nested("dict"),
    "an exception": ValueError("x"),
    "a generator": (each for each in [1]),
    "what cannot be shown": Unshown(),
}


def itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def refused(call: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(InvalidError) as error:
        call(*args, **kwargs)
    words = str(error.value)
    assert len(words) < 700, "the value is shown whole"
    words.encode()
    return words


@pytest.mark.parametrize("what", BAD)
def test_a_value_that_json_cannot_carry_is_refused_with_the_rule(what):
    app = Mulligan("memory://")

    @app.task
    def take(value, *rest, named=None, **more): ...

    for words in (
        refused(take.call, BAD[what]),
        refused(take.call, 1, BAD[what]),
        refused(take.call, 1, named=BAD[what]),
        refused(take.call, 1, other=BAD[what]),
    ):
        assert "task take" in words
        assert "JSON" in words
        assert "pass text" in words


def test_a_value_that_holds_itself_is_refused():
    app = Mulligan("memory://")

    @app.task
    def take(value): ...

    assert "200 levels deep" in refused(take.call, itself())


@pytest.mark.parametrize("what", ["lists 10,000 deep", "dicts 10,000 deep", "lone surrogate"])
def test_an_annotation_does_not_let_it_through(what):
    app = Mulligan("memory://")

    @app.task
    def take(value: Any, other: list[Any], more: dict[str, Any]): ...

    refused(take.call, BAD[what], [], {})
    refused(take.call, 1, [BAD[what]], {})
    refused(take.call, 1, [], {"a": BAD[what]})


class Tree(msgspec.Struct):
    """A value that may be nested without end."""

    inner: "Tree | None" = None


@pytest.mark.parametrize("levels", [201, 900, 5_000, 10_000])
def test_an_argument_deeper_than_the_limit_is_refused_whatever_its_annotation(levels):
    app = Mulligan("memory://")

    @app.task
    def take(value: Any = None, other: list[Any] | None = None, tree: Tree | None = None): ...

    tree = Tree()
    for _ in range(levels - 1):
        tree = Tree(tree)
    deep = nested("list", levels - 1)
    for words in (
        refused(take.call, deep),
        refused(take.call, other=deep),
        refused(take.call, tree=tree),
    ):
        assert "200 levels deep" in words


def test_an_argument_as_deep_as_the_limit_is_taken_whatever_its_annotation():
    app = Mulligan("memory://")

    @app.task
    def take(value: Any, other: list[Any], text: str) -> None: ...

    deep = nested("list", 199)
    take.call(deep, deep, "[" * 1000)
    take.call(deep, other=deep, text='"' + "[" * 1000)


def test_a_payload_over_the_limit_is_refused_with_its_size():
    app = Mulligan("memory://", settings=Settings(payload_limit=1000))

    @app.task
    def take(value): ...

    words = refused(take.call, "x" * 1000)
    assert "more than the 1000 allowed" in words
    assert "or raise payload_limit" in words
    refused(take.call, list(range(1000)))
    refused(take.call, "x" * 100_000_000)


NAMES: dict[str, Any] = {
    "empty": "",
    "too long": "x" * 129,
    "NUL": "a\0b",
    "newline": "a\nb",
    "escape": "a\x1b[2Jb",
    "lone surrogate": "a\ud800b",
    "a number": 7,
    "an operator": {"$gt": ""},
    "bytes": b"a",
}


@pytest.mark.parametrize("what", NAMES)
@pytest.mark.parametrize("option", ["id", "queue", "region", "unique_key", "fairness_key"])
def test_a_name_that_is_none_is_refused(option, what):
    app = Mulligan("memory://")

    @app.task
    def take(): ...

    assert option in refused(take.using, **{option: NAMES[what]})


@pytest.mark.parametrize("what", NAMES)
def test_a_task_of_no_good_name_is_refused(what):
    app = Mulligan("memory://")
    maker = app.task(name=NAMES[what])
    if what == "empty":
        return  # the function's own name is meant
    assert "task" in refused(maker, nested)


async def count(app: Mulligan) -> int:
    async with bare(app) as store:
        stats = await store.stats()
    return sum(lane.ready + lane.delayed for lane in stats.lanes)


async def test_one_bad_call_among_many_and_none_is_written(app: Mulligan):
    @app.task
    def take(value): ...

    calls = (take.call(value) for value in (1, 2, nan, 3))
    with pytest.raises(InvalidError):
        await asyncio.to_thread(app.enqueue_many, calls)
    with pytest.raises(InvalidError):
        await app.aenqueue_many(take.call(value) for value in (1, {2}))
    assert await count(app) == 0


async def test_one_job_that_the_store_cannot_take_among_many_and_none_is_written(app: Mulligan):
    """What passed every check and cannot be written all the same: here, half a character."""
    body = encode({"task": "take", "args": [], "kwargs": {}})
    jobs = [NewJob(name, "default", "take", body) for name in ("a", "b", "c\ud800")]
    written = 0
    async with bare(app) as store:
        with contextlib.suppress(Exception):  # a driver says it in its own words
            written = len(await store.enqueue(jobs))
    assert await count(app) == written
    assert written in (0, 3)  # memory has nothing to encode, and takes it


async def test_what_json_can_carry_arrives_unchanged(app: Mulligan):
    values = [
        "a\0b",
        "\x1b[2J\r\n\u2028",
        "\U0001f600é",
        2**64 - 1,
        -(2**63),
        1e308,
        5e-324,
        -0.0,
        "$where",
        {"$gt": "", "a.b": 1, "": {"\0": 2}},
        nested("list", 150),
        [None, True, {"a": [{}]}],
        "x" * 200_000,
    ]
    seen: list[Any] = []

    @app.task
    async def take(value):
        seen.append(value)
        return value

    async with bare(app) as store, working(app):
        jobs = [await take.using(id=str(at)).aenqueue(value) for at, value in enumerate(values)]
        ends = [await ended(store, job.id) for job in jobs]
    assert [job.status for job in ends] == ["done"] * len(values)
    assert sorted(map(repr, seen)) == sorted(map(repr, values))
    assert [job.value() for job in ends] == values


def test_numbers_of_thousands_of_digits_are_refused_without_counting_them():
    """Python itself refuses to print them, which must not become the error."""
    app = Mulligan("memory://")

    @app.task
    def take(value): ...

    assert sys.get_int_max_str_digits() == 4300
    refused(take.call, 10**5000)
