"""Limits in a home of their own: exact there, listed with the others, and never in two shards."""

import pytest

from mulligan.core.errors import InvalidError, ShardAwayError
from mulligan.core.job import Adopted
from mulligan.core.limits import Limit
from mulligan.core.outcome import Limited, LimitUse
from mulligan.core.reschedule import Reschedule
from mulligan.core.shards import tagged
from mulligan.stores.shards import connection
from tests.contract.builders import claim, done, job, jobs, start
from tests.stores.shards.kit import Switched, spread

IN_TWO = Limit(concurrency=2, home=2)


def spent(held, *costs, pauses=()):
    """The outcome of an attempt that charges limits and pauses some."""
    outcome = done(held)
    return type(outcome)(outcome.lease, b"1", use=LimitUse(costs, pauses))


def homes(views):
    """The home of each limit in force."""
    return [view.in_force.home for view in views]


@pytest.fixture
async def homed(store):
    """The store with a limit in shard 0, one in shard 2, and a family there."""
    await store.set_limit("api", Limit(concurrency=2), declared=True)
    await store.set_limit("b", IN_TWO, declared=True)
    await store.set_limit("t:*", Limit(rate=5, per=60, home=2), declared=True)
    return store


async def test_jobs_live_in_the_home_of_their_limit_which_holds(homed, shards):
    await homed.enqueue(jobs(*(tagged("j", n) for n in range(4)), limits='{"b":1}'))
    assert [len(shard.jobs) for shard in shards] == [0, 0, 4, 0]
    claims = (await claim(homed, demand=10)).claims
    assert len(claims) == 2
    assert await homed.commit([done(each) for each in claims]) == ["written"] * 2
    assert len((await claim(homed, demand=10)).claims) == 2


async def test_all_limits_are_listed_once_by_name_from_their_homes(homed):
    await homed.enqueue([job("0_x", limits='{"t:acme":1}'), job("0_y", limits='{"api":1}')])
    assert len((await claim(homed, demand=10)).claims) == 2
    views = await homed.limits(10)
    assert [view.name for view in views] == ["api", "b", "t:*", "t:acme"]
    assert [view.running for view in views] == [1, 0, 0, 1]
    assert homes(views) == [0, 2, 2, 2]
    assert [view.name for view in await homed.limits(2)] == ["api", "b"]


async def test_operators_change_a_limit_in_its_home(homed, shards):
    await homed.set_limit("b", Limit(concurrency=1), declared=False)
    await homed.set_limit("t:acme", Limit(rate=9, home=0), declared=False)
    await homed.pause_limit("b", 60.0)
    await homed.spend("t:acme", 3)
    _, b, _, acme = await homed.limits(10)
    assert (b.stored.set, b.paused_until is None) == (Limit(concurrency=1, home=2), False)
    assert (acme.in_force, acme.used) == (Limit(rate=9, home=2), 3)
    await homed.set_limit("b", None, declared=False)
    assert (await homed.limits(10))[1].in_force == IN_TWO
    assert set(shards[0].store.state.limits.stored) == {"api"}


async def test_a_job_charges_and_pauses_limits_of_every_home_once(homed, shards):
    await homed.enqueue([job("2_a"), job("1_b")])
    for _ in range(2):
        held = await start(homed)
        use = [("t:acme", 3), ("api", 1)], [("b", 60.0), ("api", 5.0)]
        said = spent(held, *use[0], pauses=tuple(use[1]))
        assert await homed.commit([said]) == ["written"]
        assert await homed.commit([said]) == ["already"]
    api, b, _, acme = await homed.limits(10)
    assert (acme.used, b.paused_until is None, api.paused_until is None) == (6, False, False)
    assert [sorted(shard.store.state.limits.states) for shard in shards] == [
        ["api"], [], ["b", "t:acme"], [],
    ]  # fmt: skip


async def test_limits_of_two_homes_are_refused_before_anything_is_written(homed, shards):
    with pytest.raises(InvalidError, match="give both the same home="):
        await homed.enqueue([job("1_fine"), job("0_a", limits='{"api":1,"b":1}')])
    assert [shard.jobs for shard in shards] == [[]] * 4


async def test_a_limit_does_not_move_whoever_declares_it(homed, shards, clock):
    other = spread(clock, *shards)
    await other.open()
    with pytest.raises(InvalidError, match="'b' lives in shard 2, and is declared with home=1"):
        await other.set_limit("b", Limit(concurrency=2, home=1), declared=True)
    with pytest.raises(InvalidError, match="a family and what it covers live together"):
        await other.set_limit("t:acme", Limit(concurrency=2, home=1), declared=True)
    with pytest.raises(InvalidError, match="'api' lives in shard 0"):
        await other.set_limit("api", Limit(concurrency=2, home=1), declared=True)
    assert len(await other.limits(10)) == 3


