"""Debounce: enqueuing again while a job waits to start gives it the call and the wait anew."""

import pytest
from msgspec.structs import replace

from mulligan.core.limits import Limit
from mulligan.core.outcome import Later, Returned
from mulligan.stores.memory import MemoryStore
from tests.contract.builders import (
    ANN,
    FRESH,
    adopted_from,
    again,
    begin,
    body,
    claim,
    dead,
    done,
    job,
    names,
    start,
)

# The costs of a job that needs limit k.
ONE = '{"k":1}'


def call(name, said=0, delay=5.0, longest=60.0, **fields):
    """A debounced job with this argument."""
    given = {"unique_key": "k", "delay": delay, "debounce_max": longest, **fields}
    return job(name, body=body(said=said), **given)


async def enqueue(store, *new):
    return [tuple(each) for each in await store.enqueue(new)]


async def test_enqueuing_again_keeps_the_id_and_takes_the_last_call_and_waits_anew(store, clock):
    assert await enqueue(store, call("a", 1)) == [("a", True)]
    first = await store.get("a")
    assert first.due == clock.now + 5
    assert first.debounce_until == clock.now + 60
    clock.advance(3)
    assert await enqueue(store, call("b", 2)) == [("a", False)]
    now = await store.get("a")
    assert (now.body, now.due) == (body(said=2), clock.now + 5)
    assert replace(now, body=first.body, due=first.due, sequence=first.sequence) == first
    assert await store.get("b") is None
    clock.advance(4)
    assert names(await claim(store)) == []
    clock.advance(1)
    claimed = await start(store)
    assert (claimed.id, claimed.body, claimed.due) == ("a", body(said=2), clock.now)


async def test_the_last_task_is_taken_with_its_arguments(store):
    await store.enqueue([call("a"), call("b", 2, task="tell")])
    now = await store.get("a")
    assert (now.task, now.body) == ("tell", body(said=2))


async def test_it_is_never_put_off_longer_than_the_maximum_after_the_first(store, clock):
    first = clock.now
    await store.enqueue([call("a", longest=12.0)])
    for said in range(3):
        clock.advance(4)
        assert await enqueue(store, call(f"b{said}", said, longest=1000.0)) == [("a", False)]
        assert (await store.get("a")).due == min(clock.now + 5, first + 12)
    clock.advance(2)  # nobody has claimed it, and it stays due
    assert await enqueue(store, call("c", 7)) == [("a", False)]
    assert (await store.get("a")).due == first + 12
    assert (await start(store)).body == body(said=7)


async def test_a_batch_with_one_key_is_one_job_with_the_last_call(store, clock):
    answers = await enqueue(store, *(call(f"j{said}", said) for said in range(20)))
    assert answers == [("j0", True)] + [("j0", False)] * 19
    assert (await store.get("j0")).body == body(said=19)
    stats = await store.stats()
    assert sum(lane.ready + lane.delayed for lane in stats.lanes) == 1
    clock.advance(5)
    assert names(await claim(store, demand=10)) == ["j0"]


async def test_keys_are_debounced_apart_by_queue_and_by_name(store):
    others = call("c", unique_key="l"), call("d", queue="other")
    answers = await enqueue(store, call("a"), call("b"), *others)
    assert answers == [("a", True), ("a", False), ("c", True), ("d", True)]


async def test_the_key_is_free_at_the_first_start(store, clock):
    await store.enqueue([call("a", 1)])
    clock.advance(5)
    running = await start(store)
    assert await enqueue(store, call("b", 2)) == [("b", True)]
    assert (await store.get("a")).body == body(said=1)
    assert await enqueue(store, call("c", 3)) == [("b", False)]
    assert await store.commit([done(running)]) == ["written"]
    assert await enqueue(store, call("d", 4)) == [("b", False)]
    assert (await store.get("b")).body == body(said=4)


