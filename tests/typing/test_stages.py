"""Bound arguments, and models and attrs classes as arguments and results, keep their types."""

from tests.typing.test_types import mypy, without_errors

TASKS = """
from typing import assert_type

import attrs
import pydantic

from mulligan import JobHandle, Mulligan, Parameter, Partial, Prepared, Using, WithoutResult, each

app = Mulligan("memory://")

class Order(pydantic.BaseModel):
    number: int

@attrs.define
class Parcel:
    weight: float

@app.task
def classify(order: Order) -> str:
    return str(order.number)

@app.task(accept=Parcel)
async def resize(image: str, width: int, height: int = 1) -> Parcel:
    return Parcel(width)

@app.task
def split(text: str) -> list[str]:
    return text.split()

@app.task
def notify(channel: str) -> int:
    return len(channel)

@app.task
def weigh(parcels: list[Parcel], unit: str = "kg") -> float:
    return sum(each.weight for each in parcels)

@app.sink
def save(result: float, key: str = "", *, table: str) -> None: ...

"""

GOOD = (
    TASKS
    + """
assert_type(resize.partial(width=80), Partial[str, Parcel])
assert_type(notify.without_result("ops"), WithoutResult[int])
assert_type(notify.parameters(), list[Parameter])
def elsewhere(task: Using[[str], int]) -> JobHandle[int]:
    return task.enqueue("ops")
elsewhere(notify.using(queue="q"))
assert_type(resize.partial(width=80).enqueue("a").result(), Parcel)
assert_type(resize.using(queue="q").partial(width=80, height=2).call("a"), Prepared[Parcel])
assert_type((classify | resize.partial(width=80)).enqueue(Order(number=1)).result(), Parcel)
spread = split | each(resize.partial(width=80).using(queue="q")) | weigh.partial(unit="g")
assert_type(spread.enqueue("a").result(), float)
assert_type((classify | notify.without_result("ops")).enqueue(Order(number=1)).result(), int)
assert_type((notify.without_result("ops") | weigh.without_result([])).enqueue().result(), float)
assert_type((resize.partial(width=1) | notify.without_result("a")).enqueue("b").result(), int)
assert_type(notify.using(queue="q").without_result("a").enqueue().result(), int)
gathered = app.gather([resize.call("a", 1), resize.call("b", 2)], weigh.partial(unit="g"))
assert_type(gathered.result(), float)
assert_type(app.gather([resize.call("a", 1)], notify.without_result("x")).result(), int)

@app.task(sink=save.partial(table="answers"), on_dead=notify.without_result("dead"))
def answer() -> float:
    return 1.0

async def main() -> None:
    chain = await (classify | resize.partial(width=1)).aenqueue(Order(number=1))
    assert_type(await chain.aresult(), Parcel)
    assert_type(await resize.partial(width=1).aenqueue("a"), JobHandle[Parcel])
"""
)

WRONG = [
    "classify.enqueue(5)",
    "resize.partial(width='x')",
    "resize.partial(colour='x')",
    "resize.partial()",
    "resize.partial(width=1).enqueue(5)",
    "split | resize.partial(width=1)",
    "classify | resize",
    "notify.without_result(5)",
    "notify.without_result()",
    "split | each(weigh.partial(unit='g'))",
    "(classify | resize.partial(width=1)).enqueue('x')",
    "app.gather([notify.call('a')], weigh.partial(unit='g'))",
    "notify.without_result('ops') | split",
]


def test_bound_arguments_and_models_keep_their_types(tmp_path):
    assert not mypy(tmp_path, GOOD)


def test_every_stage_that_is_bound_wrongly_is_an_error_for_mypy(tmp_path):
    assert without_errors(tmp_path, TASKS, WRONG) == []