async def test_who_did_not_declare_a_limit_knows_its_home(store, shards, clock):
    other = spread(clock, *shards)
    await other.open()
    await store.set_limit("b", IN_TWO, declared=True)
    await other.enqueue([job("0_a", limits='{"b":1}')])
    assert shards[2].jobs == ["0_a"]


async def test_two_processes_that_declare_at_once_agree(store, shards, clock):
    other = spread(clock, *shards)
    await other.open()
    first = shards[0].store.reschedule

    async def overtaken(change):
        shards[0].store.reschedule = first
        await other.set_limit("c", Limit(concurrency=1, home=3), declared=True)
        return await first(change)

    shards[0].store.reschedule = overtaken
    await store.set_limit("b", IN_TWO, declared=True)
    assert homes(await store.limits(9)) == [2, 3]
    assert homes(await other.limits(9)) == [2, 3]


async def test_a_home_that_is_no_shard_is_refused(store):
    with pytest.raises(InvalidError, match="home=4, and there are 4 shards, from 0; say one below"):
        await store.set_limit("b", Limit(concurrency=1, home=4), declared=True)


async def test_a_limit_of_an_app_that_had_one_store_stays_in_the_first(shards, clock):
    await shards[0].store.set_limit("b", IN_TWO, declared=True)
    spread_out = spread(clock, *shards)
    await spread_out.open()
    with pytest.raises(InvalidError, match="'b' is kept in shard 0 already"):
        await spread_out.set_limit("b", IN_TWO, declared=True)


async def test_a_list_that_grows_moves_no_limit_and_new_ones_live_in_new_shards(
    homed, shards, clock
):
    more = [*shards, *(Switched(clock) for _ in range(4))]
    grown = spread(clock, *more)
    await grown.open()
    await grown.set_limit("new", Limit(concurrency=1, home=7), declared=True)
    await grown.enqueue([job("5_a", limits='{"b":1}'), job("5_b", limits='{"new":1}')])
    assert (more[2].jobs, more[7].jobs) == (["5_a"], ["5_b"])


async def test_a_schedule_of_a_call_with_limits_of_another_home_is_refused(homed):
    tick = job("hourly@1", limits='{"b":1}')
    with pytest.raises(InvalidError, match="names limits of shard 2, and schedules live in shard"):
        await homed.reschedule(Reschedule("hourly", None, b"{}", place=(tick,)))
    tick = job("hourly@1", limits='{"api":1}')
    assert await homed.reschedule(Reschedule("hourly", None, b"{}", place=(tick,)))
    assert await homed.schedules() == {"hourly": b"{}"}


async def test_a_job_of_another_program_gets_limits_in_their_home_only(homed, shards):
    for number in (1, 2):
        await homed.enqueue([job(tagged("j", number))])
        held = await start(homed)
        await homed.commit([Limited(held.lease, '{"b":1}', None)])
    assert (await homed.get("2_j")).status == "pending"
    cancelled = await homed.get("1_j")
    assert cancelled.status == "cancelled"
    assert "limits, which live in shard 2" in cancelled.cancel_reason


async def test_jobs_of_another_store_are_adopted_into_the_home_of_their_limits(homed, shards):
    await homed.enqueue([job("2_a", limits='{"b":1}')])
    stored = await homed.get("2_a")
    await homed.cancel(["2_a"], "to be adopted")
    await homed.purge(["2_a"])
    assert await homed.adopt([Adopted(stored, ())]) == [True]
    assert shards[2].jobs == ["2_a"]


async def test_while_a_home_is_away_other_limits_go_on_and_it_learns_what_it_missed(
    homed, shards, monkeypatch
):
    monkeypatch.setattr(connection, "FIRST_LOOK", 0.0)
    shards[2].down = True
    await homed.set_limit("b", Limit(concurrency=7, home=2), declared=True)
    await homed.enqueue([job("1_a", limits='{"api":1}')])
    assert [each.id for each in (await claim(homed, demand=9)).claims] == ["1_a"]
    assert [view.name for view in await homed.limits(9)] == ["api"]
    for refused in (
        homed.set_limit("b", Limit(concurrency=1), declared=False),
        homed.pause_limit("b", 5.0),
        homed.enqueue([job("1_b", limits='{"b":1}')]),
    ):
        with pytest.raises(ShardAwayError, match="shard 2"):
            await refused
    shards[2].down = False
    await homed.enqueue([job("1_b", limits='{"b":1}')])
    assert (await homed.limits(9))[1].in_force == Limit(concurrency=7, home=2)


async def test_doctor_says_where_limits_live(homed):
    assert "limits live in shards 0, 2" in [each.sentence for each in await homed.doctor()]
