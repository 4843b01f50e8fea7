"""The types people use are carried both ways, or refused when the task is declared."""

import ipaddress
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NoReturn, TypedDict, TypeVar
from uuid import UUID

import attr
import attrs
import msgspec
import pydantic
import pytest
from pydantic import dataclasses as pydantic_dataclasses

from mulligan import Fail, InvalidError, Mulligan, Retry, each
from mulligan.app.worker import new_worker, work

T = TypeVar("T")
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 2


class Customer(pydantic.BaseModel):
    name: str
    since: date
    tags: set[str] = set()


class Order(pydantic.BaseModel):
    number: int
    customer: Customer
    lines: list["Line"] = []
    total: Decimal = Decimal(0)
    placed: datetime = NOON


@dataclass
class Line:
    article: UUID
    colour: Colour
    count: int = 1


Order.model_rebuild()


class Aliased(pydantic.BaseModel):
    order_id: int = pydantic.Field(alias="orderId")
    shown_as: str = pydantic.Field("", serialization_alias="title", validation_alias="label")


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, frozen=True)
    at: datetime
    level: Level


class Card(pydantic.BaseModel):
    kind: Literal["card"] = "card"
    digits: str


class Transfer(pydantic.BaseModel):
    kind: Literal["transfer"] = "transfer"
    iban: str


class Computed(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    cents: int

    @pydantic.computed_field
    def euros(self) -> float:
        return self.cents / 100


class Envelope(pydantic.BaseModel, Generic[T]):
    inside: T


class Numbers(pydantic.RootModel[list[int]]):
    pass


@pydantic_dataclasses.dataclass
class Money:
    cents: int
    raw: bytes = b"abc"


@attrs.define
class Parcel:
    weight: float = attrs.field(validator=attrs.validators.gt(0))
    sent: date
    notes: list[str] = attrs.Factory(list)


@attr.s(auto_attribs=True, slots=True, frozen=True)
class Street:
    code: str = attr.ib(validator=attr.validators.matches_re(r"[0-9]{5}"))


@attrs.define(kw_only=True)
class Person:
    name: str
    addresses: list[Street] = attrs.field(factory=list)
    patience: timedelta = timedelta(minutes=5)


@attrs.frozen
class Shipment:
    parcels: dict[str, Parcel]
    order: Order | None = None


@dataclass
class Basket:
    customer: Customer
    parcel: Parcel | None = None


class Job(msgspec.Struct):
    order: Order
    colours: frozenset[Colour] = frozenset()


class Address(TypedDict):
    town: str
    owner: Customer


class Point(NamedTuple):
    x: int
    at: datetime


ADA = Customer(name="Ada", since=date(1843, 1, 2), tags={"x"})
LINE = Line(UUID(int=7), Colour.RED, 2)
ORDER = Order(number=7, customer=ADA, lines=[LINE], total=Decimal("9.90"))
PARCEL = Parcel(1.5, date(2026, 1, 1), ["fragile"])

VALUES: list[tuple[Any, Any]] = [
    (Order, ORDER),
    (Customer | None, None),
    (list[Order], [ORDER, ORDER]),
    (dict[str, Customer], {"a": ADA}),
    (tuple[Customer, int], (ADA, 1)),
    (Aliased, Aliased.model_validate({"orderId": 5, "label": "x"})),
    (Strict, Strict(at=NOON, level=Level.HIGH)),
    (Card | Transfer, Transfer(iban="DE1")),
    (
        list[Annotated[Card | Transfer, pydantic.Field(discriminator="kind")]],
        [Card(digits="42"), Transfer(iban="DE2")],
    ),
    (Envelope[Customer], Envelope[Customer](inside=ADA)),
    (Numbers, Numbers([1, 2])),
    (Money, Money(5)),
    (list[Money], [Money(1, b"x")]),
    (pydantic.HttpUrl, pydantic.HttpUrl("https://example.com/a")),
    (Computed, Computed(cents=5)),
    (Person, Person(name="Ann", addresses=[Street("12345")])),
    (Parcel, PARCEL),
    (list[Parcel], [PARCEL]),
    (Shipment, Shipment({"a": PARCEL}, ORDER)),
    (Basket, Basket(ADA, PARCEL)),
    (Job, Job(ORDER, frozenset({Colour.RED}))),
    (Address, {"town": "Ulm", "owner": ADA}),
    (Point, Point(1, NOON)),
    (Line, LINE),
    (Colour, Colour.RED),
    (Level, Level.HIGH),
    (datetime, NOON),
    (date, NOON.date()),
    (time, time(12, 30)),
    (timedelta, timedelta(hours=2)),
    (Decimal, Decimal("1.50")),
    (UUID, UUID(int=5)),
    (bytes, b"\x00\xff"),
    (set[Colour], {Colour.RED}),
    (frozenset[int], frozenset({1, 2})),
    (Literal["a", "b"], "b"),
    (int | str | None, "x"),
    (dict[int, Line], {1: LINE}),
    (Path, Path("/tmp/x")),  # noqa: S108 - a path like any other
    (ipaddress.IPv4Address, ipaddress.IPv4Address("10.0.0.1")),
    (dict[str, object], {"a": [1]}),
]


@pytest.fixture
def app():
    return Mulligan("memory://")


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=str)
def test_a_value_arrives_as_argument_next_stage_and_result_in_its_own_type(app, kind, value):
    seen = []

    def keep(value, *, also=None):
        seen.append((value, also))
        return value

    def again(value):
        seen.append((value, None))
        return value

    keep.__annotations__ = {"value": kind, "also": kind, "return": kind}
    again.__annotations__ = {"value": kind, "return": kind}
    first = app.task(keep)
    second = app.task(accept=True)(again)
    with app.testing() as t:
        single = first.enqueue(value, also=value)
        chain = (first | second).enqueue(value)
        t.drain()
        results = [single.result(), chain.result()]
    assert seen == [(value, value), (value, None), (value, None)]
    assert results == [value, value]
    assert {type(each) for each in results} == {type(value)}


