"""What a store does with jobs that are handed to it."""

import contextlib

import pytest

from mulligan.core.errors import InvalidError
from mulligan.core.lane import Lane, Priority
from tests.contract.builders import (
    FRESH,
    again,
    body,
    claim,
    dead,
    done,
    job,
    jobs,
    names,
    start,
    used,
)


async def test_a_job_is_pending_in_its_own_lane_from_the_moment_it_is_accepted(store, clock):
    new = job(
        "a", queue="mail", task="send", region="EU", priority=Priority.URGENT, body=body(timeout=3)
    )
    assert await store.enqueue([new]) == [("a", True)]
    stored = await store.get("a")
    assert stored.status == "pending"
    assert stored.lane == Lane("mail", "EU", Priority.URGENT)
    assert (stored.queue, stored.task, stored.region, stored.priority) == ("mail", "send", "EU", 2)
    assert stored.body == new.body
    assert stored.created_at == stored.due == clock.now
    assert (used(stored), stored.retry_count, stored.replay, stored.snoozes) == (0, 0, 0, 0)
    assert stored.started_at is stored.ended_at is stored.worker is stored.result is None
    assert stored.last_retry_at is stored.last_failure_reason is stored.cancel_reason is None
    assert stored.waits_for is None


async def test_ids_come_back_in_the_order_of_the_jobs(store):
    answers = await store.enqueue(jobs("c", "a", "b"))
    assert answers == [("c", True), ("a", True), ("b", True)]


async def test_nothing_is_nothing(store):
    assert await store.enqueue([]) == []


async def test_fresh_jobs_start_in_the_order_of_enqueue(store):
    await store.enqueue(jobs("c", "a"))
    await store.enqueue(jobs("b"))
    assert names(await claim(store, demand=3)) == ["c", "a", "b"]


async def test_a_delayed_job_is_due_when_its_delay_has_passed(store, clock):
    await store.enqueue([job("a", delay=10.0)])
    assert (await store.get("a")).due == clock.now + 10
    clock.advance(9.875)
    assert names(await claim(store)) == []
    clock.advance(0.125)
    assert names(await claim(store)) == ["a"]


async def test_a_delay_under_a_second_is_honoured(store, clock):
    await store.enqueue([job("a", delay=0.05)])
    clock.advance(0.04)
    assert names(await claim(store)) == []
    clock.advance(0.01)
    assert names(await claim(store)) == ["a"]


async def test_a_job_with_a_shorter_delay_overtakes_one_with_a_longer(store, clock):
    await store.enqueue([job("late", delay=20.0), job("soon", delay=10.0)])
    clock.advance(30)
    assert names(await claim(store, demand=2)) == ["soon", "late"]


async def test_a_delayed_job_that_fell_due_first_goes_before_a_younger_fresh_one(store, clock):
    await store.enqueue([job("delayed", delay=5.0)])
    clock.advance(10)
    await store.enqueue(jobs("fresh"))
    assert names(await claim(store, demand=2)) == ["delayed", "fresh"]


async def test_an_id_that_is_stored_is_not_stored_again(store):
    await store.enqueue([job("a", task="first")])
    assert await store.enqueue([job("a", task="second")]) == [("a", False)]
    assert (await store.get("a")).task == "first"
    assert names(await claim(store, demand=5)) == ["a"]


async def test_an_id_twice_in_one_batch_is_one_job(store):
    answers = await store.enqueue([job("a", task="first"), job("a", task="second")])
    assert answers == [("a", True), ("a", False)]
    assert names(await claim(store, demand=5)) == ["a"]


async def test_an_id_is_taken_as_long_as_its_job_is_stored_even_when_it_has_ended(store):
    await store.enqueue(jobs("a"))
    await store.commit([done(await start(store))])
    assert await store.enqueue(jobs("a")) == [("a", False)]
    assert (await store.get("a")).status == "done"
    await store.purge(["a"])
    assert await store.enqueue(jobs("a")) == [("a", True)]
    assert names(await claim(store)) == ["a"]


async def test_a_unique_key_gives_the_first_job_while_it_has_not_ended(store):
    await store.enqueue([job("a", unique_key="k")])
    assert await store.enqueue([job("b", unique_key="k")]) == [("a", False)]
    assert await store.get("b") is None
    running = await start(store)
    assert await store.enqueue([job("c", unique_key="k")]) == [("a", False)]
    await store.commit([done(running)])
    assert await store.enqueue([job("d", unique_key="k")]) == [("d", True)]


async def test_a_unique_key_twice_in_one_batch_is_one_job(store):
    answers = await store.enqueue([job("a", unique_key="k"), job("b", unique_key="k")])
    assert answers == [("a", True), ("a", False)]


async def test_of_a_unique_key_twice_in_one_batch_the_first_has_it_even_if_others_await_it(store):
    gathering, member = job("g", awaits=1, unique_key="k"), job("m", gather="g")
    assert await store.enqueue([job("a", unique_key="k"), gathering, member]) == [
        ("a", True),
        ("a", False),
        ("m", True),
    ]
    assert await store.get("g") is None


