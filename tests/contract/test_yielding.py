"""A source that yields waits only while another worker sleeps that may take from it sooner."""

from msgspec.structs import replace

from mulligan.core.lane import Lane
from tests.contract.builders import ANN, BOB, claim, group, in_turn, job, names, source
from tests.contract.waits import undisturbed, woken

LANE = Lane("default", "*+ASIA", 1)
FIRST = source(LANE)
SECOND = source(LANE, waited=2.0, yields=True)


def meant_for_asia(name: str = "a", delay: float = 0.0):
    return job(name, region="*+ASIA", priority=1, delay=delay)


async def test_while_nobody_sleeps_who_may_take_it_sooner_it_is_taken_at_once(store):
    await store.enqueue([meant_for_asia()])
    assert names(await claim(store, SECOND, worker=BOB)) == ["a"]


async def test_while_one_sleeps_it_is_left_to_that_one_for_the_grace(store, clock):
    await claim(store, FIRST, worker=ANN)
    await store.enqueue([meant_for_asia()])
    waiting = await claim(store, SECOND, worker=BOB)
    assert (names(waiting), waiting.again_in, waiting.left) == ([], 2.0, (False,))
    clock.advance(2)
    assert names(await claim(store, SECOND, worker=BOB)) == ["a"]


async def test_who_sleeps_behind_the_same_wait_keeps_nobody_back(store):
    await claim(store, SECOND, worker=ANN)
    await store.enqueue([meant_for_asia()])
    assert names(await claim(store, SECOND, worker=BOB)) == ["a"]


async def test_ones_own_sleep_keeps_nobody_back(store):
    both = (FIRST, source(Lane("default", "*+EU", 1), waited=2.0, yields=True))
    await claim(store, *both, worker=BOB)
    await store.enqueue([meant_for_asia()])
    assert names(await claim(store, SECOND, worker=BOB)) == ["a"]


async def test_a_sleeper_that_died_keeps_nobody_back(store, clock):
    await claim(store, FIRST, worker=ANN)
    clock.advance(ANN.lease)
    await store.enqueue([meant_for_asia()])
    assert names(await claim(store, SECOND, worker=BOB)) == ["a"]


async def test_a_sleeper_that_is_back_to_reclaim_after_its_lease_sleeps_on(store, clock):
    await claim(store, FIRST, worker=ANN)
    clock.advance(ANN.lease)
    await store.reclaim(1, ANN)
    await store.enqueue([meant_for_asia()])
    waiting = await claim(store, SECOND, worker=BOB)
    assert (names(waiting), waiting.again_in) == ([], 2.0)


async def test_a_sleeper_that_another_has_found_dead_sleeps_no_longer_when_it_is_back(store, clock):
    await claim(store, FIRST, worker=ANN)
    clock.advance(ANN.lease)
    await store.reclaim(1, BOB)
    await store.reclaim(1, ANN)
    await store.enqueue([meant_for_asia()])
    assert names(await claim(store, SECOND, worker=BOB)) == ["a"]


async def test_a_sleeper_that_is_back_with_an_outdated_plan_sleeps_on(store, clock):
    await claim(store, FIRST, worker=ANN)
    clock.advance(ANN.lease)
    outdated = replace(in_turn(1, group(FIRST)), epoch=-1)
    assert (await store.claim(outdated, ANN)).stale
    await store.enqueue([meant_for_asia()])
    waiting = await claim(store, SECOND, worker=BOB)
    assert (names(waiting), waiting.again_in) == ([], 2.0)


async def test_a_source_that_does_not_yield_waits_in_any_case(store):
    await store.enqueue([meant_for_asia()])
    assert names(await claim(store, source(LANE, waited=2.0), worker=BOB)) == []


async def test_the_first_in_line_is_woken_and_not_the_second(store):
    await claim(store, SECOND, worker=BOB)
    await claim(store, FIRST, worker=ANN)
    await store.enqueue([meant_for_asia(delay=0.05)])
    assert await woken(store, ANN)
    assert await undisturbed(store, BOB)


async def test_without_a_first_in_line_the_second_is_woken_for_the_due_time(store):
    await claim(store, SECOND, worker=BOB)
    await store.enqueue([meant_for_asia(delay=0.05)])
    assert await woken(store, BOB)
    waiting = await claim(store, SECOND, worker=BOB)
    assert (names(waiting), round(waiting.again_in or 0, 6)) == ([], 0.05)


async def test_when_the_first_in_line_fills_up_the_second_is_woken(store):
    await claim(store, FIRST, source(Lane("default", "ASIA", 0)), worker=ANN)
    await store.enqueue([meant_for_asia(delay=5.0)])
    waiting = await claim(store, SECOND, worker=BOB)
    assert waiting.again_in == 7.0
    await store.enqueue([job("other", region="ASIA")])
    full = await claim(store, FIRST, source(Lane("default", "ASIA", 0)), worker=ANN)
    assert names(full) == ["other"]
    assert await woken(store, BOB)
    assert (await claim(store, SECOND, worker=BOB)).again_in == 5.0


async def test_when_the_first_in_line_leaves_the_second_is_woken(store):
    await claim(store, FIRST, worker=ANN)
    await store.enqueue([meant_for_asia(delay=5.0)])
    await claim(store, SECOND, worker=BOB)
    await store.leave(ANN)
    assert await woken(store, BOB)
    assert (await claim(store, SECOND, worker=replace(BOB))).again_in == 5.0
