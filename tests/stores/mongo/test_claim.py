"""Claims on MongoDB: races, deep lanes, standing back."""

import asyncio
import itertools
from collections import Counter

import pytest
from msgspec.structs import replace

from mulligan.core.job import Lease
from mulligan.core.lane import Lane
from mulligan.core.limits import Limit
from mulligan.core.outcome import Returned
from mulligan.core.plan import Cap
from mulligan.core.worker import Worker
from tests.contract.builders import (
    ANN,
    BOB,
    FRESH,
    RETRY,
    body,
    claim,
    done,
    group,
    in_turn,
    job,
    jobs,
    names,
    source,
    start,
)
from tests.history import InMemory, check, recorded
from tests.store_kit import handle
from tests.stores.mongo.steps import pop, put_back

ONE_AT_A_TIME = Limit(concurrency=1)


async def test_claims_that_race_take_each_job_once_and_never_pass_a_gate(store, another, clock):
    await store.set_limit("k*", ONE_AT_A_TIME, declared=True)
    await store.enqueue([job(f"j{n}", limits=f'{{"k{n % 3}":1}}') for n in range(30)])
    gate = source(FRESH, Cap("cap", 5))
    handles = [store, another]
    workers = [Worker(f"w{n}") for n in range(6)]
    await claim(store, Lane("none", "default", 0), worker=workers[0])
    taken: list[str] = []
    for _ in range(100):
        rounds = await asyncio.gather(
            *(claim(handles[n % 2], gate, demand=4, worker=w) for n, w in enumerate(workers))
        )
        claims = [each for got in rounds for each in got.claims]
        if not claims and len(taken) == 30:
            break
        assert len(claims) <= 3, "a limit admits one at a time"
        taken += [each.id for each in claims]
        await store.commit([done(each) for each in claims])
    assert Counter(taken) == Counter(f"j{n}" for n in range(30))


async def test_what_a_claim_by_an_outdated_plan_gave_back_may_be_returned_once_more(
    store, another, between
):
    """A worker that was stopped within such a claim is told that it forgot what it took."""
    journal = InMemory()
    history = recorded(store, journal)
    await history.beat(ANN, [])
    await history.enqueue([job("a")])
    plan = replace(in_turn(1, group(FRESH)), epoch=(await store.facts()).epoch)
    taken: list[Lease] = []

    async def outdate():
        taken.append(Lease("a", (await another.get("a")).token))
        await another.pause("elsewhere", paused=True)

    between(outdate)
    claimed = await history.claim(plan, ANN)
    assert (claimed.claims, claimed.stale) == ([], True)
    assert await history.commit([Returned(taken[0])]) == ["already"]
    assert (await start(history)).id == "a"
    assert check(journal.events) == []


async def test_a_large_body_comes_with_its_claim_as_a_small_one_does(store):
    large, small = body(text="x" * 100_000), body(text="x")
    await store.enqueue([job("large", body=large), job("small", body=small)])
    claims = (await claim(store, demand=2)).claims
    assert [(each.id, each.body) for each in claims] == [("large", large), ("small", small)]


async def test_a_job_that_another_program_had_since_it_was_read_is_read_again(
    store, tasks, clock, monkeypatch
):
    await store.enqueue(jobs("a"))
    write = store._connection.apply

    async def too_late(changes, stamp=None):
        monkeypatch.undo()
        pop(tasks, clock.now)
        put_back(tasks, "a", clock.now, 0)
        return await write(changes, stamp)

    monkeypatch.setattr(store._connection, "apply", too_late)
    claimed = await start(store, FRESH, RETRY)
    assert claimed.retry_count == 1


