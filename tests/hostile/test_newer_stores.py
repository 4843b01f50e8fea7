"""A store that a newer release has written: refused, with both versions and what to do."""

import asyncio
import logging
import os
import sqlite3
from urllib.parse import unquote, urlsplit

import pytest

from mulligan import Mulligan, StoreError
from mulligan.core.facts import QueueSettings
from tests.cli.command_line import APP, refused, run_all
from tests.engine.real_engine import until
from tests.hostile.vandal import mongo_meta, postgres, redis, sqlite
from tests.hostile.worker import bare, ended, working

NEWER = 99


def age(url: str) -> int:
    """Let the store be of a newer release; the version that this one has made."""
    parts = urlsplit(url)
    match parts.scheme:
        case "sqlite":
            with sqlite3.connect(unquote(parts.path)[1:]) as connection:
                known: int = connection.execute("PRAGMA user_version").fetchone()[0]
                connection.execute(f"PRAGMA user_version = {NEWER}")
            connection.close()
            return known
        case "postgresql":
            from mulligan.stores.postgres.schema import VERSION  # noqa: PLC0415 - its driver

            postgres(url, "UPDATE {}.schema_version SET version = %s", NEWER)
            return VERSION
        case "redis":
            client, tag = redis(url)
            with client:
                layout = int(client.get(f"{tag}:layout"))
                client.set(f"{tag}:layout", NEWER)
            return layout
        case _:
            return int(mongo_meta(url, "layout", "version", NEWER))


@pytest.fixture
async def newer(app: Mulligan) -> int:
    """The version that this release knows, of a store that is newer."""
    if app.url.startswith("memory:"):
        pytest.skip("memory is never older than its process")
    async with bare(app):
        pass
    return age(app.url)


async def test_it_is_refused_with_both_versions_and_the_remedy(app: Mulligan, newer):
    @app.task
    def never() -> None: ...

    store = app.make_store()
    with pytest.raises(StoreError) as error:
        await store.open()
    await store.close()
    words = str(error.value)
    assert str(NEWER) in words
    assert f" {newer}" in words
    assert "mulligan" in words
    for call in (never.enqueue, lambda: app.job("a").status):
        with pytest.raises(StoreError, match=str(NEWER)):
            await asyncio.to_thread(call)


async def test_every_command_says_so_in_a_line(app: Mulligan, newer, monkeypatch):
    on_store = ["--store", app.url]
    monkeypatch.setattr("tests.cli.apps.app.url", app.url)
    monkeypatch.setattr("tests.cli.apps.app._memory", None)
    for command in (
        ["status", *on_store],
        ["jobs", *on_store],
        ["job", "a", *on_store],
        ["dead", "list", *on_store],
        ["cancel", "a", *on_store],
        ["pause", "q", *on_store],
        ["doctor", *on_store],
        ["migrate", *on_store],
        ["enqueue", APP, "send", "a"],
    ):
        words = await asyncio.to_thread(refused, 1, *command)
        assert str(NEWER) in words, command
        assert f" {newer}" in words, command


async def test_every_process_that_would_stay_says_so_and_ends(app: Mulligan, newer):
    commands = (
        ["worker", "tests.cli.apps:filed"],
        ["serve", "tests.cli.apps:filed", "--port", "0"],
        ["housekeep", "--store", app.url],
    )
    here = {**os.environ, "TEST_STORE": app.url}
    for each in await asyncio.to_thread(run_all, commands, here):
        assert each.code == 1, each
        last = each.errors.splitlines()[-1]
        assert last.startswith("error: "), each
        assert str(NEWER) in last
        assert f" {newer}" in last
        assert "Traceback" not in each.output + each.errors


# -- a queue that a newer release has configured -----------------------------------------------

LUNAR = '{"policy":{"type":"lunar","phase":0.5}}'


def configure_newly(url: str) -> None:
    """Let the settings of the queue `default` be of a kind that is yet to be invented."""
    match urlsplit(url).scheme:
        case "sqlite":
            sqlite(url, "UPDATE queue SET settings = ? WHERE name = 'default'", LUNAR)
        case "postgresql":
            postgres(url, "UPDATE {}.queue SET settings = %s WHERE name = 'default'", LUNAR)
        case "redis":
            client, tag = redis(url)
            with client:
                client.hset(f"{tag}:queues", "default", LUNAR)
        case _:
            listed = [{"queue": "default", "settings": LUNAR}]
            mongo_meta(url, "facts", "queues", listed)


async def test_workers_wait_while_the_settings_of_a_queue_cannot_be_read(app: Mulligan, caplog):
    """Who does not know a queue's policy must not claim from it, and must not die either."""
    if app.url.startswith("memory:"):
        pytest.skip("memory is never older than its process")
    caplog.set_level(logging.WARNING)

    @app.task
    async def late() -> int:
        return 1

    async with bare(app) as store:
        await store.configure("default", QueueSettings())
        configure_newly(app.url)
        with pytest.raises(StoreError, match=r"settings of queue 'default' .* upgrade mulligan"):
            await store.facts()

        async def is_told() -> bool:
            return "settings of queue 'default' cannot be read" in caplog.text

        async with working(app):
            job = await late.aenqueue()
            await until(is_told)
            assert (await app.job(job.id).ainfo()).status == "pending"
            await store.configure("default", QueueSettings(grace=1.0))
            assert (await ended(store, job.id)).status == "done"
