"""Producers in any language: a function and a view."""

import json
from collections.abc import Callable
from functools import partial

import msgspec
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from mulligan.core.errors import InvalidError
from mulligan.core.job import decode_call, decode_policy
from mulligan.core.retry import Retry
from mulligan.core.written_retry import read_retry
from tests.contract.builders import claim, names
from tests.core.strategies import backoffs, retries
from tests.stores.postgres.kit import connected


async def test_a_function_call_enqueues(store, url):
    with connected(url) as connection:
        row = connection.execute(
            "SELECT enqueue('ask', '[1, \"é\"]', '{\"k\": null}', queue => 'mail', delay => 5,"
            " retry => '{\"max_retries\": 1}', timeout => 3, unique_key => 'u')"
        ).fetchone()
        again_ = connection.execute("SELECT enqueue('ask', queue => 'mail', unique_key => 'u')")
        assert again_.fetchone() == row
    assert row is not None
    stored = await store.get(row[0])
    assert stored is not None
    assert (stored.task, stored.queue, stored.due - stored.created_at) == ("ask", "mail", 5.0)
    call = decode_call(stored.body)
    assert (call.args, call.kwargs, call.timeout) == ([1, "é"], {"k": None}, 3.0)
    assert decode_policy(stored.body).retry.max_retries == 1


async def test_an_insert_enqueues_and_says_which_job(store, url):
    with connected(url) as connection:
        rows = connection.execute(
            "INSERT INTO inbox (task, id) VALUES ('ask', 'a'), ('ask', 'b') RETURNING id"
        ).fetchall()
    assert rows == [("a",), ("b",)]
    claimed = await claim(store, demand=5)
    assert names(claimed) == ["a", "b"]
    assert decode_policy(claimed.claims[0].body).retry == Retry()


BAD = {
    "task => ''": "task '' must have 1 to 128 characters",
    "task => NULL": "task NULL must have",
    "task => E'a\\x01'": "control character",
    "task => 'ask', queue => repeat('q', 129)": "queue 'q",
    "task => 'ask', region => '*-US'": "must not begin with",
    "task => 'ask', args => '{}'": "args {} must be a JSON array",
    "task => 'ask', kwargs => '[]'": "kwargs [] must be a JSON object",
    "task => 'ask', retry => '3'": "retry 3 must be a JSON object",
    "task => 'ask', retry => '\"often\"'": 'retry "often" is not one of',
    "task => 'ask', retry => '{\"max_retries\": -1}'": "retry.max_retries -1 must be",
    "task => 'ask', retry => '{\"MaxRetries\": 1}'": "retry has no field 'MaxRetries'",
    "task => 'ask', retry => '{\"scope\": \"regional\"}'": 'retry.scope "regional" must be',
    'task => \'ask\', retry => \'{"backoff": {"type": "steps"}}\'': "whose type is exponential",
    "task => 'ask', priority => 3": "priority 3 must be 0",
    "task => 'ask', delay => -1": "delay -1 must be between",
    "task => 'ask', delay => 'NaN'": "delay NaN must be between",
    "task => 'ask', expires => -1": "expires -1 must be",
    "task => 'ask', timeout => 0": "timeout 0 must be",
    "task => 'ask', limits => '[]'": "limits [] must be a JSON object",
    "task => 'ask', limits => '{\"k\": 0}'": "cost 0 of limit 'k' must be a whole number",
    "task => 'ask', limits => '{\"k*\": 1}'": "limit 'k*' is a pattern",
    "task => 'ask', limits => '{\"k\": 1}'": "no limit covers 'k'",
    "task => 'ask', args => jsonb_build_array(repeat('x', 300000))": "over the limit",
    "task => 'ask', args => (repeat('[', 202) || repeat(']', 202))::jsonb": "more than 200 levels",
    "task => 'ask', kwargs => (repeat('{\"[[\":', 202) || '1' || repeat('}', 202))::jsonb": (
        "more than 200 levels"
    ),
}


@pytest.mark.parametrize(("arguments", "reason"), BAD.items())
async def test_what_is_no_valid_job_is_refused(store, url, arguments, reason):
    with connected(url) as connection:
        with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
            connection.execute(f"SELECT enqueue({arguments})".encode())
        assert reason in str(refused.value)
        columns, values = zip(
            *(pair.split(" => ") for pair in arguments.split(", ", 1)), strict=True
        )
        insert = f"INSERT INTO inbox ({', '.join(columns)}) VALUES ({', '.join(values)})"  # noqa: S608
        connection.execute(insert.encode())
        rows = connection.execute("SELECT reason, job FROM refused").fetchall()
    assert len(rows) == 1
    assert reason in rows[0][0]
    assert (await store.stats()).lanes == []


