"""Jobs that are spread over shards: found, run once, kept with what belongs to them, and listed."""

from collections import Counter

import pytest
from msgspec.structs import replace

from mulligan.core.errors import InvalidError, UnknownJobError
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import Capped
from mulligan.core.limits import Limit
from mulligan.core.outcome import LimitUse
from mulligan.core.page import Selection
from mulligan.core.record import Record, Recording
from mulligan.core.reschedule import Reschedule
from mulligan.core.schedule import Schedule, template
from mulligan.core.shards import tagged
from mulligan.core.ticks import put
from mulligan.core.worker import Worker
from tests.contract.builders import (
    ANN,
    BOB,
    FRESH,
    RETRY,
    again,
    claim,
    dead,
    done,
    in_turn,
    job,
    jobs,
    names,
    run_by_policy,
    source,
    start,
    walk,
)
from tests.contract.builders import group as one_group
from tests.stores.shards.kit import spread

MANY = [f"job-{number}" for number in range(40)]


async def test_jobs_are_spread_and_each_is_claimed_once(store, shards):
    await store.enqueue(jobs(*MANY))
    assert all(3 <= len(shard.jobs) <= 20 for shard in shards)
    claims = [each for _ in range(10) for each in (await claim(store, demand=5)).claims]
    assert sorted(each.id for each in claims) == sorted(MANY)
    assert await store.commit([done(each) for each in claims]) == ["written"] * 40
    assert await store.commit([done(each) for each in claims]) == ["already"] * 40
    assert (await store.stats()).ended == {("default", "done"): 40}


async def test_an_id_that_names_its_shard_is_stored_there(store, shards):
    await store.enqueue(jobs(*(tagged("j", number) for number in range(4))))
    assert [shard.jobs for shard in shards] == [["0_j"], ["1_j"], ["2_j"], ["3_j"]]


async def test_shards_with_work_are_claimed_from_in_turn(store):
    await store.enqueue(jobs(*(tagged(f"j{n}", shard) for shard in range(4) for n in range(9))))
    first = [names(await claim(store))[0][0] for _ in range(12)]
    assert Counter(first) == {"0": 3, "1": 3, "2": 3, "3": 3}


async def test_a_unique_key_is_held_once_whatever_the_ids(store):
    answers = [await store.enqueue([job(f"j{n}", unique_key="k")]) for n in range(20)]
    assert [each[0].id for each in answers] == ["j0"] * 20
    assert sum(each[0].created for each in answers) == 1


async def test_a_job_that_is_not_where_its_id_says_is_found_by_another_process(
    store, shards, clock
):
    await store.enqueue([job("3_a", unique_key="k"), job("3_b", limits='{"api":1}')])
    assert shards[3].jobs == []
    other = spread(clock, *shards)
    await other.open()
    for name in ("3_a", "3_b"):
        found = await other.get(name)
        assert found is not None
        assert await other.ahead(name) == 0
        assert await other.shard_of(name) == await store.shard_of(name)
    held = (await claim(other, demand=5)).claims
    third = spread(clock, *shards)
    await third.open()
    beat = await third.beat(ANN, [each.lease for each in held])
    assert beat.lost == []
    assert await third.record(
        [Recording(each.lease, (Record("log", 1, b'"x"'),)) for each in held]
    ) == ["recorded", "recorded"]
    fourth = spread(clock, *shards)
    await fourth.open()
    assert await fourth.commit([again(each) for each in held]) == ["written", "written"]
    fifth = spread(clock, *shards)
    await fifth.open()
    assert [len(await fifth.history(each.id)) for each in held] == [1, 1]
    assert [len(await fifth.records(each.id)) for each in held] == [1, 1]
    assert await fifth.cancel(["3_a", "3_b", "3_c"], "no more") == [True, True, False]


