"""The tables: what one says of a job another knows, and none grows for ever."""

import asyncio
from random import Random

import pytest

from mulligan.core.outcome import Done
from mulligan.stores.postgres import PostgresStore, sweep
from tests.contract.builders import claim, jobs
from tests.contract.choices import program
from tests.contract.comparison import Comparison
from tests.store_kit import require
from tests.stores.postgres.kit import connected, opened

KEPT = """
    SELECT queue, status, sum(many) FROM (
        SELECT queue, status, many FROM kept
        UNION ALL SELECT queue, status, many FROM kept_change
    ) k GROUP BY 1, 2 HAVING sum(many) <> 0"""


RECOUNTED = """
    SELECT queue, status, count(*) FROM job WHERE ended_at IS NOT NULL GROUP BY 1, 2"""


# Rows that contradict each other: what one table says of a job, another must know.
CONTRADICTIONS = {
    "waits where it should not, or not where it should": """
        SELECT j.id FROM job j LEFT JOIN waiting w ON w.id = j.id
        WHERE (j.status = 'pending') <> (w.id IS NOT NULL) OR (w.id IS NOT NULL AND (
            NOT row_of(w, j) OR w.delayed <> j.delayed OR (j.awaits > 0 AND NOT w.held)
            OR w.expires_at IS DISTINCT FROM expires(j)
            OR (w.line IS NOT NULL) <> is_lined(j) OR (is_lined(j) AND NOT w.held)
            OR w.limits IS DISTINCT FROM CASE WHEN j.awaits = 0 THEN j.limits END
        ))""",
    "stands in another line than its own, or in none": """
        SELECT w.id FROM waiting w JOIN job j ON j.id = w.id
        LEFT JOIN line l ON l.id = w.line LEFT JOIN lined_lane n ON n.id = l.lane
        WHERE w.line IS NOT NULL AND (n.lane = w.lane AND l.key = coalesce(j.fairness_key, '')
                                      AND l.names = names_in(j.limits)) IS NOT TRUE""",
    "is a line of which another than its first is known": """
        SELECT l.id::text FROM line l
        LEFT JOIN LATERAL (SELECT w.* FROM waiting w WHERE w.line = l.id
                           ORDER BY w.due, w.sequence LIMIT 1) w ON true
        WHERE (l.due, l.sequence) IS DISTINCT FROM (w.due, w.sequence)
           OR (l.stage = 'waiting') <> (l.waits_for IS NOT NULL)
           OR l.stage NOT IN ('later', 'ready', 'waiting')""",
    "is a lane that counts its lines wrongly": """
        SELECT n.lane FROM lined_lane n WHERE n.lines = 0 OR (n.lines, n.keyed) <> (
            SELECT count(*), count(*) FILTER (WHERE l.key <> '') FROM line l
            WHERE l.lane = n.id)""",
    "is a key with another first line than it says": """
        SELECT k.key FROM fairness_key k LEFT JOIN LATERAL (
            SELECT l.* FROM line l WHERE l.lane = k.lane AND l.key = k.key AND l.stage = 'ready'
            ORDER BY l.due, l.sequence LIMIT 1) l ON true
        WHERE (k.line, k.due, k.sequence) IS DISTINCT FROM (l.id, l.due, l.sequence)
           OR NOT EXISTS (SELECT FROM lined_lane n WHERE n.id = k.lane)""",
    "is an alarm for nobody": """
        SELECT a.name FROM alarm a WHERE NOT EXISTS (
            SELECT FROM line l WHERE l.lane = a.lane AND a.name = ANY (l.names))""",
    "holds other permits than are counted": """
        SELECT s.name FROM limit_state s WHERE s.used <> (
            SELECT count(*) FROM job j WHERE j.status = 'processing'
              AND s.name = ANY (names_in(j.holds)))""",
    "waits twice, or is no job": """
        SELECT id FROM waiting w GROUP BY id
        HAVING count(*) > 1 OR NOT EXISTS (SELECT FROM job j WHERE j.id = w.id)""",
    "is held by nobody": """
        SELECT j.id FROM job j WHERE j.status = 'processing' AND NOT EXISTS (
            SELECT FROM claimed c WHERE c.number = j.claimed AND j.id = ANY (c.ids))""",
    "is a claim that counts wrongly": """
        SELECT c.number::text FROM claimed c WHERE c.open <> (
            SELECT count(*) FROM job j WHERE j.claimed = c.number AND j.status = 'processing')""",
    "would never be pruned": """
        SELECT j.id FROM job j WHERE j.status IN ('done', 'cancelled') AND NOT EXISTS (
            SELECT FROM ended e WHERE e.ended_at = j.ended_at AND j.id = ANY (e.ids))""",
    "has not ended as it says": """
        SELECT j.id FROM job j WHERE (j.ended_at IS NULL) <> (j.status IN ('pending', 'processing'))
           OR (j.dead IS TRUE) <> (j.status = 'failed')
           OR j.open_key <> j.unique_key
           -- a debounced job has its key until it starts, a throttled one for longer than it lives
           OR (j.debounce_until IS NULL AND j.unique_until IS NULL AND j.open_key
               IS DISTINCT FROM CASE WHEN j.ended_at IS NULL THEN j.unique_key END)""",
    "is kept and not counted, or counted and not kept": f"""
        {KEPT} EXCEPT {RECOUNTED} UNION ALL ({RECOUNTED} EXCEPT {KEPT})""",
}


