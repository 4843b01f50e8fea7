"""What goes wrong with a file, and how operations share a connection."""

import asyncio
import sqlite3

import pytest

from mulligan.core.errors import InvalidError, StoreError, StoreUnavailableError
from mulligan.stores.sqlite import SqliteStore, connection
from tests.contract.builders import body, claim, done, job, jobs
from tests.store_kit import handle
from tests.stores.sqlite.kit import pragma


async def test_a_file_that_is_no_database_is_refused(path, url, clock):
    path.write_bytes(b"the quick brown fox jumps over the lazy dog" * 100)
    with pytest.raises(StoreError, match="is not a SQLite database"):
        await SqliteStore(url, clock).open()


async def test_a_damaged_file_is_named(path, url, clock):
    async with handle(url, clock) as store:
        await store.enqueue(jobs(*"abcdefgh"))
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="is damaged; restore it from a backup"):
        async with handle(url, clock) as store:
            await store.enqueue(jobs("i"))


async def test_a_missing_folder_is_named(tmp_path, clock):
    store = SqliteStore(f"sqlite:///{tmp_path}/nowhere/jobs.db", clock)
    with pytest.raises(StoreUnavailableError, match=r"create the folder .*nowhere"):
        await store.open()


async def test_an_old_library_is_refused(url, clock, monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    with pytest.raises(StoreError, match=r"strict tables need 3\.37\.0"):
        await SqliteStore(url, clock).open()


async def test_a_store_is_used_only_while_it_is_open(url, clock):
    store = SqliteStore(url, clock)
    with pytest.raises(StoreError, match=r"is not open; call open\(\) first"):
        await store.enqueue(jobs("a"))
    await store.open()
    await store.enqueue(jobs("a"))
    await store.close()
    with pytest.raises(StoreError, match="is not open"):
        await store.get("a")
    await store.open()
    assert await store.get("a") is not None
    await store.close()


async def test_a_full_disk_writes_nothing_and_the_store_goes_on(store):
    await store.enqueue(jobs("small"))
    pages = await pragma(store, "page_count")
    await pragma(store, f"max_page_count = {pages + 2}")
    large = [job(f"large {i}", body=body(notes="x" * 5_000)) for i in range(100)]
    full = "the disk is full, and nothing was written; make room"
    with pytest.raises(StoreUnavailableError, match=full):
        await store.enqueue(large)
    [claimed] = (await claim(store, demand=10)).claims
    assert await store.commit([done(claimed)]) == ["written"]
    await pragma(store, "max_page_count = 1000000")
    assert all(each.created for each in await store.enqueue(large))


async def test_operations_that_wait_together_are_answered_each_on_its_own(store):
    too_many = jobs(*map(str, range(1001)))
    answers = await asyncio.gather(
        *(store.enqueue(jobs(f"j{i}")) for i in range(40)),
        store.enqueue(too_many),
        store.enqueue([job("j0"), job("last")]),
        return_exceptions=True,
    )
    assert answers[:40] == [[(f"j{i}", True)] for i in range(40)]
    assert isinstance(answers[40], InvalidError)
    assert answers[41] == [("j0", False), ("last", True)]


async def test_a_locked_file_is_waited_for_and_not_for_ever(store, db, monkeypatch):
    monkeypatch.setattr(connection, "LOCK_TIMEOUT", 0.01)
    db.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError, match="has been locked by another"):
        await store.enqueue(jobs("a"))
    monkeypatch.setattr(connection, "LOCK_TIMEOUT", 30.0)
    waiting = asyncio.create_task(store.enqueue(jobs("a")))
    db.execute("COMMIT")
    assert await waiting == [("a", True)]