async def test_a_lease_that_is_lost_is_told_and_a_stale_commit_stays_stale(store, clock):
    await store.enqueue(jobs("a", "b", "c"))
    claims = (await claim(store, demand=3)).claims
    clock.advance(20)
    taken = await store.reclaim(10, BOB)
    assert sorted(each.id for each in taken) == ["a", "b", "c"]
    beat = await store.beat(ANN, [each.lease for each in claims])
    assert sorted(each.job for each in beat.lost) == ["a", "b", "c"]
    assert await store.commit([done(each) for each in claims]) == ["stale"] * 3


async def test_members_are_with_their_gather_and_the_last_lets_it_go(store, shards):
    members = [job(f"m{n}", gather="g", gather_index=n) for n in range(6)]
    await store.enqueue([job("g", awaits=6), *members])
    assert sorted(map(len, (shard.jobs for shard in shards))) == [0, 0, 0, 7]
    for _ in range(6):
        await store.commit([done(await start(store), b"1")])
    assert names(await claim(store)) == ["g"]
    assert await store.arrivals("g") == dict.fromkeys(range(6), b"1")


async def test_what_follows_is_in_the_shard_of_the_first(store, shards):
    await store.enqueue([job("2_a")])
    await store.commit([done(await start(store), b"1", job("2_a.2"))])
    assert shards[2].jobs == ["2_a", "2_a.2"]
    assert (await store.get("2_a.2")) is not None


async def test_jobs_with_limits_are_in_the_home_of_limits_which_holds(store, shards):
    await store.set_limit("api", Limit(concurrency=2), declared=True)
    await store.enqueue(jobs(*(tagged("j", n) for n in range(4)), limits='{"api":1}'))
    assert len(shards[0].jobs) == 4
    assert len((await claim(store, demand=10)).claims) == 2
    [view] = await store.limits(10)
    assert (view.running, view.waiting) == (2, 2)


async def test_a_job_of_another_shard_charges_and_pauses_limits_in_their_home(store):
    await store.set_limit("api", Limit(concurrency=2), declared=True)
    await store.set_limit("tokens", Limit(rate=100, per=60), declared=True)
    await store.enqueue([job("3_a"), job("3_b")])
    for pause in (60.0, 5.0):
        held = await start(store)
        outcome = done(held)
        await store.commit(
            [
                type(outcome)(
                    outcome.lease,
                    b"1",
                    use=LimitUse(spent=(("tokens", 3),), pauses=(("api", pause),)),
                )
            ]
        )
    [view, tokens] = await store.limits(10)
    assert tokens.used == 6
    assert view.paused_until == (await store.facts()).now + 60


async def test_a_cap_is_divided_and_never_exceeded(store):
    settings = QueueSettings(Capped(6))
    await store.configure("default", settings)
    await store.enqueue(jobs(*(tagged(f"j{n}", shard) for shard in range(4) for n in range(5))))
    claims = (await claim(store, FRESH, demand=20)).claims
    await store.commit([again(each) for each in claims])
    started = [len((await run_by_policy(store, 20)).claims) for _ in range(3)]
    assert sum(started) == 6


async def test_a_pause_and_a_policy_hold_in_every_shard_at_once(store):
    await store.enqueue(jobs(*(tagged("j", shard) for shard in range(4))))
    await claim(store, demand=0)
    facts = await store.facts()
    await store.pause("default", paused=True)
    plan = in_turn(9, one_group(source(FRESH)))
    stale = await store.claim(type(plan)(9, plan.groups, plan.steps, facts.epoch), ANN)
    assert stale.stale
    assert (await store.facts()).paused == {"default"}


async def test_a_breaker_that_opens_has_every_shard_refuse_older_plans(store):
    await claim(store, demand=0)
    before = await store.facts()
    closed = before.health_of("default", "default").breaker
    assert await store.switch("default", "default", closed, type(closed)(open=True))
    epochs = store.shards.memory.epochs
    after = await store.facts()
    assert all(
        new > old for new, old in zip(epochs[after.epoch], epochs[before.epoch], strict=True)
    )


