"""Next jobs on their way, whatever is killed meanwhile."""

import asyncio

import pytest

from tests.contract.builders import ANN, BOB, FRESH, REAPER, claim, done, job, jobs, names, start
from tests.stores.mongo.steps import crash, following


async def test_next_jobs_are_delivered_after_a_crash_right_behind_the_commit(
    store, another, tasks, monkeypatch
):
    await store.enqueue(jobs("a"))
    first = await start(store)

    monkeypatch.setattr("mulligan.stores.mongo.commit.deliver", crash)
    with pytest.raises(asyncio.CancelledError):
        await store.commit([done(first, b"1", job("next"))])
    monkeypatch.undo()
    assert tasks.find_one({"_id": "a"})["status"] == "done"
    assert (await another.get("next")).status == "pending"
    assert await another.prune(0, 100) == 0
    await another.promote(100)
    assert names(await claim(another, worker=BOB)) == ["next"]
    await another.promote(100)
    assert "outbox" not in tasks.find_one({"_id": "a"})["mulligan"]
    assert names(await claim(another, worker=BOB)) == []


async def test_a_next_job_that_is_not_enqueued_yet_can_be_cancelled(store, another, monkeypatch):
    await store.enqueue(jobs("a"))
    first = await start(store)
    monkeypatch.setattr("mulligan.stores.mongo.commit.deliver", crash)
    with pytest.raises(asyncio.CancelledError):
        await store.commit([done(first, b"1", job("next"))])
    monkeypatch.undo()
    assert await another.cancel(["next", "never"], "not needed") == [True, False]
    assert (await another.get("next")).status == "cancelled"


async def test_more_next_jobs_than_a_document_holds_are_enqueued(store, database):
    await store.enqueue(jobs("a"))
    first = await start(store)
    await store.commit([done(first, b"1", *following(80, 200_000))])
    assert await store.depth(FRESH, 100) == 80
    assert len((await start(store)).body) > 200_000
    assert database["tasks_outbox"].count_documents({}) == 0


@pytest.mark.usefixtures("small_parts")
async def test_parts_of_an_outbox_are_delivered_after_a_crash_right_behind_the_commit(
    store, another, database, tasks, monkeypatch
):
    await store.enqueue(jobs("a"))
    first = await start(store)
    with monkeypatch.context() as patched:
        patched.setattr("mulligan.stores.mongo.commit.deliver", crash)
        with pytest.raises(asyncio.CancelledError):
            await store.commit([done(first, b"1", *following(50))])
    assert database["tasks_outbox"].count_documents({}) > 1
    assert await another.depth(FRESH, 100) == 0
    await another.promote(100)
    assert await another.depth(FRESH, 100) == 50
    assert database["tasks_outbox"].count_documents({}) == 0
    assert "outbox" not in tasks.find_one({"_id": "a"})["mulligan"]


@pytest.mark.usefixtures("small_parts")
async def test_parts_whose_commit_never_came_enqueue_nothing_and_are_swept(
    store, another, database, clock, monkeypatch
):
    await store.enqueue(jobs("a"))
    first = await start(store)
    with monkeypatch.context() as patched:
        patched.setattr(store._connection, "apply", crash)
        with pytest.raises(asyncio.CancelledError):
            await store.commit([done(first, b"1", *following(50))])
    await another.promote(100)
    assert database["tasks_outbox"].count_documents({}) > 1, "the commit may yet come"
    clock.advance(ANN.lease)
    [reclaimed] = await another.reclaim(1, REAPER)
    clock.advance(1)
    await another.promote(100)
    assert database["tasks_outbox"].count_documents({}) == 0
    assert await another.depth(FRESH, 100) == 0
    await another.commit([done(reclaimed, b"1", *following(50))])
    assert await another.depth(FRESH, 100) == 50


@pytest.mark.usefixtures("small_parts")
async def test_a_stale_commit_leaves_no_parts(store, another, database, monkeypatch):
    await store.enqueue(jobs("a"))
    first = await start(store)
    write = store._connection.apply

    async def too_late(changes, stamp=None):
        await another.cancel(["a"], "no need")
        return await write(changes, stamp)

    monkeypatch.setattr(store._connection, "apply", too_late)
    assert await store.commit([done(first, b"1", *following(50))]) == ["stale"]
    assert database["tasks_outbox"].count_documents({}) == 0
    assert await store.depth(FRESH, 100) == 0