class Examined(Comparison):
    """A store whose tables are looked at whenever its jobs are counted."""

    def count(self):
        super().count()
        with connected(self.pair.other.url) as connection:
            found = {
                words: connection.execute(rows.encode()).fetchall()
                for words, rows in CONTRADICTIONS.items()
            }
        assert not any(found.values()), found


@pytest.mark.parametrize("seed", range(4))
def test_no_table_contradicts_another(seed, tmp_path):
    require("postgres")
    Examined("postgres", tmp_path).run(program(Random(seed), 80))


async def test_counts_hold_while_many_end_prune_and_fold_at_once(url):
    stores = [PostgresStore(url) for _ in range(4)]
    for each in stores:
        await each.open()

    async def churn(number: int, store: PostgresStore) -> None:
        for turn in range(8):
            names_ = [f"{number}-{turn}-{n}" for n in range(6)]
            await store.enqueue(jobs(*names_, queue=f"q{turn % 2}"))
            cancelled = await store.cancel(names_[:2], "enough")
            assert cancelled == [True, True]
            await store.prune(0.0 if turn % 3 else 3600.0, 3)
            await store.purge(names_[:1])

    await asyncio.gather(*(churn(number, each) for number, each in enumerate(stores)))
    with connected(url) as connection:
        recounted = {(q, s): many for q, s, many in connection.execute(RECOUNTED.encode())}
    assert (await stores[0].stats()).ended == recounted
    await stores[0].prune(3600.0, 1)
    with connected(url) as connection:
        assert connection.execute("SELECT count(*) FROM kept_change").fetchone() == (0,)
    assert (await stores[0].stats()).ended == recounted
    for each in stores:
        await each.close()


@pytest.mark.prove
async def test_tables_do_not_grow_at_a_constant_backlog(own_server, monkeypatch):
    """On a server of its own: a transaction of another test would keep dead rows from going."""
    monkeypatch.setattr(sweep, "EVERY", 1000)
    url = own_server.url
    sizes = []
    async with opened(url) as store:
        await store.enqueue(jobs(*(f"first {n}" for n in range(100))))
        for turn in range(160):
            await store.enqueue(jobs(*(f"{turn}-{n}" for n in range(100))))
            claimed = await claim(store, demand=100)
            await store.commit([Done(each.lease) for each in claimed.claims])
            await store.prune(0.0, 1000)
            if turn in (39, 159):
                await store._sweeper.close()
                with connected(url) as connection:
                    size = "SELECT sum(pg_total_relation_size(x::regclass))"
                    row = connection.execute(
                        f"{size} FROM unnest(ARRAY['job', 'waiting']) AS x"
                    ).fetchone()
                    assert row is not None
                    sizes.append(row[0])
    assert sizes[1] <= 3 * sizes[0], "four times if nothing were cleared away"
