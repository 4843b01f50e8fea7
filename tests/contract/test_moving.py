"""Moving jobs into any store: who takes up a move that died runs nothing twice."""

import pytest

from mulligan.cli.copy import letter_id, move_all
from mulligan.core.page import Selection
from mulligan.stores.memory import MemoryStore
from tests.contract.making import claim, done, jobs, names


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