async def test_an_argument_may_be_200_levels_deep_and_wide_besides(store, url):
    args = ["[" * 300 + '\\"', *([] for _ in range(1000)), json.loads("[" * 200 + "]" * 200)]
    with connected(url) as connection:
        connection.execute("SELECT enqueue('ask', %s, id => 'good')", [Jsonb(args)])
    assert await store.get("good")


async def test_one_bad_row_does_not_hold_up_the_others(store, url):
    with connected(url) as connection:
        connection.execute(
            "INSERT INTO inbox (task, id, priority)"
            " VALUES ('ask', 'a', 0), ('ask', 'b', 7), ('ask', 'c', 2)"
        )
        assert connection.execute("SELECT job ->> 'id' FROM refused").fetchall() == [("b",)]
    assert await store.get("a")
    assert await store.get("c")


async def test_functions_read_texts_alike_in_sessions_of_other_programs(store, url):
    with connected(url) as connection:
        connection.execute("SET standard_conforming_strings TO off")
        connection.execute("SET escape_string_warning TO off")
        for text in ('"a\\\\"', '"[\\"["'):
            nested = "[" * 202 + text + "]" * 202
            with pytest.raises(psycopg.Error, match="nested more than 200"):
                connection.execute("SELECT check_depth(%s::jsonb)", (nested,))
            many = "[" + ",".join([text.replace("[", "[" * 300)]) + "]"
            connection.execute("SELECT check_depth(%s::jsonb)", (many,))


numbers = st.sampled_from(
    [-1, 0, 0.5, 1, 2, 2.0, 3, 61, 4000, 1e9, 4e9, 1e-330, 1e300]
) | st.floats(allow_nan=False, allow_infinity=False)
scraps = (
    numbers
    | st.none()
    | st.booleans()
    | st.sampled_from(["", "full", "none", "global", "region", "OSError", "a\x01", "x" * 201])
    | st.lists(numbers | st.sampled_from(["", "OSError"]), max_size=3)
)
written_backoffs = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["exponential", "adaptive", "delays", "sessions", "steps"]) | scraps
    }
    | dict.fromkeys(["base", "factor", "max", "per", "attempts"], scraps)
    | dict.fromkeys(["jitter", "seconds", "within", "bas"], scraps),
)
written_policies = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(["max_retries", "scope", "on", "never", "MaxRetries"], scraps)
    | {"backoff": written_backoffs | backoffs.map(msgspec.to_builtins) | scraps},
)


def takes(check: Callable[[], object]) -> bool:
    try:
        check()
    except (InvalidError, psycopg.errors.InvalidParameterValue):
        return False
    return True


EXAMPLES: list[dict[str, object]] = [
    {"backoff": {"type": "exponential", "max": 1}},
    {"backoff": {"type": "exponential", "base": 61}},
    {"backoff": {"type": "exponential", "base": 61, "max": None}},
    {"backoff": {"type": "sessions", "attempts": 2}},
    {"backoff": {"type": "sessions", "within": [1.0]}},
    {"backoff": {"type": "adaptive", "factor": 1e-320, "per": 1e308}},
    {"backoff": {"type": "delays", "seconds": []}},
    {"backoff": {"type": "delays", "seconds": [1] * 1001}},
    {"on": ["OSError"] * 101},
    {"on": "OSError", "never": ["ValueError", "a.B"]},
]


async def test_a_policy_is_taken_exactly_if_a_worker_can_read_it(store, url):
    """As the database writes its JSON, where a number has one form."""
    with connected(url) as connection:

        def agrees(policy: object) -> None:
            [[stored]] = connection.execute("SELECT %s::jsonb::text", [Jsonb(policy)]).fetchall()
            asked = partial(connection.execute, "SELECT check_retry(%s)", [Jsonb(policy)])
            read = partial(read_retry, msgspec.json.decode(stored))
            assert takes(asked) == takes(read)
            if takes(asked):
                msgspec.json.decode(stored, type=Retry)  # as a worker reads it

        for policy in EXAMPLES:
            agrees(policy)
        given(written_policies | retries.map(msgspec.to_builtins))(agrees)()