@pytest.mark.parametrize("outcome", ["again", "later", "dead", "replayed"])
async def test_the_key_stays_free_whatever_becomes_of_the_first_attempt(store, clock, outcome):
    await store.enqueue([call("a", 1)])
    clock.advance(5)
    running = await start(store)
    ends = {"again": again(running, 9.0), "later": Later(running.lease, 9.0)}
    await store.commit([ends.get(outcome, dead(running))])
    if outcome == "replayed":
        assert await store.replay(["a"]) == [True]
    assert await enqueue(store, call("b", 2)) == [("b", True)]
    assert (await store.get("a")).body == body(said=1)
    if outcome == "dead":
        assert await store.replay(["a"]) == [True], "it does not want its key back"
    assert await enqueue(store, call("c", 3)) == [("b", False)]


async def test_what_a_drain_returned_has_not_started(store, clock):
    await store.enqueue([call("a", 1)])
    clock.advance(5)
    running = await start(store)
    await store.commit([Returned(running.lease)])
    assert await enqueue(store, call("b", 2)) == [("a", False)]
    assert (await store.get("a")).due == clock.now + 5
    clock.advance(5)
    assert (await start(store)).body == body(said=2)


async def test_what_a_drain_returned_after_its_key_was_taken_runs_beside_the_new_one(store, clock):
    await store.enqueue([call("a", 1)])
    clock.advance(5)
    running = await start(store)
    await store.enqueue([call("b", 2)])
    await store.commit([Returned(running.lease)])
    assert await enqueue(store, call("c", 3)) == [("b", False)]
    clock.advance(5)
    assert sorted(names(await claim(store, demand=5))) == ["a", "b"]


async def test_a_call_that_is_for_one_job_alone_is_taken_over_by_no_other(store, clock):
    await store.enqueue([call("a", 1)])
    before = await store.get("a")
    clock.advance(1)
    assert await enqueue(store, call("b", 2, debounces="b")) == [("a", False)]
    assert await store.get("a") == before
    assert await enqueue(store, call("b", 3, debounces="a")) == [("a", False)]
    now = await store.get("a")
    assert (now.body, now.due) == (body(said=3), clock.now + 5)


async def test_a_call_that_is_for_a_job_that_has_started_is_a_job_by_itself(store, clock):
    await store.enqueue([call("a", 1)])
    clock.advance(5)
    running = await start(store)
    assert await enqueue(store, call("b", 2, debounces="a")) == [("b", True)]
    assert (await store.get("a")).body == running.body == body(said=1)
    assert await enqueue(store, call("c", 3, debounces="a")) == [("b", False)]
    assert (await store.get("b")).body == body(said=2)


async def test_of_a_batch_each_call_says_by_itself_who_takes_it_over(store):
    own = [call(name, said, debounces=name) for said, name in enumerate("abc")]
    other = [call("d", 3, debounces="a"), call("e", 4, debounces="b")]
    assert await enqueue(store, *own, *other) == [("a", True)] + [("a", False)] * 4
    assert (await store.get("a")).body == body(said=3)


async def test_a_cancelled_one_frees_its_key(store):
    await store.enqueue([call("a", 1)])
    await store.cancel(["a"], "enough")
    assert await enqueue(store, call("b", 2)) == [("b", True)]


async def test_a_plain_job_of_the_key_neither_debounces_nor_is_debounced(store, clock):
    await store.enqueue([call("a", 1)])
    due = (await store.get("a")).due
    clock.advance(1)
    assert await enqueue(store, job("b", unique_key="k")) == [("a", False)]
    now = await store.get("a")
    assert (now.body, now.due) == (body(said=1), due)
    await store.enqueue([job("c", unique_key="l")])
    assert await enqueue(store, call("d", 2, unique_key="l")) == [("c", False)]
    assert (await store.get("c")).body == body()
    clock.advance(5)
    await start(store)
    await start(store)
    assert await enqueue(store, job("e", unique_key="k")) == [("e", True)]
    assert await enqueue(store, call("f", 3)) == [("e", False)]


