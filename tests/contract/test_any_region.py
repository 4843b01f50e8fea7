"""Jobs for any region: who enqueues for no region lets every region's worker take the job."""

import pytest

from mulligan.core.job import NewJob
from mulligan.core.lane import ANYWHERE, Lane, Priority
from mulligan.core.worker import Worker
from mulligan.stores.contract import Store
from tests.contract.builders import ANN, again, body, jobs, run_by_policy, start

EU = Worker("eve-1", "EU")


def for_anyone(*names: str, **fields: object) -> list[NewJob]:
    """Jobs that name no region."""
    return [NewJob(name, "default", "ask", body(), **fields) for name in names]  # type: ignore[arg-type]


def mixed() -> list[NewJob]:
    """Jobs for any region and for one, turn and turn about."""
    return [
        *for_anyone("a"), *jobs("b"), *for_anyone("c", "d"), *jobs("e", "f"), *for_anyone("g"),
    ]  # fmt: skip


async def test_a_job_enqueued_without_a_region_is_for_any(store: Store):
    await store.enqueue(for_anyone("a"))
    found = await store.get("a")
    assert found is not None
    assert (found.region, found.scope) == (ANYWHERE, ANYWHERE)


@pytest.mark.parametrize("worker", [ANN, EU], ids=["default", "EU"])
async def test_a_job_for_any_region_is_taken_by_a_worker_of_each(store: Store, worker: Worker):
    await store.enqueue(for_anyone("a"))
    [claim] = (await run_by_policy(store, 1, worker)).claims
    assert (claim.id, claim.region, claim.worker_region) == ("a", ANYWHERE, worker.region)


@pytest.mark.parametrize("demand", [1, 3, 7])
async def test_fresh_work_for_any_region_and_for_one_is_taken_in_order_of_enqueue(store, demand):
    await store.enqueue(mixed())
    taken = []
    while claims := (await run_by_policy(store, demand)).claims:
        taken += [claim.id for claim in claims]
    assert taken == list("abcdefg")


async def test_urgent_work_for_any_region_and_for_one_is_taken_in_order_of_enqueue(store):
    urgent = {"priority": Priority.URGENT}
    await store.enqueue([*jobs("a", **urgent), *for_anyone("b", **urgent), *jobs("c", **urgent)])
    claimed = await run_by_policy(store, 3)
    assert [claim.id for claim in claimed.claims] == ["a", "b", "c"]


async def test_what_was_delayed_joins_the_others_when_it_falls_due(store, clock):
    await store.enqueue([*for_anyone("late", delay=5), *jobs("later", delay=6)])
    clock.advance(7)
    await store.enqueue(mixed())
    claimed = await run_by_policy(store, 9)
    assert [claim.id for claim in claimed.claims] == ["late", "later", *"abcdefg"]


async def test_of_retries_those_for_any_region_go_before_those_of_the_region(store, clock):
    await store.enqueue(jobs("pinned", "free"))
    pinned, free = [await start(store) for _ in range(2)]
    own = Lane("default", "default", Priority.RETRY)
    anyone = Lane("default", ANYWHERE, Priority.RETRY)
    await store.commit([again(pinned, lane=own)])
    clock.advance(1)
    await store.commit([again(free, lane=anyone)])
    clock.advance(10)
    claimed = await run_by_policy(store, 2)
    assert [claim.id for claim in claimed.claims] == ["free", "pinned"]