def test_gathers_fan_outs_and_sinks_take_them_too(app):
    saved = []

    @app.sink
    def save(result: Order, key: str) -> None:
        saved.append(result)

    @app.task
    def split(order: Order) -> list[Line]:
        return order.lines

    @app.task(accept=Parcel)
    def pack(line: Line) -> Parcel:
        return Parcel(line.count, date(2026, 1, 1))

    @app.task(sink=save, accept=True)
    def ship(parcels: Iterable[Parcel]) -> Order:
        return ORDER.model_copy(update={"number": sum(int(each.weight) for each in parcels)})

    with app.testing() as t:
        chain = (split | each(pack) | ship).enqueue(ORDER)
        t.drain()
        assert chain.result().number == 2
        gathered = app.gather([pack.call(LINE), pack.call(LINE)], ship)
        t.drain()
        assert gathered.result().number == 4
    assert [each.number for each in saved] == [2, 4]
    assert {type(each) for each in saved} == {Order}


def test_other_programs_may_send_json_by_alias_or_by_name(app):
    @app.task
    def show(order: Aliased) -> int:
        return order.order_id

    with app.testing() as t:
        jobs = [
            show.enqueue({"orderId": 1, "label": "x"}),
            show.enqueue({"order_id": 2, "shown_as": "x"}),
        ]
        t.drain()
        assert [job.result() for job in jobs] == [1, 2]


class Weird:
    pass


class Hidden(pydantic.BaseModel):
    password: pydantic.SecretStr


class Told(pydantic.BaseModel):
    password: pydantic.SecretStr

    @pydantic.field_serializer("password")
    def tell(self, value: pydantic.SecretStr) -> str:
        return value.get_secret_value()


@attrs.define
class Private:
    _name: str


@dataclass
class Cached:
    name: str
    _seen: int = field(default=0, init=False)


