"""Chains keep the types of their stages; a stage that does not fit is an error for mypy."""

from tests.typing.test_types import HEADER, mypy, without_errors

TASKS = (
    HEADER
    + """
from typing import assert_type

from mulligan import ChainHandle, GatherHandle, each

@app.task
def split(text: str) -> list[str]:
    return text.split()

@app.task(queue="words")
async def measure(word: str) -> int:
    return len(word)

@app.task
def total(lengths: list[int]) -> float:
    return float(sum(lengths))

@app.task
def show(value: float) -> str:
    return str(value)

@app.task
def each_float(values: list[float]) -> str:
    return str(values)

@app.sink
def save(result: str, key: str) -> None: ...

"""
)


GOOD = (
    TASKS
    + """
chain = split | each(measure) | total | show
assert_type(chain.enqueue("a b"), ChainHandle[str])
assert_type(chain.enqueue("a b").result(timeout=5), str)
assert_type(chain.using(id="x", unique_key="k").enqueue("a").result(), str)
assert_type(app.chain(total, show).enqueue([1]), ChainHandle[str])
assert_type((split | each(measure)).enqueue("a"), ChainHandle[list[int]])
placed = split | each(measure.using(region="US")) | total.using(timeout=5)
assert_type(placed.enqueue("a"), ChainHandle[float])
assert_type((measure.using(priority="urgent") | show).enqueue("a"), ChainHandle[str])
assert_type(app.gather([measure.call("a"), measure.call("b")], total), GatherHandle[float])
assert_type(app.gather([measure.call("a")], total | show).result(), str)
floats = app.gather_call([measure.call("a")], total)
assert_type(app.gather([floats, floats], each_float), GatherHandle[str])

@app.task(sink=save, accept=str, cron="0 2 * * *", timezone="Europe/Berlin")
def nightly() -> str:
    return "done"

@app.task(accept=True, every=60)
async def often() -> int:
    return 1

@app.sink(transactional=True, queue="records")
def record(connection: object, result: str, key: str) -> None: ...

async def main() -> None:
    assert_type(await (total | show).aenqueue([1]), ChainHandle[str])
    assert_type(await (await app.agather([measure.call("a")], total)).aresult(), float)
"""
)


def test_a_chain_takes_the_arguments_of_its_first_and_gives_the_result_of_its_last(tmp_path):
    assert not mypy(tmp_path, GOOD)


WRONG = [
    "split | measure",  # takes a word, not a list of them
    "split | total",
    "total | each(measure)",  # no list to spread
    "split | each(total)",
    "split | each(measure) | show",
    "(split | each(measure) | total).enqueue(5)",
    "(split | each(measure) | total).enqueue()",
    "app.gather([measure.call('a')], show)",
    "app.gather([show.call(1.0)], total)",
    "split | len",
    "app.task(every='soon')",
    "app.task(sink=len)",
]


def test_every_stage_that_does_not_fit_is_an_error_for_mypy(tmp_path):
    assert without_errors(tmp_path, TASKS, WRONG) == []
