"""What jobs record, where a write comes late."""

from mulligan.core.record import Record, Recording
from mulligan.stores.mongo.record import mark
from tests.contract.builders import begin, jobs

STEPS = (Record("step", 1, b"1", "one"), Record("step", 2, b"2", "two"))


async def test_a_mark_that_is_carried_out_late_hides_no_step(store):
    """The first request of an attempt may still be on its way when a second one is answered."""
    [claim] = await begin(store, *jobs("a"))
    recording = Recording(claim.lease, STEPS)
    before = await store._connection.find(["a"])
    assert await store.record([recording]) == ["recorded"]
    await store._connection.apply([mark(before["a"], recording)])
    assert [each.name for each in await store.records("a")] == ["one", "two"]
