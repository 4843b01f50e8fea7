"""Facts: what plans are made from, and how a store refuses plans made from older ones."""

from msgspec.structs import replace

from mulligan.core.budget import Budget
from mulligan.core.facts import Facts, QueueSettings, Region
from mulligan.core.fairness import Carry, plan_claim
from mulligan.core.fetch import Balanced, Capped, Fifo, RetryFirst, Separate, Weighted
from tests.contract.builders import (
    ANN,
    BOB,
    FRESH,
    claim,
    done,
    group,
    in_turn,
    job,
    jobs,
    names,
    start,
    used,
)

SERVED = frozenset({"default"})

EU = replace(BOB, region="EU")


async def test_a_new_store_knows_nothing(store):
    facts = await store.facts()
    assert (facts.queues, facts.regions, facts.paused) == ({}, (), frozenset())


async def test_a_region_is_known_from_its_first_worker_on_and_live_while_one_beats(store, clock):
    await store.beat(ANN, [])
    beat = await store.beat(EU, [])
    both = (Region("EU", SERVED), Region("default", SERVED))
    assert beat.facts.regions == both
    assert (await store.facts()).regions == both
    clock.advance(ANN.lease - 1)
    await store.beat(EU, [])
    clock.advance(1)
    assert (await store.facts()).regions == (both[0], Region("default"))


async def test_a_region_whose_last_worker_left_stays_known(store):
    await store.beat(EU, [])
    await store.beat(replace(EU, id="bob-2"), [])
    await store.leave(EU)
    assert (await store.facts()).regions == (Region("EU", SERVED),)
    await store.leave(replace(EU, id="bob-2"))
    assert (await store.facts()).regions == (Region("EU"),)


async def test_the_first_worker_of_a_region_changes_plans_and_later_ones_do_not(store):
    before = (await store.facts()).epoch
    first = (await store.beat(ANN, [])).facts.epoch
    assert first > before
    assert (await store.beat(BOB, [])).facts.epoch == first
    await store.leave(ANN)
    assert (await store.beat(ANN, [])).facts.epoch == first
    assert (await store.beat(EU, [])).facts.epoch > first


async def test_settings_of_every_kind_survive_unchanged(store, another):
    settings = {
        "a": QueueSettings(),
        "b": QueueSettings(Fifo(), None, 0.0),
        "c": QueueSettings(RetryFirst(), Budget(100, 60.0), 2.5),
        "d": QueueSettings(Weighted(0.2), Budget(ratio=0.2)),
        "e": QueueSettings(Capped(7)),
        "f": QueueSettings(Separate(), Budget(9, 0.5)),
        "g": QueueSettings(Balanced(), grace=10.0),
    }
    for queue, each in settings.items():
        await store.configure(queue, each)
    assert (await another.facts()).queues == settings
    assert (await another.beat(ANN, [])).facts.queues == settings


async def test_the_smallest_gates_survive_unchanged(store, another):
    settings = QueueSettings(Capped(1), Budget(1, 0.5))
    await store.configure("a", settings)
    assert (await another.facts()).queues == {"a": settings}


async def test_configuring_again_replaces(store):
    await store.configure("default", QueueSettings(Capped(7)))
    await store.configure("default", QueueSettings(Capped(8)))
    assert (await store.facts()).queues == {"default": QueueSettings(Capped(8))}


async def test_the_epoch_grows_with_every_change_and_with_nothing_else(store):
    epochs = [(await store.beat(ANN, [])).facts.epoch]

    async def changed():
        epochs.append((await store.facts()).epoch)
        return epochs[-1] > epochs[-2]

    await store.configure("default", QueueSettings(Capped(7)))
    assert await changed()
    await store.configure("default", QueueSettings(Capped(7)))
    assert not await changed()
    await store.pause("default", paused=True)
    assert await changed()
    await store.pause("default", paused=True)
    assert not await changed()
    await store.pause("default", paused=False)
    assert await changed()
    await store.enqueue(jobs("a"))
    await claim(store)
    await store.cancel(["a"], "enough")
    assert not await changed()


async def test_a_plan_made_from_older_facts_is_refused_and_takes_nothing(store):
    await store.enqueue(jobs("a"))
    facts = (await store.beat(ANN, [])).facts
    plan = plan_claim(1, "default", [("default", Carry())], facts)
    await store.pause("default", paused=True)
    refused = await store.claim(plan, ANN)
    assert (refused.claims, refused.stale) == ([], True)
    assert used(await store.get("a")) == 0


async def test_a_pause_through_another_client_holds_at_once(store, another):
    await store.enqueue(jobs("a"))
    facts = (await store.beat(ANN, [])).facts
    plan = plan_claim(1, "default", [("default", Carry())], facts)
    await another.pause("default", paused=True)
    assert (await store.claim(plan, ANN)).stale
    facts = await store.facts()
    assert facts.paused == {"default"}
    plan = plan_claim(1, "default", [("default", Carry())], facts)
    assert names(await store.claim(plan, ANN)) == []
    await another.pause("default", paused=False)
    facts = await store.facts()
    plan = plan_claim(1, "default", [("default", Carry())], facts)
    assert names(await store.claim(plan, ANN)) == ["a"]


async def test_running_jobs_go_on_while_their_queue_is_paused(store):
    await store.enqueue(jobs("a"))
    first = await start(store)
    await store.pause("default", paused=True)
    assert (await store.beat(ANN, [first.lease])).lost == []
    assert await store.commit([done(first)]) == ["written"]


async def test_a_new_policy_holds_from_the_moment_it_is_stored(store, another):
    facts = (await store.beat(ANN, [])).facts
    plan = plan_claim(1, "default", [("default", Carry())], facts)
    await another.configure("default", QueueSettings(RetryFirst()))
    assert (await store.claim(plan, ANN)).stale


async def test_a_plan_of_an_epoch_yet_to_come_is_refused(store):
    epoch = (await store.beat(ANN, [])).facts.epoch
    plan = replace(in_turn(1, group(FRESH)), epoch=epoch + 1)
    assert (await store.claim(plan, ANN)).stale


async def test_the_first_claim_of_a_new_region_is_refused_and_makes_it_known(store):
    epoch = (await store.beat(ANN, [])).facts.epoch
    plan = replace(in_turn(1, group(FRESH)), epoch=epoch)
    assert (await store.claim(plan, EU)).stale
    assert [each.name for each in (await store.facts()).regions] == ["EU", "default"]


async def test_pauses_are_per_queue(store):
    await store.enqueue([job("a"), job("m", queue="mail")])
    await store.pause("mail", paused=True)
    facts: Facts = (await store.beat(ANN, [])).facts
    queues = [("default", Carry()), ("mail", Carry())]
    assert names(await store.claim(plan_claim(5, "default", queues, facts), ANN)) == ["a"]