REFUSED = [
    (Weird, "Weird cannot be written as JSON and read back; declare a dataclass"),
    (list[Weird], "Weird cannot be"),
    (Weird | None, "Weird cannot be"),
    (dict[str, tuple[Weird, ...]], "Weird cannot be"),
    (Callable[[], None], "Callable"),
    (Counter[str], "Counter cannot be"),
    (complex, "complex cannot be"),
    (Iterator[int], "Iterator cannot be"),
    (Line | Cached, "more than one dataclass .*; use types that JSON can tell apart"),
    (Hidden, "SecretStr is written as asterisks; pass an id"),
    (list[Hidden], "SecretStr is written as asterisks"),
    (dict[tuple[int, int], str], r"its keys are tuple\[int, int\], and in JSON keys are text; use"),
    (list[Mapping[int | None, str]], r"its keys are int \| None, and in JSON"),
    (dict[Cached, str], "its keys are Cached, and in JSON"),
    (Private, "field _name of Private begins with an underscore"),
]


@pytest.mark.parametrize(("kind", "words"), REFUSED, ids=str)
def test_a_type_that_cannot_be_carried_is_refused_by_the_decorator(app, kind, words):
    def take(what):
        pass

    def give():
        pass

    take.__annotations__["what"] = kind
    give.__annotations__["return"] = kind
    with pytest.raises(InvalidError, match=f"^task take: parameter what is .*{words}"):
        app.task(take)
    with pytest.raises(InvalidError, match=f"^task give returns .*{words}"):
        app.task(give)
    with pytest.raises(InvalidError, match=f"^accept .* is no type .*{words}"):
        app.task(accept=kind)(lambda: None)
    assert app.tasks == {}


def test_a_secret_with_a_serializer_and_a_field_that_is_not_passed_are_carried(app):
    @app.task
    def keep(told: Told, cached: Cached) -> str:
        return told.password.get_secret_value() + cached.name

    with app.testing():
        assert keep.enqueue(Told(password=pydantic.SecretStr("a")), Cached("b")).result() == "ab"


def test_a_function_that_never_returns_and_one_that_returns_signals_are_tasks(app):
    @app.task(retry=Retry(0))
    def never() -> NoReturn:
        raise ValueError

    @app.task
    def signal() -> Fail:
        return Fail("no")

    with app.testing() as t:
        jobs = [never.enqueue(), signal.enqueue()]
        t.drain()
        assert [job.status for job in jobs] == ["failed", "failed"]


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (Order, {"number": "x", "customer": ADA}, "is not Order: number: Input should be a valid"),
        (list[Customer], [{"name": "a"}], r"is not list\[Customer\]: 0.since: Field"),
        (Parcel, {"weight": -1, "sent": "2026-01-01"}, "is not Parcel: 'weight' must be > 0: -1"),
        (
            Basket,
            {"customer": {}},
            r"is not Basket: name: Field required; since.* - at `\$.customer`",
        ),
        (Job, {"order": {}}, r"is not Job: number: Field required; .* - at `\$.order`"),
        (
            Person,
            {"name": "a", "addresses": [{"code": "1"}]},
            r"is not Person: 'code' must match regex .* - at `\$.addresses\[0\]`$",
        ),
        (
            Annotated[Card | Transfer, pydantic.Field(discriminator="kind")],
            {"kind": "cash"},
            r"is not Card \| Transfer: Input tag 'cash' found",
        ),
        (list[float], [float("nan")], "NaN"),
        (Path, 5, "is not Path: Expected `str`, got `int`"),
        (Order, Weird, "is not Order"),
        (Annotated[int, msgspec.Meta(gt=0)], 0, "Expected `int` >= 1"),
        (Annotated[int, pydantic.Field(gt=0)], 0, "Input should be greater than 0"),
        (pydantic.PositiveInt, 0, "Input should be greater than 0"),
    ],
    ids=str,
)
def test_an_argument_that_does_not_fit_is_refused_at_enqueue(app, kind, value, words):
    def take(what):
        pass

    take.__annotations__["what"] = kind
    task = app.task(take)
    with app.testing() as t:
        with pytest.raises(InvalidError, match=words):
            task.enqueue(value)
        assert t.jobs() == []


