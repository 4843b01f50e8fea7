"""Durability: an answer waits until the write-ahead log is on the disk."""

import asyncio
import errno
import os
import shutil
import subprocess
import threading
import time

import pytest

from mulligan.core.errors import StoreUnavailableError
from mulligan.core.page import Selection
from mulligan.stores.sqlite import SqliteStore
from tests.contract.builders import ANN, BOB, claim, done, jobs, names
from tests.store_kit import handle
from tests.stores.sqlite.kit import pragma


class Disk:
    """Stands for the disk: counts how often it was synced, and works only while it may."""

    def __init__(self):
        self.synced = 0
        self.works = threading.Event()
        self.works.set()
        self.busy = threading.Event()

    def __call__(self, file):
        self.busy.set()
        assert self.works.wait(60)
        os.fsync(file)
        self.synced += 1


@pytest.fixture
def disk(monkeypatch):
    found = Disk()
    monkeypatch.setattr("mulligan.stores.sqlite.wal.sync_file", found)
    return found


@pytest.mark.parametrize(
    ("option", "times"), [("", 1), ("?durability=full", 1), ("?durability=normal", 0)]
)
@pytest.mark.parametrize("inline", [False, True])
async def test_durability_says_whether_an_answer_waits_for_the_disk(
    url, disk, option, times, inline
):
    store = SqliteStore(f"{url}{option}", inline=inline)
    await store.open()
    await store.enqueue(jobs("a"))
    assert disk.synced == times
    assert await pragma(store, "journal_mode") == "wal"
    await store.close()


@pytest.mark.parametrize("inline", [False, True])
async def test_many_batches_wait_for_the_disk_together(url, disk, monkeypatch, inline):
    monkeypatch.setattr("mulligan.stores.batches.BATCH_LIMIT", 2)
    store = SqliteStore(url, inline=inline)
    await store.open()
    await store.enqueue_all(jobs("a", "b", "c", "d", "e"))
    assert disk.synced == 1
    await store.enqueue_all(jobs("f", "g", "h", "a", "b"))  # the last batch adds nothing
    assert disk.synced == 2
    await store.close()


async def test_who_is_at_work_is_known_without_the_disk(store, disk):
    await store.enqueue(jobs("a"))
    synced = disk.synced
    [claimed] = (await claim(store, worker=ANN)).claims
    await store.reclaim(1, BOB)
    await store.leave(BOB)
    assert disk.synced == synced
    await store.commit([done(claimed)])
    await store.beat(ANN, [])
    await store.note("key", b"value", 1)
    assert disk.synced == synced + 3


async def test_while_the_disk_is_busy_work_goes_on_and_those_who_wait_share_its_next_turn(
    store, disk
):
    disk.works.clear()
    disk.busy.clear()
    first = asyncio.create_task(store.enqueue(jobs("a")))
    await asyncio.to_thread(disk.busy.wait)
    others = [asyncio.create_task(store.enqueue(jobs(name))) for name in "bcd"]
    while len((await store.page(Selection(), 10)).jobs) < 4:
        pass
    assert names(await claim(store, demand=9)) == ["a", "b", "c", "d"]
    assert not first.done()
    disk.works.set()
    assert await asyncio.gather(first, *others) == [[(name, True)] for name in "abcd"]
    assert disk.synced == 2


async def test_other_processes_need_not_wait_for_our_disk(store, disk, db):
    disk.works.clear()
    disk.busy.clear()
    first = asyncio.create_task(store.enqueue(jobs("a")))
    await asyncio.to_thread(disk.busy.wait)
    db.execute("INSERT INTO inbox (task, id) VALUES ('ask', 'b')")
    assert not first.done()
    disk.works.set()
    await first


async def test_what_the_disk_does_not_take_is_not_said_to_be_written(store, monkeypatch):
    def refuse(_file):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("mulligan.stores.sqlite.wal.sync_file", refuse)
    with pytest.raises(StoreUnavailableError, match=r"the disk failed .*; check the disk"):
        await store.enqueue(jobs("a"))


async def test_once_the_disk_is_well_again_all_is_copied_into_the_file_first(
    store, path, db, tmp_path, monkeypatch
):
    """The failed part of the log is never written by later syncs: systems forget it."""

    def refuse(_file):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("mulligan.stores.sqlite.wal.sync_file", refuse)
    with pytest.raises(StoreUnavailableError, match="the disk failed"):
        await store.enqueue(jobs("a"))
    monkeypatch.undo()
    db.execute("BEGIN")
    db.execute("SELECT * FROM job").fetchall()
    monkeypatch.setattr("mulligan.stores.sqlite.wal.EMPTY_WITHIN", 0.01)
    with pytest.raises(StoreUnavailableError, match="others read the log"):
        await store.enqueue(jobs("a"))
    db.execute("COMMIT")
    assert await store.enqueue(jobs("a")) == [("a", False)]
    # Another process copies it: closing the file here would drop our locks on it.
    copying = ["cp", path, tmp_path / "without-log.db"]
    await asyncio.to_thread(subprocess.run, copying, check=True)
    async with handle(f"sqlite:///{tmp_path}/without-log.db", time.time) as left:
        assert await left.get("a") is not None


async def test_what_was_answered_is_there_after_a_power_cut(
    path, url, clock, tmp_path, monkeypatch
):
    def press(file):
        os.fsync(file)
        for name in ("jobs.db", "jobs.db-wal"):
            shutil.copy(path.with_name(name), tmp_path / name)

    monkeypatch.setattr("mulligan.stores.sqlite.wal.sync_file", press)
    async with handle(url, clock) as store:
        await store.enqueue(jobs("done", "claimed", "waiting"))
        [first] = (await claim(store)).claims
        assert await store.commit([done(first, b"7")]) == ["written"]
        assert names(await claim(store)) == ["claimed"]
        monkeypatch.undo()
        async with handle(f"sqlite:///{tmp_path}/jobs.db", clock) as left:
            ended, waiting, claimed = [
                await left.get(each) for each in ("done", "waiting", "claimed")
            ]
            assert ended is not None
            assert ended.result == b"7"
            assert waiting is not None
            assert waiting.status == "pending"
            assert claimed is not None
            assert claimed.status == "pending", "nobody is at work any more"


async def test_who_waits_for_the_disk_is_answered_before_the_store_is_closed(url, clock, disk):
    store = SqliteStore(url, clock)
    await store.open()
    disk.works.clear()
    disk.busy.clear()
    waiting = asyncio.create_task(store.enqueue(jobs("a")))
    await asyncio.to_thread(disk.busy.wait)
    closing = asyncio.create_task(store.close())
    disk.works.set()
    assert await waiting == [("a", True)]
    await closing
