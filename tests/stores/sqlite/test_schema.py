"""The schema: made once, brought up to date in place, refused where it is not known."""

import asyncio
import os
import socket
import sqlite3

import pytest

from mulligan.core.errors import StoreError
from mulligan.core.fields import JOB, NEW_JOB, fields_of, names_of
from mulligan.core.page import Selection
from mulligan.stores.sqlite import SqliteStore, schema
from tests.contract.builders import claim, jobs, names
from tests.store_kit import handle
from tests.stores.sqlite.kit import foreign, pragma

VERSION = 1


async def test_a_new_file_has_version_one(store):
    assert await pragma(store, "user_version") == VERSION == len(schema.STEPS)


async def test_a_process_that_runs_an_older_release_is_told_to_restart(store, path):
    with sqlite3.connect(path) as newer:
        newer.execute("ALTER TABLE job RENAME COLUMN body TO content")
        newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(StoreError) as error:
        await store.enqueue(jobs("a"))
    said = str(error.value)
    assert "has now schema version 99" in said
    assert f"process {os.getpid()} on {socket.gethostname()} still runs a mulligan" in said
    assert f"knows version {VERSION}; restart this process" in said


@pytest.fixture
def older(path, monkeypatch):
    """A file with a job, of a release before one that adds a column."""
    read = schema.read

    def read_more(name):
        return "ALTER TABLE job ADD COLUMN colour TEXT;" if name == "colour.sql" else read(name)

    monkeypatch.setattr(schema, "read", read_more)
    old = sqlite3.connect(path, isolation_level=None)
    schema.migrate(old, str(path))
    old.execute("INSERT INTO inbox (task, id, region) VALUES ('ask', 'old', 'default')")
    old.close()
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, "colour.sql"))


async def test_an_older_file_is_brought_up_to_date_in_place(older, path, url):
    async with handle(url, lambda: 4_000_000_000.0) as store:
        assert names(await claim(store)) == ["old"]
        foreign(path, "INSERT INTO inbox (task) VALUES ('ask')")
        foreign(path, "UPDATE job SET colour = 'red'")
        assert len((await store.page(Selection(), 10)).jobs) == 2
        assert await pragma(store, "user_version") == VERSION + 1


@pytest.mark.usefixtures("older")
async def test_who_only_reads_refuses_an_older_file(url):
    with pytest.raises(StoreError, match=r"is not a store of this release.* mulligan migrate"):
        await SqliteStore(url).open(read_only=True)


@pytest.mark.parametrize("exists", [False, True])
async def test_many_may_open_a_file_at_once_that_is_not_up_to_date(request, url, clock, exists):
    if exists:
        request.getfixturevalue("older")
    stores = [SqliteStore(url, clock) for _ in range(8)]
    await asyncio.gather(*(store.open() for store in stores))
    await asyncio.gather(*(store.enqueue(jobs(f"j{i}")) for i, store in enumerate(stores)))
    assert len((await stores[0].page(Selection(), 10)).jobs) == 8 + exists
    for store in stores:
        await store.close()


@pytest.mark.parametrize("version", [99, -1])
async def test_a_file_of_another_version_is_refused(path, url, clock, version):
    newer = sqlite3.connect(path)
    newer.execute(f"PRAGMA user_version = {version}")
    newer.close()
    with pytest.raises(StoreError, match=f"has schema version {version}, .* upgrade mulligan"):
        await SqliteStore(url, clock).open()


async def test_a_file_with_tables_of_the_same_names_is_refused_as_it_is(path, url, clock):
    own = sqlite3.connect(path)
    own.executescript(
        "CREATE TABLE Region (x); CREATE VIEW jobs AS SELECT 7; CREATE TABLE city (x)"
    )
    with pytest.raises(StoreError, match=r"names that the store needs: jobs, region; rename them"):
        await SqliteStore(url, clock).open()
    found = own.execute("SELECT name FROM sqlite_schema ORDER BY name").fetchall()
    assert found == [("Region",), ("city",), ("jobs",)]
    own.close()


async def test_a_step_that_fails_leaves_the_file_as_it_was(path, url, clock, monkeypatch):
    monkeypatch.setattr(schema, "VIEWS", (*schema.VIEWS, "nothing.sql"))
    with pytest.raises(FileNotFoundError):
        await SqliteStore(url, clock).open()
    monkeypatch.undo()
    left = sqlite3.connect(path)
    assert left.execute("SELECT name FROM sqlite_master").fetchall() == []
    left.close()


def test_the_view_of_jobs_has_every_field_of_a_job(db):
    columns = [name for (name,) in db.execute("SELECT name FROM pragma_table_info('jobs')")]
    assert columns[0] == "number"
    assert set(columns[1:]) == set(names_of(JOB))


def test_what_is_kept_of_a_new_job_has_a_column_but_for_durations(db):
    columns = {name for (name,) in db.execute("SELECT name FROM pragma_table_info('job')")}
    durations = {*names_of(NEW_JOB, "seconds")}
    assert (
        {field.name for field in fields_of(NEW_JOB) if field.kept} - columns
        == durations
        == {"delay", "expires", "debounce_max", "unique_for"}
    )
