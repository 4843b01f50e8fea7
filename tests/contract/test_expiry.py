"""Jobs that did not start in time are dropped, and the reason kept."""

from tests.contract.builders import (
    again,
    begin,
    claim,
    done,
    job,
    names,
    start,
)


async def test_an_expired_job_is_dropped_instead_of_started(store, clock):
    await store.enqueue([job("late", expires=5.0), job("b")])
    assert (await store.get("late")).expires_at == clock.now + 5
    clock.advance(5)
    assert names(await claim(store, demand=5)) == ["b"]
    stored = await store.get("late")
    assert (stored.status, stored.ended_at) == ("cancelled", clock.now)
    assert stored.cancel_reason == "expired before it could start"


async def test_a_job_that_starts_in_time_may_outlive_its_expiry(store, clock):
    [first] = await begin(store, job("a", expires=5.0))
    clock.advance(10)
    await store.promote(100)
    assert (await store.get("a")).status == "processing"
    await store.commit([again(first)])
    clock.advance(10)
    await store.promote(100)
    assert await store.commit([done(await start(store))]) == ["written"]


async def test_promotion_ends_what_expired_while_nobody_looked(store, clock):
    await store.enqueue(
        [job("late", expires=5.0, delay=60.0, unique_key="k"), job("b", expires=6.0)]
    )
    clock.advance(5)
    await store.promote(100)
    assert (await store.get("late")).status == "cancelled"
    assert (await store.get("b")).status == "pending"
    assert await store.enqueue([job("c", unique_key="k")]) == [("c", True)]


async def test_promotion_ends_first_what_expired_first_and_came_first(store, clock):
    expires = {"a": 7.0, "b": 5.0, "c": 6.0, "d": 5.0}
    await store.enqueue([job(name, expires=seconds) for name, seconds in expires.items()])
    clock.advance(10)
    ended = []
    while await store.promote(1):
        ended += [n for n in expires if n not in ended and (await store.get(n)).ended_at]
    assert ended == ["b", "d", "c", "a"]
