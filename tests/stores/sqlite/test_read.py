"""How much of the file a count looks at, and what readers see of rows that were changed."""

import pytest

from mulligan.stores.sqlite import counts, operate, read
from tests.contract.builders import ANN, BOB, begin, dead, done, jobs


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(counts, "FEW", 10)


async def steps(store, work):
    """How many instructions of SQLite's machine the work takes, in tens."""

    def counted(tx):
        taken = 0

        def step():
            nonlocal taken
            taken += 1

        tx.db.set_progress_handler(step, 10)
        try:
            work(tx)
        finally:
            tx.db.set_progress_handler(None, 10)
        return taken

    return await store._runner.run(counted)


async def test_what_waits_is_counted_without_a_look_at_each_job(store):
    await store.enqueue(jobs(*(f"a{n}" for n in range(100))))
    few_jobs = await steps(store, read.stats)
    await store.enqueue(jobs(*(f"b{n}" for n in range(900))))
    assert await steps(store, read.stats) < few_jobs + 20
    assert [lane.ready for lane in (await store.stats()).lanes] == [1000]


async def end_so_many(store, name, many):
    """Half of the jobs are done, the others failed."""
    claims = await begin(store, *jobs(*(f"{name}{n}" for n in range(many))), worker=ANN)
    await store.commit([done(claim) for claim in claims[::2]])
    await store.commit([dead(claim) for claim in claims[1::2]])


async def test_pruning_a_few_does_not_look_at_the_many_that_have_ended(store):
    await end_so_many(store, "a", 100)
    small = await steps(store, lambda tx: operate.prune(tx, -1.0, 1))
    await end_so_many(store, "b", 900)
    assert await steps(store, lambda tx: operate.prune(tx, -1.0, 1)) < small + 20
    assert set((await store.stats()).ended.values()) == {498, 500}


async def test_several_large_lanes_and_many_small_ones_are_counted(store, monkeypatch):
    for queue, many in (("large", 40), ("larger", 60), ("small", 3)):
        named = [f"{queue}{n}" for n in range(many)]
        await store.enqueue(jobs(*named, queue=queue))
    await store.enqueue(jobs("later", queue="larger", delay=60))
    expected = {"large": (40, 0), "larger": (60, 1), "small": (3, 0)}
    for few_lanes in (200, 2):
        monkeypatch.setattr(read, "FEW_LANES", few_lanes)
        found = (await store.stats()).lanes
        assert {each.lane.queue: (each.ready, each.delayed) for each in found} == expected


@pytest.mark.parametrize("change", ["lease = 'x'", "beat_at = x'ff'", "body = 'x'", "body = '{}'"])
async def test_a_worker_whose_row_was_changed_hides_no_other(store, db, change):
    await store.beat(ANN, [])
    await store.beat(BOB, [])
    db.execute(f"UPDATE worker SET {change} WHERE id = ?", (ANN.id,))  # noqa: S608
    seen = {view.worker.id: view for view in (await store.stats()).workers}
    assert seen.keys() == {ANN.id, BOB.id}
    assert seen[BOB.id].live
    assert seen[ANN.id].worker.region == ANN.region