async def test_pages_list_every_job_once_newest_first(store, clock):
    for number in range(23):
        await store.enqueue([job(tagged(f"{number:02}", number * 7 % 4))])
        clock.advance(1)
    seen: list[str] = []
    after = None
    while True:
        page = await store.page(Selection(), 5, after)
        seen += [each.id.split("_")[1] for each in page.jobs]
        after = page.after
        if after is None:
            break
    assert seen == [f"{number:02}" for number in reversed(range(23))]
    with pytest.raises(InvalidError, match="not where a page ended"):
        await store.page(Selection(), 5, "7")


async def test_reads_are_put_together(store, clock):
    await store.enqueue(jobs(*(tagged("j", n) for n in range(4)), fairness_key="acme"))
    await store.enqueue([job("2_late", delay=60.0)])
    assert await store.depth(FRESH, 3) == 3
    assert await store.depth(FRESH, 10) == 4
    [key] = await store.keys("default", 5)
    assert (key.key, key.waiting) == ("acme", 4)
    assert await store.tail(FRESH, clock() + 100) == "2_late"
    assert await store.tail(RETRY, clock()) is None
    stats = await store.stats()
    assert [(each.ready, each.delayed) for each in stats.lanes] == [(4, 1)]
    assert [each.waiting for each in stats.shards] == [1, 1, 2, 1]
    with pytest.raises(UnknownJobError):
        await store.ahead("nobody")


async def test_dead_letters_are_replayed_and_purged_wherever_they_are(store):
    await store.enqueue(jobs(*MANY[:8]))
    claims = (await claim(store, demand=8)).claims
    await store.commit([dead(each) for each in claims])
    assert await store.replay(MANY[:4]) == [True] * 4
    assert await store.purge(MANY[:8]) == [False] * 4 + [True] * 4


async def test_schedules_are_in_the_first_shard_and_the_cards_are_none(store):
    change = Reschedule("daily", None, b"{}", place=(job("daily@1"),))
    assert await store.reschedule(change)
    assert await store.schedules() == {"daily": b"{}"}
    assert (await store.get("daily@1")) is not None
    keyed = Reschedule("keyed", None, b"{}", place=(job("keyed@1", unique_key="k"),))
    with pytest.raises(InvalidError, match="leave unique_key away"):
        await store.reschedule(keyed)


async def test_a_schedule_whose_ticks_could_not_be_placed_is_refused_before_it_is_stored(
    store, clock
):
    keyed = Schedule("keyed", *template(job("x", unique_key="k")), every=60.0)
    with pytest.raises(InvalidError, match="leave unique_key away"):
        await store.reschedule(put(None, keyed, clock.now))
    await store.set_limit("elsewhere", Limit(concurrency=1, home=1), declared=True)
    limited = Schedule("limited", *template(job("x", limits='{"elsewhere":1}')), every=60.0)
    with pytest.raises(InvalidError, match="its call names limits of shard 1"):
        await store.reschedule(put(None, limited, clock.now))
    assert await store.schedules() == {}
    assert await store.reschedule(put(None, replace(limited, paused=True), clock.now))


async def test_workers_of_a_new_region_are_refused_once_in_all_shards(store):
    plan = in_turn(1, one_group(source(FRESH)))
    assert (await walk(store, plan, Worker("eve-1", "EU"))).claims == []
    assert [region.name for region in (await store.facts()).regions] == ["EU"]


async def test_retries_and_fresh_jobs_share_each_shard_though_a_worker_takes_one_at_a_time(store):
    await store.enqueue(jobs(*(tagged(f"a{n}", shard) for shard in range(2) for n in range(6))))
    claims = (await claim(store, FRESH, demand=20)).claims
    await store.commit([again(each) for each in claims])
    await store.enqueue(jobs(*(tagged(f"b{n}", shard) for shard in range(2) for n in range(6))))
    kinds: dict[str, list[bool]] = {"0": [], "1": []}
    for _ in range(8):
        [taken] = (await run_by_policy(store, 1)).claims
        kinds[taken.id[0]].append(taken.retry_count > 0)
    assert {shard: sum(retries) for shard, retries in kinds.items()} == {"0": 2, "1": 2}
