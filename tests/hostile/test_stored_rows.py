"""Records that were damaged in a store, written through its own driver: no worker dies of one.

A damaged job ends as a dead letter, or runs where the damage does not matter; either way the jobs
beside it do, and readers see all of them.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mulligan import Delays, Mulligan, Retry
from mulligan.core.page import Selection
from mulligan.server.redaction import Redaction
from mulligan.stores.contract import Store
from tests.hostile import vandal
from tests.hostile.worker import QUICK, bare, ended, working
from tests.store_kit import fresh_url

SOON = Retry(1, Delays((0,)))
Damage = Callable[[Mulligan, str], None]
LAST = 2**63 - 1


def in_redis(spoil: Callable[[bytes], bytes]) -> Damage:
    """Change the text of a job."""

    def damage(app: Mulligan, job: str) -> None:
        client, tag = vandal.redis(app.url)
        with client:
            client.hset(f"{tag}:jobs", job, spoil(client.hget(f"{tag}:jobs", job)))

    return damage


def over_key(name: str) -> Damage:
    """Keep something else in Redis where the store keeps what it knows of a job."""

    def damage(app: Mulligan, job: str) -> None:
        client, tag = vandal.redis(app.url)
        with client:
            client.set(f"{tag}:{name}:{job}", "mine")

    return damage


def part(number: int, value: bytes) -> Damage:
    """Change one part of the text of a job in Redis."""

    def spoil(text: bytes) -> bytes:
        parts = text.split(b"\t", 4)
        parts[number] = value
        return b"\t".join(parts)

    return in_redis(spoil)


def in_mongo(**fields: Any) -> Damage:
    """Set fields of a document; two underscores stand for a dot."""
    named = {name.replace("__", "."): value for name, value in fields.items()}
    return lambda app, job: vandal.mongo(app.url, job, named)


def in_sqlite(change: str) -> Damage:
    """Update the row of a job."""
    return lambda app, job: vandal.sqlite(app.url, f"UPDATE job SET {change} WHERE id = ?", job)  # noqa: S608


def in_postgres(change: str) -> Damage:
    """Update the row of a job."""
    statement = f"UPDATE {{}}.job SET {change} WHERE id = %s"  # noqa: S608
    return lambda app, job: vandal.postgres(app.url, statement, job)


DAMAGES: dict[str, dict[str, Damage]] = {
    "sqlite": {
        "trail is no UTF-8": in_sqlite("trail = CAST(x'ff' AS TEXT)"),
        "region is no UTF-8": in_sqlite("region = CAST(x'ff' AS TEXT)"),
        "task is no UTF-8": in_sqlite("task = CAST(x'ff' AS TEXT)"),
        "trail": in_sqlite("trail = 'nonsense'"),
        "retry_count": in_sqlite("retry_count = -3"),
        "replay": in_sqlite("replay = -5"),
        "priority": in_sqlite("priority = 7"),
        "created_at": in_sqlite("created_at = 9e999"),
        "body": in_sqlite("body = x'ff00'"),
        "limits": in_sqlite("limits = 'x'"),
        "costs": in_sqlite("limits = '{\"a\":-1}'"),
        "token": in_sqlite(f"token = {LAST}"),
    },
    "postgres": {
        "trail": in_postgres("trail = 'nonsense'"),
        "retry_count": in_postgres("retry_count = -5"),
        "priority": in_postgres("priority = 7"),
        "due": in_postgres("due = -9223372036854775808"),
        "permits": in_postgres("permits = 'zzz'"),
        "task": in_postgres("task = ''"),
        "token": in_postgres(f"token = {LAST}"),
    },
    "redis": {
        "cut off": in_redis(lambda text: text[:10]),
        "empty": in_redis(lambda _: b""),
        "no parts": in_redis(lambda _: b"nonsense"),
        "a flipped bit": in_redis(lambda text: bytes([text[0] ^ 0x80]) + text[1:]),
        "place": part(0, b"x"),
        "time": part(1, b"x"),
        "lane": part(2, b"x"),
        "task is no UTF-8": part(3, b"\xff"),
        "state is no hash": over_key("state"),
        "history is no list": over_key("history"),
        "arrived is no hash": over_key("arrived"),
    },
    "mongo": {
        "nothing private": in_mongo(mulligan=None),
        "private is empty": in_mongo(mulligan={}),
        "body is text": in_mongo(mulligan__body="x"),
        "body is a number": in_mongo(mulligan__body=7),
        "body is null": in_mongo(mulligan__body=None),
        "token": in_mongo(mulligan__token="x"),
        "token has no next": in_mongo(mulligan__token=LAST),
        "due": in_mongo(mulligan__due="x"),
        "sequence": in_mongo(mulligan__sequence="x"),
        "replay": in_mongo(mulligan__replay="x"),
        "snoozes": in_mongo(mulligan__snoozes=None),
        "region": in_mongo(mulligan__region=None),
        "task": in_mongo(mulligan__task=7),
        "scope": in_mongo(mulligan__scope=7),
        "lane_priority": in_mongo(mulligan__lane_priority="x"),
        "trail": in_mongo(mulligan__trail=7),
        "expires_at": in_mongo(mulligan__expires_at="x"),
        "limits": in_mongo(mulligan__limits=7),
        "stamps": in_mongo(mulligan__stamps=7),
        "stamps are null": in_mongo(mulligan__stamps=None),
        "scope is of another region": in_mongo(mulligan__scope="x"),
        "queue is another": in_mongo(mulligan__queue="x"),
        "lane_priority is another": in_mongo(mulligan__lane_priority=7),
        "number is text": in_mongo(mulligan__number="x"),
        "number is a document": in_mongo(mulligan__number={"a": 1}),
        "history": in_mongo(mulligan__history="x"),
        "history is of nothing known": in_mongo(mulligan__history=[7]),
        "uncommitted": in_mongo(mulligan__uncommitted="x"),
        "attempts": in_mongo(attempts="x"),
        "attempts is negative": in_mongo(attempts=-3),
        "next_retry_at": in_mongo(next_retry_at="x"),
        "error": in_mongo(error=7),
    },
}
# What takes nothing from a job that its run needs: it runs all the same. All else is a dead letter.
HARMLESS = {
    "sqlite": DAMAGES["sqlite"].keys() - {"body", "limits", "costs", "task is no UTF-8"},
    "postgres": DAMAGES["postgres"].keys() - {"task"},
    "redis": {"state is no hash", "history is no list", "arrived is no hash"},
    "mongo": {
        *("nothing private", "private is empty", "error"),
        *("number is text", "number is a document", "history", "history is of nothing known"),
    },
}
KINDS = [pytest.param(kind, id=kind) for kind in DAMAGES]


# What begins anew, with a policy that waits for hours between all its attempts.
BEGINS_ANEW = {"nothing private", "private is empty"}


@asynccontextmanager
async def damaged(
    kind: str, folder: Path, *, fails: bool = False
) -> AsyncIterator[tuple[Mulligan, Store]]:
    """An app with a job for each kind of damage, which may fail besides, and one after them."""
    async with fresh_url(kind, folder) as url:
        app = Mulligan(url, settings=QUICK)

        @app.task(retry=SOON)
        async def victim(number: int) -> None:
            if fails and number == 1:
                raise ValueError("no luck")

        try:
            for name, damage in DAMAGES[kind].items():
                await victim.using(id=name).aenqueue(1)
                damage(app, name)
            await victim.using(id="after").aenqueue(2)
            async with bare(app) as store:
                yield app, store
        finally:
            await asyncio.to_thread(app.close)


@pytest.mark.parametrize("kind", KINDS)
async def test_work_goes_on_beside_damaged_jobs_and_each_of_them_ends(kind, tmp_path):
    async with damaged(kind, tmp_path) as (app, store), working(app):
        assert (await ended(store, "after")).status == "done"
        jobs = [await ended(store, name) for name in DAMAGES[kind]]
        dead = {job.id for job in jobs if job.status == "failed" and job.last_failure_reason}
        assert {job.id for job in jobs if job.status == "done"} == HARMLESS[kind]
        assert dead == DAMAGES[kind].keys() - HARMLESS[kind]


@pytest.mark.parametrize("kind", KINDS)
async def test_damaged_jobs_that_fail_besides_end_too(kind, tmp_path):
    async with damaged(kind, tmp_path, fails=True) as (app, store), working(app):
        assert (await ended(store, "after")).status == "done"
        jobs = [await ended(store, name) for name in DAMAGES[kind].keys() - BEGINS_ANEW]
    assert {job.status for job in jobs} == {"failed"}


@pytest.mark.parametrize("kind", KINDS)
async def test_readers_see_damaged_jobs_before_any_worker_does(kind, tmp_path):
    async with damaged(kind, tmp_path) as (_, store):
        page = await store.page(Selection(), 100)
        assert {job.id for job in page.jobs} == {*DAMAGES[kind], "after"}
        await store.stats()
        for name in DAMAGES[kind]:
            job = await store.get(name)
            assert job is not None
            assert Redaction().job(job).id == name


@pytest.mark.parametrize(
    "change",
    ["token = 'x'", "due = 'soon'", "retry_count = x'00'", "priority = 'x'", "created_at = 'x'"],
)
async def test_sqlite_itself_refuses_a_value_of_another_kind(change, tmp_path):
    app = Mulligan(f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    async def victim() -> None: ...

    await victim.using(id="j").aenqueue()
    with pytest.raises(sqlite3.IntegrityError, match="cannot store"):
        in_sqlite(change)(app, "j")
    await asyncio.to_thread(app.close)
