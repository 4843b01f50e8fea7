"""Many clients at once: what holds for one after the other holds for all together."""

import asyncio
from itertools import chain

from msgspec.structs import replace

from mulligan.core.limits import Limit as NamedLimit
from mulligan.core.plan import Cap, Rate
from tests.contract.builders import (
    ANN,
    BOB,
    FRESH,
    REAPER,
    RETRY,
    again,
    begin,
    claim,
    dead,
    done,
    job,
    jobs,
    names,
    source,
)


async def together(*coroutines):
    return await asyncio.gather(*coroutines)


def crowd(count):
    return [replace(ANN, id=f"worker-{n}") for n in range(count)]


async def test_every_job_is_claimed_exactly_once(store, another):
    await store.beat(ANN, [])
    many = [f"j{n}" for n in range(60)]
    await store.enqueue(jobs(*many))
    handles = [store, another] * 5
    claimed = await together(
        *(
            claim(each, FRESH, demand=7, worker=w)
            for each, w in zip(handles, crowd(10), strict=True)
        )
    )
    assert sorted(chain(*map(names, claimed))) == sorted(many)


async def test_a_gate_is_never_exceeded(store, another):
    await store.beat(ANN, [])
    await store.enqueue(jobs(*(f"j{n}" for n in range(40))))
    gated = source(FRESH, Cap("five", 5), Rate("nine", 9, 60.0))
    for expected in (5, 4, 0):
        pairs = zip([store, another] * 3, crowd(6), strict=True)
        claimed = await together(*(claim(each, gated, demand=3, worker=w) for each, w in pairs))
        taken = list(chain(*(each.claims for each in claimed)))
        assert len(taken) == expected
        await together(*(another.commit([done(each)]) for each in taken))


async def test_a_limit_that_jobs_name_is_never_exceeded(store, another):
    await store.beat(ANN, [])
    await store.set_limit("k", NamedLimit(concurrency=2), declared=True)
    await store.enqueue(jobs(*(f"j{n}" for n in range(12)), limits='{"k":1}'))
    finished = 0
    while finished < 12:
        claimed = await together(
            claim(store, demand=4, worker=ANN), claim(another, demand=4, worker=BOB)
        )
        taken = list(chain(*(each.claims for each in claimed)))
        assert 1 <= len(taken) <= 2
        verdicts = await together(*(store.commit([done(each)]) for each in taken))
        finished += verdicts.count(["written"])


async def test_a_unique_key_has_one_first_job(store, another):
    new = [job(f"j{n}", unique_key="k") for n in range(10)]
    handles = [store, another] * 5
    answers = await together(*(each.enqueue([one]) for each, one in zip(handles, new, strict=True)))
    flat = list(chain(*answers))
    assert sum(answer.created for answer in flat) == 1
    assert len({answer.id for answer in flat}) == 1
    assert len(names(await claim(store, demand=99))) == 1


async def test_an_id_has_one_first_job(store, another):
    answers = await together(*(each.enqueue(jobs("a", "b")) for each in (store, another) * 4))
    assert sum(answer.created for answer in chain(*answers)) == 2


async def test_one_of_many_commits_of_a_lease_is_written(store, another):
    [first] = await begin(store, job("a"))
    verdicts = await together(*(each.commit([again(first)]) for each in (store, another) * 4))
    assert sorted(chain(*verdicts)) == ["already"] * 7 + ["written"]
    stored = await store.get("a")
    assert stored.retry_count == 1
    assert len(await store.history("a")) == 1


async def test_batches_that_cross_each_other_are_all_written(store, another):
    taken = await begin(store, *jobs(*(f"j{n}" for n in range(20))))
    forwards, backwards = [done(each) for each in taken], [done(each) for each in taken[::-1]]
    first, second = await together(store.commit(forwards), another.commit(backwards))
    for one, two in zip(first, second[::-1], strict=True):
        assert sorted((one, two)) == ["already", "written"]


async def test_a_commit_and_a_reclaim_do_not_both_win(store, another, clock):
    taken = await begin(store, *jobs(*(f"j{n}" for n in range(10))))
    clock.advance(ANN.lease)
    verdicts, reclaimed = await together(
        store.commit([done(each) for each in taken]), another.reclaim(10, REAPER)
    )
    lost = {each.id for each in reclaimed}
    for one, verdict in zip(taken, verdicts, strict=True):
        assert verdict == ("stale" if one.id in lost else "written")


async def test_a_commit_and_a_cancel_do_not_both_win(store, another):
    taken = await begin(store, *jobs(*(f"j{n}" for n in range(10))))
    ids = [each.id for each in taken]
    verdicts, cancelled = await together(
        store.commit([done(each) for each in taken]), another.cancel(ids, "enough")
    )
    for verdict, gone in zip(verdicts, cancelled, strict=True):
        assert (verdict, gone) in (("written", False), ("stale", True))


async def test_replays_at_once_make_one(store, another):
    [first] = await begin(store, job("a"))
    await store.commit([dead(first)])
    answers = await together(*(each.replay(["a"]) for each in (store, another) * 3))
    assert sum(chain(*answers)) == 1
    assert names(await claim(store, FRESH, RETRY, demand=9)) == ["a"]
    assert (await store.get("a")).replay == 1
