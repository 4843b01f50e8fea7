"""Whatever documents other programs leave in a MongoDB: no reader fails on one, and no worker."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

import bson
import pymongo
import pytest
from bson.codec_options import CodecOptions
from pymongo.errors import BulkWriteError

from mulligan import Mulligan
from mulligan.core.page import Selection
from mulligan.stores import make_store
from mulligan.stores.contract import Store
from tests.contract.builders import ANN, ANYONE, FRESH, REAPER, RETRY, again, claim, done
from tests.reading.documents import STATUSES, Stranger
from tests.reading.every_reading import application, command, get, reading_commands, reading_routes
from tests.reading.scene import schedule
from tests.store_kit import START, VirtualClock, fresh_url, handle, with_query

GOOD = {"_id": "good", "status": "pending", "payload": {"task": "ask"}}
AWARE: CodecOptions[dict[str, Any]] = CodecOptions(tz_aware=True)
# What the proofs draw.
SEEDS, MANY = 6, 300
# What is asked of single documents besides.
EACH = ("job", "explain")
# These answer 404 where there is no such thing.
OF_ONE = ("/api/jobs/", "/api/gathers/", "/api/limits/")
OF_EACH = ("", "/history", "/explain", "/stages")


@pytest.fixture
async def url(tmp_path) -> AsyncIterator[str]:
    async with fresh_url("mongo", tmp_path) as made:
        yield with_query(made, move_dead="true")


def fill(url: str, stranger: Stranger, count: int) -> list[dict[str, Any]]:
    """Put as many documents into both collections; those that the server has accepted."""
    client: Any = pymongo.MongoClient(url.replace("&move_dead=true", ""))
    stored = []
    with client:
        database = client[urlsplit(url).path.strip("/")]
        for name in ("tasks", "tasks_dlq"):
            documents = list(stranger.documents(count))
            try:
                database[name].insert_many(documents, ordered=False)
                refused = set()
            except BulkWriteError as error:
                refused = {each["index"] for each in error.details["writeErrors"]}
            stored += [each for at, each in enumerate(documents) if at not in refused]
        database["tasks"].insert_one(dict(GOOD))
    return stored


async def open_and_close(url: str) -> None:
    """Make the indexes, so that they are there for every document, and a region to ask for."""
    store = make_store(url)
    await store.open()
    await schedule(store)
    await store.beat(ANN, [])
    await store.close()


def is_job(document: dict[str, Any]) -> bool:
    """Whether it is listed: its status is one of ours."""
    return document.get("status") in STATUSES


def read_all(url: str, *, each: int) -> int:
    """Ask everything of everything, and so many documents one by one; how many questions."""
    asked, listed, found = asyncio.run(read_store_and_routes(url, each))
    commands = [*reading_commands(), ("jobs", "--limit", "1000"), ("dead", "list", "--text", "o")]
    named = {"running", "done", "gathering"}
    commands = [words for words in commands if not named.intersection(words)]
    commands += [(name, job) for name in EACH for job in found[:each] if not job.startswith("-")]
    for words in commands:
        result = command(url, *words)
        said = (words, result.output, repr(result.exception))
        assert isinstance(result.exception, SystemExit | None), said
        assert "Traceback" not in result.output, said
        assert result.exit_code == 0 or words[0] == "doctor", said
    assert len(listed) > each
    return asked + len(commands)


async def read_store_and_routes(url: str, each: int) -> tuple[int, list[str], list[str]]:
    """How many routes were asked; the ids of all jobs, and of those that can be asked for."""
    store = make_store(url)
    await store.open(read_only=True)
    try:
        listed = await every_id(store)
        chosen = listed[:: max(1, len(listed) // each)]
        # Only text and ObjectIds can be: other keys are shown as text and stand for nothing.
        found = [job for job in chosen if job.isprintable() and await store.get(job) is not None]
        return await read_routes(store, url, chosen), listed, found
    finally:
        await store.close()


async def every_id(store: Store) -> list[str]:
    """The ids of all jobs that are listed, page by page."""
    found: list[str] = []
    after: str | None = None
    for _ in range(10_000):
        page = await store.page(Selection(), 37, after)
        found += [job.id for job in page.jobs]
        after = page.after
        if after is None:
            return found
    raise AssertionError("the pages have no end")


async def read_routes(store: Store, url: str, ids: list[str]) -> int:
    """Ask every route, and those of single jobs of each of these."""
    asked = application(store, Mulligan(url))
    paths = [*reading_routes("good", ANN.id), "/api/jobs?limit=1000", "/api/jobs?status=processing"]
    paths += [f"/api/jobs/{quote(job, safe='')}{of}" for job in ids for of in OF_EACH]
    for path in paths:
        status, body = await get(asked, path)
        # No job can be asked for whose key is no text, or has control characters in it.
        expected = (200, 404, 422) if "%1B" in path else (200, 404)
        assert status in expected, (path, status, body[:500])
        assert status == 200 or path.startswith(("/api/jobs/", "/api/gathers/", "/api/limits/")), (
            path
        )
    return len(paths)


def check_readers(url: str, seed: int, count: int, each: int) -> int:
    """Fill both collections and read all of it; returns how many documents were there."""
    asyncio.run(open_and_close(url))
    stored = fill(url, Stranger(seed, datetime.now(UTC).timestamp()), count)
    assert len(stored) > count
    asked = read_all(url, each=each)
    missing = asyncio.run(unlisted(url, stored))
    assert missing == []
    print(f"seed {seed}: {len(stored)} documents, {asked} questions")  # noqa: T201 - what it proves
    return len(stored)


async def unlisted(url: str, stored: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Which of the documents are jobs, and are in no list."""
    store = make_store(url)
    await store.open(read_only=True)
    listed = set(await every_id(store))
    await store.close()
    return [each for each in stored if is_job(each) and str(each["_id"]) not in listed]


