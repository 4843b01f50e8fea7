"""Costs while a transaction elsewhere keeps dead rows from being removed, counted in buffers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import psycopg

from mulligan.stores.postgres.arrays import numbers, texts
from tests.contract.builders import ANN, begin, jobs
from tests.stores.postgres.kit import connected

MANY = 5000
# Claims whose jobs have all ended.
DEAD_CLAIMS = """
WITH made AS (
    INSERT INTO claimed (number, claimed_at, open, worker, ids)
    SELECT nextval('counter'), 0, 1, %s, ARRAY['gone'] FROM generate_series(1, %s)
    RETURNING number
)
SELECT count(*) FROM made
"""


@contextmanager
def pinned(url: str) -> Iterator[psycopg.Connection]:
    """A connection beside a transaction that keeps every row deleted from now on."""
    with connected(url) as elsewhere, elsewhere.transaction():
        elsewhere.execute("SELECT txid_current()")
        with connected(url) as connection:
            yield connection


def buffers(connection: psycopg.Connection, statement: str, values: Any) -> float:
    """Return how many pages a statement reads once its plans are made; nothing of it is kept."""
    found = []
    for _ in range(7):
        with connection.transaction(force_rollback=True):
            explained = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}"
            [[plans]] = connection.execute(explained.encode(), values).fetchall()
        top = (plans if isinstance(plans, list) else json.loads(plans))[0]["Plan"]
        found.append(top["Shared Hit Blocks"] + top["Shared Read Blocks"])
    return float(median(found[2:]))


async def test_claims_are_handed_back_to_by_their_numbers_whatever_others_have_ended(store, url):
    """The planner believes that there are as few as when it last looked."""
    held = await begin(store, *jobs(*(f"job {n}" for n in range(20))))
    database = store._database
    values = database.values(
        "finish",
        {
            "ids": texts([each.id for each in held]),
            "tokens": numbers([each.token for each in held]),
            "results": None,
        },
    )
    with connected(url) as connection:
        connection.execute("VACUUM ANALYZE claimed, job")
    with pinned(url) as connection:
        before = buffers(connection, database.statements["finish"], values)
        assert connection.execute(DEAD_CLAIMS, (ANN.id, MANY)).fetchone() == (MANY,)
        connection.execute("DELETE FROM claimed WHERE ids = ARRAY['gone']")
        assert buffers(connection, database.statements["finish"], values) <= before + 40