async def test_a_shorter_wait_may_bring_the_start_forward(store, clock):
    await store.enqueue([call("a", 1, delay=50.0, longest=500.0)])
    await store.enqueue([call("b", 2, delay=2.0)])
    assert (await store.get("a")).due == clock.now + 2
    clock.advance(2)
    assert names(await claim(store)) == ["a"]


async def test_its_position_among_others_is_that_of_its_last_enqueue(store, clock):
    await store.enqueue([call("a"), job("x", delay=5.0)])
    await store.enqueue([call("b", 2)])
    clock.advance(5)
    assert names(await claim(store, demand=2)) == ["x", "a"]


async def test_one_that_is_due_and_waits_for_a_limit_is_put_off_as_any_other(store, clock):
    await store.set_limit("k", Limit(concurrency=1), declared=True)
    [running] = await begin(store, job("r", limits=ONE))
    await store.enqueue([call("a", 1, limits=ONE)])
    clock.advance(5)
    assert names(await claim(store)) == []
    assert (await store.get("a")).waits_for == "k"
    await store.enqueue([call("b", 2)])
    now = await store.get("a")
    assert (now.waits_for, now.due, now.body) == (None, clock.now + 5, body(said=2))
    await store.commit([done(running)])
    assert names(await claim(store)) == []
    clock.advance(5)
    assert (await start(store)).body == body(said=2)


async def test_one_that_expires_counts_from_the_first(store, clock):
    await store.enqueue([call("a", 1, expires=20.0)])
    clock.advance(17)
    await store.enqueue([call("b", 2, expires=20.0)])
    clock.advance(3)
    assert await store.promote(10) == 1
    assert (await store.get("a")).status == "cancelled"
    assert await enqueue(store, call("c", 3)) == [("c", True)]


async def test_a_sent_again_enqueue_is_answered_as_before(store):
    await store.enqueue([call("a", 1), call("b", 2)])
    assert await enqueue(store, call("a", 1)) == [("a", False)]
    assert (await store.get("a")).body == body(said=2)


async def test_a_purged_one_leaves_its_key(store, clock):
    await store.enqueue([call("a", 1)])
    clock.advance(5)
    await store.commit([dead(await start(store))])
    assert await store.purge(["a"]) == [True]
    assert await enqueue(store, call("b", 2), call("c", 3)) == [("b", True), ("b", False)]


async def test_an_adopted_one_is_debounced_on(store, clock):
    other = MemoryStore(clock=clock)
    await other.enqueue([call("a", 1)])
    assert await store.adopt(await adopted_from(other, "a")) == [True]
    assert (await store.get("a")).debounce_until == clock.now + 60
    clock.advance(1)
    assert await enqueue(store, call("b", 2)) == [("a", False)]
    assert (await store.get("a")).body == body(said=2)
    assert (await store.get("a")).due == clock.now + 5


async def test_none_is_lost_when_several_of_a_key_are_adopted(store, clock):
    other = MemoryStore(clock=clock)
    await other.enqueue([call("a", 1)])
    clock.advance(5)
    await start(other)
    await other.enqueue([call("b", 2)])
    assert await store.adopt(await adopted_from(other, "a", "b")) == [True, True]
    clock.advance(5)
    assert sorted(names(await claim(store, demand=5))) == ["a", "b"]


async def test_sleepers_learn_of_a_start_that_was_brought_forward(store, clock):
    await store.enqueue([call("a", 1, delay=500.0, longest=5000.0)])
    claimed = await claim(store, FRESH, worker=ANN)
    assert claimed.again_in == 500.0
    await store.enqueue([call("b", 2, delay=0.001)])
    await store.wait(ANN, 30.0)
    clock.advance(1)
    assert names(await claim(store, FRESH, worker=ANN)) == ["a"]
