"""New jobs, one and many batches, and when the disk is waited for."""

import asyncio

import psycopg
import pytest
from msgspec.structs import replace

from mulligan.core.errors import StoreUnavailableError
from mulligan.core.fields import FIELDS
from mulligan.stores.postgres.fields import one_job, packed_columns
from tests.contract.builders import claim, job, jobs, names
from tests.stores.postgres.kit import SEE_WHO_WAITS, connected, opened, server_of, until_waiting

# A value of each kind that no option has if it is left out.
OTHERS = {"text": "other", "integer": 7, "flag": True, "seconds": 9.0}


async def test_only_the_last_of_many_batches_waits_for_the_disk(store, url, monkeypatch):
    monkeypatch.setattr("mulligan.stores.batches.BATCH_LIMIT", 2)
    await store.enqueue(jobs("x"))
    [connection] = store._database.pool._idle
    with connected(url) as other:
        other.execute(SEE_WHO_WAITS)
        await store.enqueue_all(jobs("a", "b", "c", "d", "e"))
        seen = other.execute("SELECT id, waits FROM seen ORDER BY id").fetchall()
    assert seen == [("a", "off"), ("b", "off"), ("c", "off"), ("d", "off"), ("e", "on")]
    assert store._database.pool._idle == [connection]
    shown = await (await connection.execute("SHOW synchronous_commit")).fetchone()
    assert shown == ("on",)


@pytest.mark.parametrize("ids", [("a", "b"), ("a",)])
async def test_a_batch_that_stores_nothing_waits_for_the_disk_all_the_same(store, url, ids):
    await store.enqueue(jobs(*ids))
    with connected(url) as other:
        other.execute("SET synchronous_commit = off")
        other.execute("UPDATE job SET trail = 'x' WHERE id = 'a'")
        [[end]] = other.execute("SELECT pg_current_wal_insert_lsn()").fetchall()
        assert await store.enqueue(jobs(*ids)) == [(each, False) for each in ids]
        flushed = other.execute("SELECT pg_current_wal_flush_lsn() >= %s::pg_lsn", (end,))
        assert flushed.fetchone() == (True,)


async def test_what_a_crash_between_two_batches_may_have_undone_is_not_said_to_be_stored(
    own_server, monkeypatch
):
    encode, encoded = packed_columns, []

    def encode_in_hard_times(batch):
        encoded.append(batch)
        if len(encoded) == 4:
            own_server.kill()
            own_server.start()
        return encode(batch)

    monkeypatch.setattr("mulligan.stores.postgres.enqueue.packed_columns", encode_in_hard_times)
    monkeypatch.setattr("mulligan.stores.batches.BATCH_LIMIT", 1)
    new = jobs("a", "b", "c", "d", "e")
    async with opened(own_server.url) as store:
        with pytest.raises(StoreUnavailableError):
            await store.enqueue_all(new)
        assert len(encoded) >= 4, "it has crashed"
        answers = await store.enqueue_all(new)
        assert sorted(answers, key=lambda each: each.created) == answers, "some of the first"
        assert names(await claim(store, demand=9)) == ["a", "b", "c", "d", "e"]


async def test_a_deadlock_among_many_batches_is_tried_again_on_the_same_connection(
    store, url, monkeypatch
):
    monkeypatch.setattr("mulligan.stores.batches.BATCH_LIMIT", 2)
    await store.enqueue(jobs("x"))
    idle = list(store._database.pool._idle)
    other = await psycopg.AsyncConnection.connect(server_of(url))
    async with other:
        await other.execute("SET deadlock_timeout = '20s'")
        await store.aenqueue_in(other, jobs("d"))
        sending = asyncio.create_task(store.enqueue_all(jobs("a", "b", "c", "d", "e")))
        await until_waiting(url)
        await store.aenqueue_in(other, jobs("c"))  # now each waits for the other
    answers = [("a", True), ("b", True), ("c", False), ("d", False), ("e", True)]
    assert await sending == answers
    assert store._database.pool._idle == idle


@pytest.mark.parametrize(
    "option", [field for field in FIELDS if field.option], ids=lambda field: field.name
)
def test_one_job_goes_the_short_way_unless_it_has_an_option(option):
    plain = job("a", delay=5.0, priority=2)
    assert one_job(plain) is not None
    assert one_job(replace(plain, **{option.name: OTHERS[option.kind]})) is None


async def test_a_job_that_goes_the_short_way_is_stored_as_it_is(store):
    plain = job("a", delay=5.0, priority=2, queue="mail", region="eu", body=b'{"\\u00e9":1}')
    assert await store.enqueue([plain]) == [("a", True)]
    assert await store.enqueue([plain]) == [("a", False)]
    stored = await store.get("a")
    same = {name: getattr(plain, name) for name in ("queue", "region", "priority", "body", "task")}
    assert {name: getattr(stored, name) for name in same} == same
    assert (stored.status, stored.scope, stored.lane_priority) == ("pending", "eu", 2)
    assert stored.due == pytest.approx(stored.created_at + 5.0)