def test_no_reader_fails_on_any_document(url):
    assert check_readers(url, seed=1, count=60, each=15) > 60


@pytest.mark.prove
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(1000, 1000 + SEEDS))
def test_no_reader_fails_on_any_of_many_documents(url, seed):
    assert check_readers(url, seed, count=MANY, each=40) > MANY


async def work(store: Store, clock: VirtualClock) -> set[str]:
    """Let workers do all that they do until nothing is left; the ids of what ran."""
    ran: set[str] = set()
    for at in range(15):
        plans = [await claim(store, lane, demand=100) for lane in (ANYONE, FRESH, RETRY)]
        claims = [each for plan in plans for each in plan.claims]
        ran |= {each.id for each in claims}
        await store.commit([(again if at % 3 == 0 else done)(each) for each in claims])
        reclaimed = await store.reclaim(100, REAPER)
        ran |= {each.id for each in reclaimed}
        await store.commit([done(each) for each in reclaimed])
        await store.promote(1000)
        await store.prune(3600, 1000)
        await store.beat(ANN, [])
        clock.advance(240)
    return ran


async def check_workers(url: str, seed: int, count: int) -> int:
    """Let workers run beside such documents; returns how many there were."""
    clock = VirtualClock(START)
    async with handle(url, clock) as store:
        stored = await asyncio.to_thread(fill, url, Stranger(seed, START), count)
        ran = await work(store, clock)
        assert "good" in ran
        client: Any = pymongo.MongoClient(url.replace("&move_dead=true", ""), tz_aware=True)
        with client:
            database = client[urlsplit(url).path.strip("/")]
            dead, left = (
                {str(each["_id"]): each for each in database[name].find()}
                for name in ("tasks_dlq", "tasks")
            )
        for each in stored:
            assert is_as_it_was(each, (dead | left).get(str(each["_id"]))), each
        sane = {
            str(each["_id"])
            for each in stored
            if each["status"] == "pending" and isinstance(each["_id"], str)
        }
        due = datetime.fromtimestamp(clock.now, UTC)
        waiting = [left[name] for name in sane & left.keys() if left[name]["status"] == "pending"]
        for each in waiting:
            assert is_left_alone(each, due), each
    return len(stored)


def is_as_it_was(before: dict[str, Any], after: dict[str, Any] | None) -> bool:
    """Whether a document that was set aside was given its status and error, and nothing else."""
    error = None if after is None else after.get("error")
    if after is None or not isinstance(error, dict) or error.get("code") != "malformed":
        return True
    # As it was stored: a date is cut to the millisecond.
    return without_outcome(bson.decode(bson.encode(before), AWARE)) == without_outcome(after)


def without_outcome(document: dict[str, Any]) -> bytes:
    """The document but for what setting it aside changes, and what others are told of that."""
    kept = {name: each for name, each in document.items() if name not in ("status", "error")}
    if isinstance(kept.get("mulligan"), dict):
        private = kept["mulligan"].items()
        kept["mulligan"] = {k: v for k, v in private if k not in ("outbox", "owes")}
    return bson.encode(kept)


def is_left_alone(document: dict[str, Any], now: datetime) -> bool:
    """Whether there is a reason that it has neither run nor been set aside."""
    at = document.get("next_retry_at")
    if isinstance(at, datetime) and at > now:
        return True
    payload, private = document.get("payload"), document.get("mulligan")
    if isinstance(private, dict) and "body" in private:
        return True  # damaged so that it is in a lane that nobody serves
    return not isinstance(payload, dict) or payload.get("task") is None


async def test_no_worker_ends_by_any_document(url):
    assert await check_workers(url, seed=2, count=60) > 60


@pytest.mark.prove
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(2000, 2000 + SEEDS))
async def test_no_worker_ends_by_any_of_many_documents(url, seed):
    assert await check_workers(url, seed, count=MANY) > MANY
