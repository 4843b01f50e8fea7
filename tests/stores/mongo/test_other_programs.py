"""Sharing the work with programs that know the public fields alone."""

import asyncio
import threading
from collections import Counter
from datetime import timedelta

from mulligan.core.lane import Lane
from tests.contract.builders import (
    ANN,
    FRESH,
    REAPER,
    RETRY,
    again,
    claim,
    dead,
    done,
    job,
    jobs,
    names,
    start,
)
from tests.store_kit import handle
from tests.stores.mongo.steps import TEN_MINUTES, finish, moment, plain, pop, put_back


async def test_another_program_reads_what_mulligan_enqueued(store, tasks, clock):
    await store.enqueue([job("a"), job("b", delay=2.0005)])
    first, second = tasks.find().sort("_id", 1)
    assert first["payload"] == {"task": "ask", "args": [], "kwargs": {}}
    assert first["backoff_policy"] == {
        "base_sec": 2.0,
        "factor": 2.0,
        "max_sec": 60.0,
        "jitter": "none",
    }
    assert (first["status"], first["attempts"], first["next_retry_at"]) == ("pending", 0, None)
    assert first["error"] is None
    # Never before its time: the date is the next whole millisecond.
    assert second["next_retry_at"] == moment(clock.now) + timedelta(milliseconds=2001)
    assert first["created_at"] == first["updated_at"] == moment(clock.now)


async def test_the_public_fields_follow_every_step(store, tasks, clock):
    await store.enqueue(jobs("a"))
    first = await start(store)
    clock.advance(3)
    await store.commit([again(first, 4.0, message="no answer")])
    document = tasks.find_one()
    assert (document["status"], document["attempts"]) == ("pending", 1)
    assert document["updated_at"] == moment(clock.now)
    assert document["next_retry_at"] == moment(clock.now + 4)
    assert document["error"]["message"] == "no answer"
    assert document["error"]["at"] == moment(clock.now)
    clock.advance(4)
    await store.commit([dead(await start(store), "never")])
    document = tasks.find_one()
    assert (document["status"], document["attempts"]) == ("failed", 1)
    assert (document["next_retry_at"], document["error"]["message"]) == (None, "never")


async def test_what_another_program_popped_is_not_claimed(store, tasks, clock):
    await store.enqueue(jobs("a", "b"))
    popped = pop(tasks, clock.now)["_id"]
    assert {popped, *names(await claim(store, demand=5))} == {"a", "b"}
    assert pop(tasks, clock.now) is None
    stored = await store.get(popped)
    assert (stored.status, stored.worker) == ("processing", None)


async def test_what_another_program_finished_has_ended(store, tasks, clock):
    for name, status in (("a", "done"), ("b", "failed")):
        await store.enqueue([job(name, unique_key="k" if name == "a" else None)])
        assert pop(tasks, clock.now)["_id"] == name
        clock.advance(1)
        finish(tasks, name, clock.now, status)
    assert (await store.get("a")).status == "done"
    assert (await store.get("a")).ended_at == clock.now - 1
    assert await store.enqueue([job("c", unique_key="k")]) == [("c", True)]
    assert await store.replay(["b"]) == [True]
    assert sorted(names(await claim(store, demand=5))) == ["b", "c"]
    clock.advance(10)
    assert await store.prune(5, 100) == 1


async def test_what_another_program_put_back_is_a_retry_due_at_its_date(store, tasks, clock):
    await store.enqueue(jobs("a"))
    pop(tasks, clock.now)
    put_back(tasks, "a", clock.now, 5)
    claimed = await claim(store)
    assert (names(claimed), claimed.again_in) == ([], 5.0)
    stored = await store.get("a")
    assert (stored.retry_count, stored.due) == (1, clock.now + 5)
    assert stored.last_failure_reason == "boom"
    clock.advance(5)
    retried = await start(store)
    assert (retried.attempt, retried.lane) == (2, RETRY)
    assert await store.commit([done(retried)]) == ["written"]


async def test_a_date_that_another_program_moved_forward_is_obeyed(store, tasks, clock):
    await store.enqueue([job("a", delay=3600.0), job("b", delay=3600.0)])
    tasks.update_one({"_id": "a"}, {"$set": {"next_retry_at": None}})
    tasks.update_one({"_id": "b"}, {"$set": {"next_retry_at": moment(clock.now)}})
    await store.promote(100)
    assert sorted(names(await claim(store, demand=5))) == ["a", "b"]


async def test_what_a_process_whose_clock_is_ahead_put_back_stands_where_it_put_it(
    store, store_url, clock
):
    elsewhere = Lane("default", "*-default", RETRY.priority)
    async with handle(store_url, lambda: clock() + 0.5) as ahead:
        await ahead.enqueue(jobs("a"))
        await ahead.commit([again(await start(ahead), lane=elsewhere)])
    await store.promote(10)
    clock.advance(1)
    assert (await start(store, elsewhere)).id == "a"


async def test_a_retry_of_mulligans_may_be_popped_when_it_is_due(store, tasks, clock):
    await store.enqueue(jobs("a"))
    first = await start(store)
    await store.commit([again(first, 2.0)])
    assert pop(tasks, clock.now + 1.999) is None
    assert pop(tasks, clock.now + 2)["attempts"] == 1


async def test_a_commit_is_stale_once_another_program_has_the_job(store, tasks, clock):
    await store.enqueue(jobs("a"))
    first = await start(store)
    clock.advance(TEN_MINUTES + 1)
    tasks.update_one({"_id": "a"}, {"$set": {"updated_at": moment(clock.now)}})  # popped anew
    assert await store.reclaim(10, REAPER) == []
    assert (await store.beat(ANN, [first.lease])).lost == [first.lease]
    assert await store.commit([done(first)]) == ["stale"]


async def test_a_plain_worker_and_mulligan_share_tasks_and_each_is_done_once(store, tasks, clock):
    await store.enqueue([job(f"m{n}") for n in range(75)])
    tasks.insert_many([plain(clock, f"p{n}") for n in range(75)])
    finished: list[str] = []

    def work():
        while (document := pop(tasks, clock.now)) is not None:
            finish(tasks, document["_id"], clock.now)
            finished.append(document["_id"])

    thread = threading.Thread(target=work)
    thread.start()
    ours: list[str] = []
    while claims := (await claim(store, FRESH, demand=7)).claims:
        ours += [each.id for each in claims]
        assert set(await store.commit([done(each) for each in claims])) == {"written"}
    await asyncio.to_thread(thread.join)
    assert Counter(ours + finished) == Counter([f"{k}{n}" for k in "mp" for n in range(75)])
    assert tasks.count_documents({"status": "done"}) == 150
