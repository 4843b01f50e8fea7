"""Results come back in the type that the task declares."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple, Optional, TypedDict, Union
from uuid import UUID

import pytest
from msgspec import Struct

from mulligan import Fail, InvalidError, Mulligan, RetryAfter, Snooze


@dataclass
class Order:
    number: int
    placed: datetime


class Line(Struct):
    price: Decimal
    note: str | None = None


class Address(TypedDict):
    town: str


class Point(NamedTuple):
    x: int
    y: int


class Colour(Enum):
    RED = "red"


NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
ORDER = Order(7, NOON)


@pytest.fixture
def app():
    return Mulligan("memory://")


def given_back(app: Mulligan, kind: Any, value: Any) -> Any:
    def give():
        return value

    if kind is not None:
        give.__annotations__["return"] = kind
    task = app.task(give)
    with app.testing():
        return task.enqueue().result()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Order, ORDER),
        ("Order", ORDER),
        (list[Order], [ORDER, ORDER]),
        (Optional[Order], ORDER),  # noqa: UP045 - as many write it
        (Order | None, None),
        (Union[None, Order], ORDER),  # noqa: UP007 - as many write it
        (dict[int, Order], {1: ORDER}),
        (tuple[Order, int], (ORDER, 1)),
        (Line, Line(Decimal("1.50"))),
        (Address, {"town": "Ulm"}),
        (Point, Point(1, 2)),
        (Colour, Colour.RED),
        (datetime, NOON),
        (date, NOON.date()),
        (timedelta, timedelta(hours=2)),
        (UUID, UUID(int=5)),
        (bytes, b"\x00\xff"),
        (set[int], {1, 2}),
        (None, None),
        (type(None), None),
    ],
    ids=str,
)
def test_a_result_comes_back_in_the_declared_type(app, kind, value):
    got = given_back(app, kind, value)
    assert got == value
    assert type(got) is type(value)


def test_without_an_annotation_a_result_comes_back_as_json(app):
    assert given_back(app, None, ORDER) == {"number": 7, "placed": "2026-05-04T12:00:00Z"}


@pytest.mark.parametrize(
    ("kind", "value", "got"),
    [
        (Any, ORDER, {"number": 7, "placed": "2026-05-04T12:00:00Z"}),
        (object, (1, 2), [1, 2]),
    ],
    ids=str,
)
def test_so_it_does_where_any_value_will_do(app, kind, value, got):
    assert given_back(app, kind, value) == got


@pytest.mark.parametrize("kind", [Order | Snooze, Order | Fail | RetryAfter | None], ids=str)
def test_a_signal_that_may_be_returned_is_no_part_of_the_type(app, kind):
    assert given_back(app, kind, ORDER) == ORDER


def test_accept_true_takes_no_notice_of_signals_in_the_annotation(app):
    @app.task(accept=True)
    def give(number: int) -> int | Snooze:
        return number

    with app.testing():
        assert give.enqueue(5).result() == 5


def test_only_a_signal_in_the_annotation_leaves_the_result_as_it_is(app):
    assert given_back(app, Snooze | Fail, None) is None


def test_a_result_that_no_longer_fits_names_the_type_and_the_way_to_the_raw_value(app):
    def give():
        return {"number": "seven"}

    give.__annotations__["return"] = Order
    task = app.task(give)
    with app.testing():
        job = task.using(id="j").enqueue()
        with pytest.raises(InvalidError) as refused:
            job.result()
        assert str(refused.value) == (
            "job j: its result is not Order, which task give says it returns: Expected `int`, got"
            " `str` - at `$.number`; job.info().value() gives it as it is stored"
        )
        assert job.info().value() == {"number": "seven"}


def test_an_annotation_that_cannot_be_read_is_named(app):
    @app.task
    def give() -> "Missing":  # type: ignore[name-defined]  # noqa: F821
        return 1

    with app.testing(), pytest.raises(InvalidError, match="task give: an annotation cannot be"):
        give.enqueue()


def test_handles_by_id_chains_and_gathers_give_the_declared_types_too(app):
    seen: list[Any] = []

    @app.task
    async def place(number: int) -> Order:
        return Order(number, NOON)

    @app.task
    async def renumber(order: Order) -> Order:
        seen.append(order)
        return Order(order.number + 1, order.placed)

    @app.task
    async def collect(orders: list[Order]) -> dict[int, Order]:
        seen.append(orders)
        return {order.number: order for order in orders}

    with app.testing() as t:
        single = place.enqueue(1)
        chain = (place | renumber).enqueue(1)
        gather = app.gather([place.call(1), place.call(2)], collect)
        t.drain()
        one, two = Order(1, NOON), Order(2, NOON)
        assert app.job(single.id).result() == one
        assert t.run(single.aresult()) == one
        assert chain.result() == two
        assert gather.result() == {1: one, 2: two}
    assert seen == [one, [one, two]]


def test_a_dict_with_keys_that_are_no_text_arrives_as_it_is_declared(app):
    seen: list[Any] = []

    @app.task
    def count(by_day: dict[int, str], *, by_date: dict[date, int]) -> None:
        seen.append((by_day, by_date))

    with app.testing() as t:
        job = count.enqueue({1: "a"}, by_date={NOON.date(): 2})
        t.drain()
        assert job.status == "done"
    assert seen == [({1: "a"}, {NOON.date(): 2})]
