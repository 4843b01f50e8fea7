"""A plain pymongo program and workers on one collection, each as a process, in both directions."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pymongo
import pytest

from mulligan import Mulligan
from mulligan.stores import make_store
from tests.cli.command_line import process, run
from tests.reading.every_reading import reading_commands
from tests.store_kit import fresh_url, with_query

APP = "tests.beside.app:app"
STRANGER = Path(__file__).with_name("stranger.py")
LONGEST_WAIT = 60.0
ENDED = {"done", "failed", "cancelled"}
# What running a document may change of what its program wrote.
CHANGES = {"status", "updated_at", "attempts", "next_retry_at", "error", "mulligan"}
UNTOUCHED: list[dict[str, Any]] = [
    {"_id": "theirs-done", "status": "done", "payload": {"task": "ask", "args": [1]}},
    {"_id": "theirs-failed", "status": "failed", "error": "who knows"},
    {"_id": "theirs-held", "status": "processing", "payload": {"task": "ask", "args": [1]}},
    {"_id": "no-task", "status": "pending", "payload": {"city": "Ulm"}, "attempts": 4},
    {"_id": "no-payload", "status": "pending"},
    {"_id": "no-job", "status": "archived", "payload": {"task": "ask"}},
    {"_id": "no-status", "color": "red"},
]


@pytest.fixture
async def url(tmp_path, monkeypatch) -> AsyncIterator[str]:
    async with fresh_url("mongo", tmp_path) as made:
        monkeypatch.setenv("BESIDE_URL", made)
        yield made


@contextmanager
def collection(url: str) -> Iterator[Any]:
    """The tasks as any program sees them."""
    client: Any = pymongo.MongoClient(url, tz_aware=True)
    with client:
        yield client[urlsplit(url).path.strip("/")]["tasks"]


def stranger(url: str, what: str, count: int) -> list[str]:
    """Let the stranger do something; the ids of what it had."""
    parts = urlsplit(url)
    plain = parts._replace(path="/").geturl()
    command = [sys.executable, str(STRANGER), plain, parts.path.strip("/"), what, str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.split()


def until(condition: Callable[[], bool], what: Callable[[], object]) -> None:
    """Wait for something that other processes do."""
    deadline = time.monotonic() + LONGEST_WAIT
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.02)


def statuses(tasks: Any, *keys: str) -> dict[str, str]:
    """How these documents are."""
    return {each["_id"]: each["status"] for each in tasks.find({"_id": {"$in": list(keys)}})}


def ended(tasks: Any, *keys: str) -> bool:
    """Whether all of them have ended."""
    return set(statuses(tasks, *keys).values()) <= ENDED


def enqueued(url: str, task: str, count: int) -> list[str]:
    """Jobs of our own."""
    app = Mulligan(url)
    try:
        declared = app.task(name=task)(lambda number: number)
        ids = [f"ours-{number}" for number in range(count)]
        for number, job in enumerate(ids):
            declared.using(id=job).enqueue(number)
        return ids
    finally:
        app.close()


def test_a_worker_runs_what_a_stranger_inserts_and_overwrites_nothing(url):
    with collection(url) as tasks, process("worker", APP, "--concurrency", "4"):
        theirs = stranger(url, "insert", 20)
        before = {each["_id"]: each for each in tasks.find()}
        until(lambda: ended(tasks, *theirs), lambda: statuses(tasks, *theirs))
        after = {each["_id"]: each for each in tasks.find()}
    assert set(statuses_of(after).values()) == {"done"}
    for key in theirs:
        same = before[key].keys() - CHANGES
        assert {name: after[key][name] for name in same} == {n: before[key][n] for n in same}
        assert after[key].keys() - before[key].keys() <= CHANGES
        assert after[key]["attempts"] == 0


def statuses_of(documents: dict[str, Any]) -> dict[str, str]:
    """How they are."""
    return {key: each["status"] for key, each in documents.items()}


def test_a_stranger_and_a_worker_share_what_mulligan_enqueued(url):
    ours = enqueued(url, "ask", 30)
    theirs = stranger(url, "work", 10)
    assert len(set(theirs)) == 10
    with collection(url) as tasks:
        assert sorted(statuses(tasks, *theirs).values()) == ["done"] * 5 + ["pending"] * 5
        with process("worker", APP, "--concurrency", "4"):
            until(lambda: ended(tasks, *ours), lambda: statuses(tasks, *ours))
        documents = {each["_id"]: each for each in tasks.find()}
    assert set(statuses_of(documents).values()) == {"done"}
    # What it put back had a retry more; what it finished has no result of ours.
    assert [documents[key]["attempts"] for key in theirs] == [0, 1] * 5
    results = ["result" in documents[key]["mulligan"] for key in theirs]
    assert results == [False, True] * 5


def test_what_a_stranger_holds_and_what_is_none_of_our_business_stays_as_it_is(url):
    enqueued(url, "ask", 10)
    held = stranger(url, "hold", 3)
    with collection(url) as tasks:
        tasks.insert_many(UNTOUCHED)
        names = [*held, *(each["_id"] for each in UNTOUCHED)]
        query = {"_id": {"$in": names}}
        before = list(tasks.find(query).sort("_id", 1))
        with process("worker", APP, "--concurrency", "4"):
            until(
                lambda: tasks.count_documents({"status": "done"}) == 8,
                lambda: list(tasks.find({}, {"status": 1})),
            )
            theirs = stranger(url, "insert", 5)  # and a while longer
            until(lambda: ended(tasks, *theirs), lambda: statuses(tasks, *theirs))
        assert list(tasks.find(query).sort("_id", 1)) == before
    said = run("explain", held[0], "--store", url).output
    assert "Running attempt 1 in another program, which took it" in said
    found = run("doctor", "--store", url).output
    assert "2 documents of tasks name no task" in found
    assert "2 documents of tasks have another status" in found


def test_one_plain_failure_with_dead_letters_apart_is_read_by_all(url):
    apart = with_query(url, move_dead="true")
    stranger(url, "insert", 3)
    failed = stranger(url, "fail", 1)
    with collection(url) as tasks:
        letters = tasks.database["tasks_dlq"]
        with process("worker", APP, BESIDE_URL=apart):
            until(
                lambda: (
                    letters.count_documents({"_id": failed[0]}) == 1
                    and tasks.count_documents({"status": "done"}) == 2
                ),
                lambda: list(tasks.find({}, {"status": 1})),
            )
        number = failed[0].rpartition("-")[2]
        assert letters.find_one({"_id": failed[0]})["customer"]["name"] == f"c{number}"
    for words in reading_commands():
        if "running" in words or "done" in words:
            words = tuple(failed[0] if word in ("running", "done") else word for word in words)  # noqa: PLW2901
        result = run(*words, "--store", apart)
        assert isinstance(result.exception, SystemExit | None), (words, repr(result.exception))
        none = words[0] in ("doctor", "watch", "gather") or words[:2] == ("schedules", "next")
        assert result.exit_code == 0 or none, (words, result.output)
        if failed[0] in words:
            assert "broken" in result.output, (words, result.output)
    assert "Replayed 1" in run("dead", "replay", failed[0], "--store", apart).output
    with collection(url) as tasks, process("worker", APP, BESIDE_URL=apart):
        until(lambda: ended(tasks, *failed), lambda: statuses(tasks, *failed))
        assert statuses(tasks, *failed) == {failed[0]: "done"}


def test_the_default_task_is_said_once(url):
    with collection(url) as tasks:
        tasks.insert_one({"_id": "first", "status": "pending", "payload": 1})
        with process("worker", APP, BESIDE_URL=with_query(url, default_task="ask")):
            until(lambda: ended(tasks, "first"), lambda: tasks.find_one({"_id": "first"}))
        tasks.insert_one({"_id": "second", "status": "pending", "payload": 2})
        with process("worker", APP):
            until(lambda: ended(tasks, "second"), lambda: tasks.find_one({"_id": "second"}))
        assert statuses(tasks, "first", "second") == {"first": "done", "second": "done"}
    assert "documents that name no task run 'ask'" in run("doctor", "--store", url).output
    other = with_query(url, default_task="refuse")
    assert "'ask' is stored for all others" in run("doctor", "--store", other).output


def test_a_document_beyond_its_attempts_fails_without_running(url):
    made = {"status": "pending", "payload": {"task": "ask", "args": [1]}}
    with collection(url) as tasks:
        tasks.insert_one({"_id": "own", **made, "attempts": 3, "max_retries": 2})
        tasks.insert_one({"_id": "declared", **made, "attempts": 4})
        tasks.insert_one({"_id": "last", **made, "attempts": 2, "max_retries": 2})
        with process("worker", APP):
            until(lambda: ended(tasks, "own", "declared", "last"), lambda: list(tasks.find()))
        documents = {each["_id"]: each for each in tasks.find()}
    assert statuses_of(documents) == {"own": "failed", "declared": "failed", "last": "done"}
    assert documents["own"]["error"]["code"] == "spent"
    assert documents["own"]["attempts"] == 3
    assert "max_retries is 3" in documents["declared"]["error"]["message"]


async def test_opening_and_closing_leaves_an_unrelated_collection_alone(url):
    with collection(url) as tasks:
        tasks.insert_many(UNTOUCHED)
        before = list(tasks.find().sort("_id", 1))
        store = make_store(url)
        await store.open()
        await store.promote(1000)
        await store.prune(0.0, 1000)
        await store.close()
        assert await asyncio.to_thread(lambda: list(tasks.find().sort("_id", 1))) == before
