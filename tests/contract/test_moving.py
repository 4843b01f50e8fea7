"""Moving jobs into any store: who takes up a move that died runs nothing twice."""

import pytest
from msgspec.structs import replace

from mulligan.cli.copy import take_over_limits, take_over_queues
from mulligan.cli.copy_jobs import letter_id, move_all
from mulligan.core.facts import QueueSettings
from mulligan.core.limits import Limit, costs_text
from mulligan.core.outcome import Done, LimitUse
from mulligan.core.page import Selection
from mulligan.stores.memory import MemoryStore
from tests.contract.builders import claim, done, job, jobs, names


class KilledError(Exception):
    """Where the process dies: nothing of it happens after this."""


class Dying(MemoryStore):
    """A source whose mover dies after the target has a batch, before the source knows of it."""

    dies = True

    async def cancel(self, jobs, reason):
        if self.dies:
            raise KilledError
        return await super().cancel(jobs, reason)


async def test_what_has_run_and_been_pruned_is_not_moved_again(store, clock):
    source = Dying(clock=clock)
    await source.enqueue(jobs("a", "b", "c"))
    with pytest.raises(KilledError):
        await move_all(source, store, "moved")
    claimed = await claim(store, demand=2)
    assert names(claimed) == ["a", "b"]
    await store.commit([done(each) for each in claimed.claims])
    clock.advance(10.0)
    assert await store.prune(5.0, 10) == 2
    source.dies = False
    assert (await move_all(source, store, "moved")).pending == 3
    assert names(await claim(store, demand=9)) == ["c"]
    assert await store.get(letter_id(source)) is None
    assert (await source.page(Selection(status="pending"), 9)).jobs == []


async def test_limits_are_moved_with_what_is_owed_and_their_pauses(store, clock):
    source = MemoryStore(clock=clock)
    await source.configure("default", QueueSettings(weights=(("acme", 3.0),)))
    for name, limit in {
        "openai": Limit(rate=5, per=3600),
        "tokens": Limit(rate=100, per=86_400, burst=100),
        "tenant:*": Limit(concurrency=1),
    }.items():
        await source.set_limit(name, limit, declared=True)
    await source.set_limit("tenant:acme", Limit(concurrency=2), declared=False)
    costs = costs_text({"openai": 1, "tenant:acme": 1})
    tokens = costs_text({"tokens": 60})
    await source.enqueue(
        [
            *(job(f"o{n}", limits=costs, fairness_key="acme") for n in range(4)),
            *(job(f"t{n}", limits=tokens) for n in range(2)),
        ]
    )
    claimed = (await claim(source, demand=9)).claims
    used = LimitUse(spent=(("openai", 2),))
    await source.commit([Done(each.lease, b"1", use=used) for each in claimed[:1]])
    await source.commit([done(each) for each in claimed[1:]])
    await source.pause_limit("tenant:acme", 3000.0)
    for _ in range(2):  # as if the first move had been interrupted
        await take_over_queues(source, store, frozenset())
        await take_over_limits(source, store)
    assert (await move_all(source, store, "moved")).pending == 3
    assert names(await claim(store, demand=9)) == []
    for here, there in zip(await source.limits(9), await store.limits(9), strict=True):
        assert replace(there, waiting=0) == replace(here, waiting=0)
    assert (await store.facts()).queue("default").weights == (("acme", 3.0),)
    waiting = {each.id: each.waits_for for each in (await store.page(Selection(), 9)).jobs}
    assert waiting == {"o2": "tenant:acme", "o3": "tenant:acme", "t1": "tokens"}
    await store.pause_limit("tenant:acme", 0.0)
    assert names(await claim(store, demand=9)) == ["o2"]
    assert (await store.get("o3")).waits_for == "openai"