async def test_unique_keys_are_per_queue(store):
    answers = await store.enqueue(
        [job("a", unique_key="k"), job("b", unique_key="k", queue="other")]
    )
    assert answers == [("a", True), ("b", True)]


async def test_a_unique_key_is_kept_through_a_retry(store):
    await store.enqueue([job("a", unique_key="k")])
    await store.commit([again(await start(store), delay=100)])
    assert await store.enqueue([job("b", unique_key="k")]) == [("a", False)]


async def test_a_unique_key_is_free_when_its_job_failed_or_was_cancelled(store):
    await store.enqueue([job("a", unique_key="k")])
    await store.commit([dead(await start(store))])
    assert await store.enqueue([job("b", unique_key="k")]) == [("b", True)]
    await store.cancel(["b"], "no longer wanted")
    assert await store.enqueue([job("c", unique_key="k")]) == [("c", True)]


async def test_the_job_before_it_may_be_one_with_its_id_and_no_key(store):
    await store.enqueue([job("a", unique_key="k"), job("b")])
    assert await store.enqueue([job("b", unique_key="k")]) == [("b", False)]


async def test_two_clients_see_each_others_jobs_and_keys(store, another):
    await store.enqueue([job("a", unique_key="k")])
    assert await another.enqueue([job("b", unique_key="k")]) == [("a", False)]
    assert (await another.get("a")).status == "pending"
    assert await store.enqueue(jobs("a")) == [("a", False)]


async def test_a_batch_of_a_thousand_is_accepted_and_claimed_in_order(store):
    many = [f"job-{n:04}" for n in range(1000)]
    answers = await store.enqueue(jobs(*many))
    assert answers == [(name, True) for name in many]
    claimed = await claim(store, FRESH, demand=1000)
    assert names(claimed) == many
    assert await store.commit([done(each) for each in claimed.claims]) == ["written"] * 1000


async def test_a_batch_over_a_thousand_is_refused_whole(store):
    many = [f"job-{n}" for n in range(1001)]
    with pytest.raises(InvalidError, match="1001 is over the limit of 1000"):
        await store.enqueue(jobs(*many))
    assert await store.get("job-0") is None
    with pytest.raises(InvalidError, match="1001 is over the limit of 1000"):
        await claim(store, demand=1001)
    for operation in (store.replay, store.purge):
        with pytest.raises(InvalidError, match="1001 is over the limit of 1000"):
            await operation(many)
    with pytest.raises(InvalidError, match="1001 is over the limit of 1000"):
        await store.cancel(many, "too many")


async def test_those_of_many_alike_that_are_stored_already_keep_their_places(store):
    many = [f"job-{n:03}" for n in range(170)]
    await store.enqueue(jobs(many[120], many[7]))
    answers = await store.enqueue(jobs(*many))
    assert answers == [(name, name not in (many[120], many[7])) for name in many]
    rest = [name for name in many if name not in (many[120], many[7])]
    claimed = await claim(store, FRESH, demand=1000)
    assert names(claimed) == [many[120], many[7], *rest]
    assert len({each.token for each in claimed.claims}) == 170
    assert [each.body for each in claimed.claims] == [jobs("x")[0].body] * 170


async def test_any_number_of_jobs_is_accepted_in_order(store):
    many = [f"job-{n:04}" for n in range(2001)]
    assert await store.enqueue_all(jobs(*many)) == [(name, True) for name in many]
    claimed = [name for _ in range(3) for name in names(await claim(store, FRESH, demand=1000))]
    assert claimed == many
    assert await store.enqueue_all([]) == []


async def test_a_job_that_an_earlier_batch_has_is_there_before(store, monkeypatch):
    monkeypatch.setattr("mulligan.stores.batches.BATCH_LIMIT", 2)
    await store.enqueue([job("e", unique_key="k")])
    new = [*jobs("a", "b", "a"), job("c", unique_key="k"), job("d", delay=5.0), *jobs("e", "b")]
    answers = await store.enqueue_all(new)
    assert answers == [
        *(("a", True), ("b", True), ("a", False), ("e", False)),
        *(("d", True), ("e", False), ("b", False)),
    ]
    assert names(await claim(store, demand=9)) == ["e", "a", "b"]


async def test_whatever_fails_no_batch_is_stored_without_those_before_it(store, monkeypatch):
    monkeypatch.setattr("mulligan.stores.batches.BATCH_LIMIT", 2)
    written = 4  # what no store but memory can write: half a character
    with contextlib.suppress(Exception):
        written = len(await store.enqueue_all(jobs("a", "b", "c", "d", "e", "f\ud800", "g", "h")))
    found = [each for each in "abcdegh" if await store.get(each) is not None]
    assert found == list("abcd" if written == 4 else "abcdegh")