def test_a_stored_argument_that_does_not_fit_fails_once_and_says_why(app):
    @app.task
    def wrong() -> dict[str, int]:
        return {"number": 1}

    @app.task
    def take(order: Order) -> None: ...

    with app.testing() as t:
        chain = (wrong | take).enqueue()
        t.drain()
        [attempt] = chain.history()
    assert attempt.message == "argument order is not Order: customer: Field required"
    assert (attempt.code, attempt.delay) == ("arguments", None)


def test_a_name_that_is_defined_later_is_checked_at_the_first_use(app):
    def take(order: "Later") -> "Later":  # type: ignore[name-defined]  # noqa: F821
        return order

    task = app.task(take)
    take.__globals__["Later"] = Order
    try:
        with app.testing():
            assert task.enqueue(ORDER).result() == ORDER
    finally:
        del take.__globals__["Later"]


def test_a_name_that_is_never_defined_stops_a_worker_and_is_named(app):
    @app.task
    def take(order: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(InvalidError, match=r"task take: an annotation cannot be read: .*Missing"):
        app.run(lambda: work(app, new_worker(app)))


def test_results_of_such_types_without_an_annotation_come_back_as_json(app):
    @app.task
    def give():
        return [ADA, PARCEL, Path("a")]

    with app.testing():
        assert give.enqueue().result() == [
            {"name": "Ada", "since": "1843-01-02", "tags": ["x"]},
            {"weight": 1.5, "sent": "2026-01-01", "notes": ["fragile"]},
            "a",
        ]


def test_parameters_are_data(app):
    @app.task
    def ship(
        order: Order, count: int = 1, *tags: str, when: date | None = None, **more
    ) -> None: ...

    order, count, tags, when, more = ship.parameters()
    assert (order.name, order.type, order.required, order.given) == (
        "order",
        "Order",
        True,
        "either",
    )
    assert order.schema["required"] == ["number", "customer"]
    assert msgspec.to_builtins(count) == {
        "name": "count",
        "type": "int",
        "schema": {"type": "integer"},
        "required": False,
        "given": "either",
        "default": 1,
    }
    assert (tags.given, tags.required, tags.default) == ("rest", False, msgspec.UNSET)
    assert (when.type, when.default, when.given) == ("date | None", None, "keyword")
    assert (more.given, more.type, more.schema) == ("extra", "any", {})


class Opaque(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    thing: Annotated[
        Weird,
        pydantic.BeforeValidator(lambda _text: Weird()),
        pydantic.PlainSerializer(lambda _thing: "weird"),
    ]


def test_parameters_without_a_schema_or_a_readable_type_are_told_all_the_same(app):
    @app.task
    def take(what: Opaque, n: object = b"bytes") -> None: ...

    @app.task
    def never(what: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    what, n = take.parameters()
    assert (what.type, what.schema) == ("Opaque", {})
    assert (n.required, n.default) == (False, "Ynl0ZXM=")
    assert [(each.name, each.type) for each in never.parameters()] == [("what", "any")]
    with app.testing() as t:
        job = take.enqueue(Opaque(thing=Weird()))
        t.drain()
        assert job.status == "done"


def test_neither_pydantic_nor_attrs_is_imported_for_plain_types():
    code = (
        "import sys; from mulligan import Mulligan; from dataclasses import dataclass;"
        "app = Mulligan('memory://');"
        "D = dataclass(type('D', (), {'__annotations__': {'x': int}}));"
        "app.task(name='t')(lambda x: x);\n"
        "@app.task\ndef f(d: D, n: int = 1) -> D: return d\n"
        "with app.testing() as t: assert f.enqueue(D(1)).result() == D(1)\n"
        "print([m for m in ('pydantic', 'attr', 'attrs') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
