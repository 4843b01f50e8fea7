"""Whatever a file says, it is read or refused in one line with its number; nothing else happens."""

import json
import re
from collections.abc import Callable
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.core.errors import InvalidError
from mulligan.sim import read_scenario
from mulligan.sim.trace import TraceReader
from tests.sim.test_scenario_file import GOOD
from tests.sim.test_trace import FAILED, HEADER, JOB

many = settings(deadline=None, max_examples=300)
KEYS = sorted(set(re.findall(r"^(\w+) =", GOOD, re.MULTILINE)) | {
    "crash", "count", "at", "priority", "from", "fail_first", "grace", "scope", "base", "factor",
    "max", "attempts", "within", "per", "delays", "retry", "cap", "limit", "ratio", "concurrency",
    "failure_rate", "slowdown", "title", "hold_through_backoff",
})  # fmt: skip
words = st.sampled_from(["US", "*", "all", "none", "full", "weighted", "capped", "unlimited", ""])
numbers = st.integers(-(2**70), 2**70) | st.floats() | st.integers(-3, 3)
plain = st.booleans() | numbers | words | st.text(max_size=5)
values = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)
    ),
    max_leaves=5,
)


def toml(value: object) -> str:
    """The value as TOML writes it."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case list():
            return f"[{', '.join(map(toml, value))}]"
        case dict():
            return "{" + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + "}"
        case _:
            return json.dumps(value)


def is_read_or_refused(read: Callable[[], object], name: str) -> bool:
    """Whether it could be read, or was refused in one line with its number."""
    try:
        read()
    except InvalidError as error:
        return bool(re.fullmatch(rf"{re.escape(name)}:\d+: .+", str(error)))
    return True


@many
@given(st.data(), st.sampled_from(KEYS), values)
def test_a_scenario_with_one_line_changed(data, key, value):
    lines = GOOD.splitlines()
    place = data.draw(st.integers(0, len(lines) - 1))
    if data.draw(st.booleans()):
        lines[place] = f"{key} = {toml(value)}"
    else:
        lines.insert(place, f"{key} = {toml(value)}")
    text = "\n".join(lines)
    assert is_read_or_refused(partial(read_scenario, "x.toml", text), "x.toml")


@many
@given(st.data(), st.text(max_size=8))
def test_a_scenario_with_something_typed_into_it(data, typed):
    begin = data.draw(st.integers(0, len(GOOD)))
    end = data.draw(st.integers(begin, min(len(GOOD), begin + 20)))
    text = GOOD[:begin] + typed + GOOD[end:]
    assert is_read_or_refused(partial(read_scenario, "x.toml", text), "x.toml")


anything = st.recursive(
    st.none() | plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)


@many
@given(
    st.dictionaries(st.sampled_from(sorted(HEADER)), anything, max_size=1),
    st.dictionaries(st.sampled_from([*JOB, "history", "retry", "priority"]), anything, max_size=2),
    st.dictionaries(st.sampled_from(sorted(FAILED)), anything, max_size=2),
    st.binary(max_size=6),
)
def test_a_trace_with_anything_in_it(first, second, attempt, junk):
    job = {"history": [FAILED | attempt]} | JOB | second
    lines = [json.dumps(HEADER | first).encode(), json.dumps(job).encode()]
    for file in (lines, [*lines, junk], [lines[0] + junk]):
        assert is_read_or_refused(partial(TraceReader("x.jsonl").read, file), "x.jsonl")
