"""Models of a web project and classes of an older code base, used as the guide says."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Dict, List, Literal, Optional  # noqa: UP035 - as it was written
from uuid import UUID, uuid4

import attr
import attrs
import pytest
from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field, computed_field, field_validator
from pydantic.alias_generators import to_camel

from mulligan import InvalidError, Mulligan, Retry, each


class Status(StrEnum):
    NEW = "new"
    PAID = "paid"


class Base(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class Item(Base):
    sku: Annotated[str, Field(pattern=r"^[A-Z]{3}-[0-9]+$")]
    qty: Annotated[int, Field(gt=0)] = 1
    unit_price: Decimal = Field(max_digits=10, decimal_places=2)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def total(self) -> Decimal:
        return self.qty * self.unit_price


class Card(Base):
    kind: Literal["card"] = "card"
    last_four: str


class Invoice(Base):
    kind: Literal["invoice"] = "invoice"
    due: date


Payment = Annotated[Card | Invoice, Field(discriminator="kind")]


class Order(Base):
    order_id: UUID = Field(default_factory=uuid4)
    items: list[Item]
    payment: Payment
    callback: AnyHttpUrl | None = None
    status: Status = Status.NEW
    created_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    parent: Order | None = None

    @field_validator("items")
    @classmethod
    def not_empty(cls, items: list[Item]) -> list[Item]:
        if not items:
            raise ValueError("an order has items")
        return items


class Receipt(Base):
    order: Order
    total: Decimal


@attr.s(auto_attribs=True, slots=True, frozen=True)
class Address:
    street: str
    zip: str = attr.ib(validator=attr.validators.matches_re("[0-9]{5}"))
    extra: Optional[Dict[str, str]] = None  # noqa: UP006, UP045


@attrs.define(kw_only=True)
class Person:
    name: str
    addresses: List[Address] = attrs.field(factory=list)  # noqa: UP006
    patience: timedelta = timedelta(minutes=5)
    id: int = attrs.field(default=0, converter=int)


app = Mulligan("memory://")
told: list[str] = []


@app.task
async def pay(order: Order) -> Order:
    return order.model_copy(update={"status": Status.PAID})


@app.task(accept=True, retry=Retry(0))
def bill(order: Order, currency: str = "EUR") -> Receipt:
    told.append(currency)
    return Receipt(order=order, total=sum((item.total for item in order.items), Decimal(0)))


@app.task
def kind_of(payment: Payment) -> str:
    return payment.kind


@app.task
def lines(order: Order) -> list[Item]:
    return order.items


@app.task
def price(item: Item, factor: Decimal) -> Decimal:
    return item.total * factor


@app.task
def add(prices: list[Decimal]) -> Decimal:
    return sum(prices, Decimal(0))


@app.task
def tell(what: str) -> str:
    told.append(what)
    return what


@app.task(accept=list[Address])
def addresses(person: Person, *, also: Address | None = None) -> list[Address]:
    return [*person.addresses, *([also] if also else [])]


ITEMS = [Item(sku="ABC-1", qty=2, unit_price=Decimal("3.50")), Item(sku="ABC-2", unit_price=1)]  # type: ignore[arg-type]
PARENT = Order(items=ITEMS[:1], payment=Card(last_four="1234"))
ORDER = Order(
    items=ITEMS,
    payment=Invoice(due=date(2026, 1, 1)),
    callback="https://example.org/paid",  # type: ignore[arg-type]
    parent=PARENT,
)


def test_an_order_goes_through_stages_and_comes_back_whole():
    with app.testing() as t:
        receipt = (pay | bill.partial(currency="USD")).enqueue(ORDER)
        total = (lines | each(price.partial(factor=Decimal(2))) | add).enqueue(ORDER)
        said = (pay | tell.without_result("paid")).enqueue(ORDER)
        kind = kind_of.enqueue(Card(last_four="1234"))
        t.drain()
        paid = ORDER.model_copy(update={"status": Status.PAID})
        assert receipt.result() == Receipt(order=paid, total=Decimal("8.00"))
        assert (total.result(), said.result(), kind.result()) == (Decimal("16.00"), "paid", "card")
    assert sorted(told) == ["USD", "paid"]


def test_a_person_of_the_older_code_base_comes_back_whole():
    home = Address("Main Street", "12345", {"floor": "2"})
    with app.testing() as t:
        job = addresses.enqueue(Person(name="Ann", addresses=[home], id="7"), also=home)
        t.drain()
        assert job.result() == [home, home]


def test_what_a_web_client_sends_is_taken_by_alias_and_refused_in_the_librarys_words():
    sent = {"items": [{"sku": "ABC-1", "unitPrice": "2.50"}], "payment": {"kind": "card"}}
    with app.testing() as t:
        with pytest.raises(InvalidError, match=r"is not Order: payment\.card\.lastFour: Field"):
            pay.enqueue(sent)  # type: ignore[arg-type]
        sent["payment"] = {"kind": "card", "lastFour": "1"}
        job = pay.enqueue(sent)  # type: ignore[arg-type]
        with pytest.raises(InvalidError, match="items: Value error, an order has items"):
            pay.enqueue(sent | {"items": []})  # type: ignore[arg-type]
        with pytest.raises(
            InvalidError, match=r"is not Person: 'zip' must match .* at `\$.addresses"
        ):
            addresses.enqueue({"name": "x", "addresses": [{"street": "a", "zip": "1"}]})  # type: ignore[arg-type]
        t.drain()
        assert job.result().items[0].unit_price == Decimal("2.50")
        assert len(t.jobs()) == 1
