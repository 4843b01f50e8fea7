"""What the doctor says of a file and its disk."""

import os
import shutil
import sqlite3
from types import SimpleNamespace

import pytest

from mulligan.core.finding import Finding
from mulligan.core.page import Selection
from mulligan.stores.contract import Store
from mulligan.stores.sqlite import SqliteStore, doctor
from mulligan.stores.sqlite.doctor import LEAST_FREE, LITTLE_FREE, MIB
from tests.contract.builders import jobs
from tests.reading.dumps import changes, dump, locks
from tests.store_kit import handle

OPEN_AND_CLOSE = """
import asyncio, sys
from mulligan.stores import make_store

async def main():
    store = make_store(sys.argv[1])
    await store.open()
    await store.close()

asyncio.run(main())
"""


async def found(store: Store, about: str) -> Finding:
    """What is said of it; of everything else nothing bad is."""
    findings = await store.doctor()
    [finding] = [each for each in findings if about in each.sentence]
    assert {each.level for each in findings if each is not finding} <= {"ok"}
    return finding


async def test_of_a_new_file_all_is_well(store):
    findings = await store.doctor()
    assert {each.level for each in findings} == {"ok"}
    said = [each.sentence for each in findings]
    assert said[0].startswith(f"SQLite {sqlite3.sqlite_version};")
    assert "the journal is a write-ahead log: readers and writers do not wait" in said
    assert "durability is full: what was answered survives a power cut" in said
    assert "the write-ahead log has 0 MiB" in said


@pytest.mark.parametrize("others", [False, True])
async def test_it_writes_nothing_and_the_right_to_read_is_enough(url, clock, others):
    async with handle(url, clock) as store:
        await store.enqueue(jobs("a"))
        if others:
            await look_only(url)
    if not others:
        await look_only(url)


async def look_only(url):
    before = dump(url)
    reader = SqliteStore(url)
    await reader.open(read_only=True)
    assert {each.level for each in await reader.doctor()} == {"ok"}
    await reader.close()
    assert changes(before, dump(url)) == []


async def test_a_database_in_memory_ends_with_its_process(clock):
    async with handle("sqlite://", clock) as store:
        finding = await found(store, "memory")
    assert (finding.level, finding.remedy) == ("warn", "name a file: sqlite:///jobs.db")


async def test_of_a_file_that_nobody_has_open_it_says_so(url, path, clock):
    async with handle(url, clock):
        pass
    reader = SqliteStore(url)
    await reader.open(read_only=True)
    said = "no process has the file open: the next one creates a write-ahead log"
    assert said in [each.sentence for each in await reader.doctor()]
    await reader.close()


async def test_a_process_that_examines_its_file_keeps_its_locks(store, path, clock, run):
    """Or else the next process that closes the file deletes the log that others write to."""
    await store.enqueue(jobs("a"))
    before = locks(path)
    assert before != []
    await store.doctor()
    assert locks(path) == before
    other = run(OPEN_AND_CLOSE, store.url)
    other.communicate(timeout=30)
    assert other.returncode == 0
    await store.enqueue(jobs("b"))
    async with handle(store.url, clock) as again:
        assert {each.id for each in (await again.page(Selection(), 10)).jobs} == {"a", "b"}


async def test_normal_durability_is_named_with_what_it_may_cost(url, clock):
    async with handle(f"{url}?durability=normal", clock) as store:
        finding = await found(store, "durability")
    assert finding == Finding(
        "warn",
        "durability is normal: a power cut may take the last moments",
        "drop durability=normal from the URL where jobs must survive that",
    )


async def test_a_user_who_may_only_read_is_told_so(store, path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    finding = await found(store, "may not write")
    assert finding.level == "warn"
    assert f"{path} and {path.parent}: enough to look, not to work" in finding.sentence


@pytest.mark.parametrize(
    ("free", "level"),
    [(LEAST_FREE - 1, "bad"), (LEAST_FREE, "warn"), (LITTLE_FREE - 1, "warn"), (LITTLE_FREE, "ok")],
)
async def test_a_disk_is_said_to_fill_up_before_it_is_full(store, monkeypatch, free, level):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    finding = await found(store, "free on the disk")
    assert finding.level == level
    assert finding.sentence.startswith(f"{free / MIB:,.0f} MiB are free on the disk")


async def test_a_log_that_is_not_copied_into_the_file_is_too_long(store, monkeypatch):
    monkeypatch.setattr(doctor, "LONGEST", 1)
    finding = await found(store, "write-ahead log has")
    assert finding.level == "warn"
    assert "0 MiB are usual: it is not copied into the file" in finding.sentence


@pytest.mark.parametrize(
    ("mounts", "level"),
    [
        ("/dev/a / ext4 rw 0 0\nserver:/b /srv/jobs nfs4 rw 0 0\n", "bad"),
        ("server:/b / nfs rw 0 0\n/dev/a /srv/jobs ext4 rw 0 0\n", "ok"),
        ("server:/b /elsewhere\\040there cifs rw 0 0\n", "ok"),
        (None, "ok"),
    ],
)
def test_a_network_file_system_is_bad(tmp_path, monkeypatch, mounts, level):
    table = tmp_path / "mounts"
    if mounts is not None:
        table.write_text(mounts)
    monkeypatch.setattr(doctor, "MOUNTS", table)
    assert doctor.file_system("/srv/jobs/jobs.db").level == level


def test_names_of_mounted_folders_may_have_spaces(tmp_path, monkeypatch):
    table = tmp_path / "mounts"
    table.write_text("server:/b /mnt/my\\040jobs nfs rw 0 0\n")
    monkeypatch.setattr(doctor, "MOUNTS", table)
    assert doctor.file_system_of("/mnt/my jobs/deeper/jobs.db") == "nfs"
    assert doctor.file_system_of("/mnt/jobs.db") is None