async def test_a_deep_lane_is_emptied_in_its_order_whatever_joins_it_meanwhile(store, clock):
    stands: list[tuple[float, int, str]] = []
    order = itertools.count()

    async def join(name, delay=0.0):
        await store.enqueue([job(name, delay=delay)])
        stands.append((clock.now + delay, next(order), name))

    for number in range(30):
        await join(f"early-{number}")
        clock.advance(number % 3)
    for number in range(15):
        due = sorted(each for each in stands if each[0] <= clock.now)
        claims = (await claim(store, demand=3)).claims
        assert [each.id for each in claims] == [name for _, _, name in due[:3]]
        await store.commit([Returned(claims[0].lease), *map(done, claims[1:])])
        stands = [each for each in stands if each not in due[1:3]]
        await join(f"late-{number}", delay=float(number % 4))
        clock.advance(number % 2)


async def test_what_every_claim_reads_does_not_grow_with_the_lanes_of_others(store, database):
    meta = database["tasks_meta"]
    before = meta.find_one({"_id": "facts"})
    await store.enqueue([job(f"{n}", queue=f"q{n}") for n in range(50)])
    assert meta.find_one({"_id": "facts"}) == before


async def test_a_claim_finds_a_lane_that_another_process_was_first_to_use(store_url, store, clock):
    assert (await claim(store)).claims == []
    async with handle(store_url, clock) as other:
        await other.enqueue(jobs("a"))
    assert names(await claim(store)) == ["a"]


async def test_a_lane_deeper_than_a_claim_looks_is_taken_in_order(store, clock, monkeypatch):
    monkeypatch.setattr("mulligan.stores.mongo.reach.FURTHER", 2)
    batches = [[f"{batch}{n:02}" for n in range(15)] for batch in "abcd"]
    for batch in batches:
        await store.enqueue(jobs(*batch))
        clock.advance(1)
    await store.enqueue(jobs("late", delay=3600.0))
    claimed = [names(await claim(store, demand=6)) for _ in range(10)]
    assert list(itertools.chain(*claimed)) == list(itertools.chain(*batches))
    assert names(await claim(store, demand=6)) == []


def beaten_once(store, by):
    """Let another be quicker, after the next claim has read and before it writes."""
    leases = store._claimer.leases
    hand_over = leases.hand_over

    async def too_late(wanted, *rest):
        leases.hand_over = hand_over
        assert len((await claim(by, demand=len(wanted), worker=BOB)).claims) == len(wanted)
        return await hand_over(wanted, *rest)

    leases.hand_over = too_late


async def test_a_claim_that_lost_stands_back_for_a_second(store, another, clock):
    await store.enqueue(jobs(*"abcdefghijkl"))
    beaten_once(store, by=another)
    assert names(await claim(store, demand=2)) == ["e", "f"], "a and b are gone, c and d left"
    assert names(await claim(another, demand=1, worker=BOB)) == ["c"]
    clock.advance(1)
    assert names(await claim(store, demand=2)) == ["d", "g"]


async def test_who_stands_back_in_one_lane_does_not_in_another(store, another):
    await store.enqueue([*jobs(*"abcdefghij"), *jobs("x", "y", "z", queue="other")])
    beaten_once(store, by=another)
    assert names(await claim(store, demand=2)) == ["e", "f"]
    assert names(await claim(store, FRESH._replace(queue="other"), demand=2)) == ["x", "y"]
    assert names(await claim(store, FRESH._replace(queue="empty"), demand=2)) == []
    assert names(await claim(store, demand=2)) == ["g", "h"]


async def test_claims_that_lose_again_and_again_take_what_is_first_once_a_second(
    store, another, clock
):
    await store.enqueue(jobs(*(f"{n:02}" for n in range(40))))
    for _ in range(3):
        beaten_once(store, by=another)
        await claim(store)
        clock.advance(0.4)
    first = (await claim(another, worker=BOB)).claims[0]
    await store.commit([Returned(first.lease)])
    assert names(await claim(store)) == [first.id]


@pytest.mark.parametrize("behind", [{}, {"delay": 10.0}])
async def test_a_claim_stands_back_only_where_it_gets_all_it_wants(store, another, behind):
    await store.enqueue(jobs(*"abcd"))
    await store.enqueue(jobs(*"efgh" if behind else "e", **behind))
    beaten_once(store, by=another)
    assert names(await claim(store, demand=2)) == ["c", "d"]
