"""Heartbeats in all shards, none of which is held up by another that is slow to answer."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from mulligan.core.answers import Beat
from mulligan.core.job import Lease
from mulligan.core.worker import Worker
from mulligan.stores.shards.connection import Shard, Shards

# Beats come three to a lease: a slow shard may hold up the next beat of the others for as long.
PART_OF_LEASE = 1 / 3
# To how many times its length a slow shard may stretch a lease.
LONGEST = 10

BeatTask = asyncio.Task[tuple[Beat] | None]


class Beats:
    """The beats that are under way, by worker and shard.

    A shard may be silent for longer than a lease before its driver gives up. Meanwhile it is not
    asked again, and the others are. An answer that comes between two beats is not heard: the next
    beat asks anew. In a slow shard the next lease is longer in proportion, as in all if all are.
    """

    def __init__(self) -> None:
        self._under_way: dict[tuple[str, int], BeatTask] = {}
        self._took: dict[int, float] = {}

    async def answered(
        self, shards: Shards, worker: Worker, held: Mapping[int, Sequence[Lease]]
    ) -> list[tuple[int, Beat]]:
        """Beat in all shards that have answered the last beat; what they say in time."""
        interval = worker.lease * PART_OF_LEASE

        async def beat(shard: Shard) -> Beat:
            late = min(self._took.get(shard.number, 0.0) / interval, LONGEST)
            lasting = worker if late <= 1 else replace(worker, lease=worker.lease * late)
            return await shard.store.beat(lasting, held.get(shard.number, ()))

        if shards.in_order:
            return await shards.each(beat)
        begun = [
            self._begin((worker.id, shard.number), shards.tried(shard, beat))
            for shard in shards.present
            if (worker.id, shard.number) not in self._under_way
        ]
        under_way = {task: key[1] for key, task in self._under_way.items() if key[0] == worker.id}
        done: set[BeatTask] = set()
        while under_way and not done:  # where all are slow, there are no others to hold up
            await asyncio.wait(begun or under_way, timeout=interval)
            done = {task for task in under_way if task.done()}
        answers = [(under_way[task], answer[0]) for task in done if (answer := task.result())]
        if not answers:
            raise shards.none_answers()
        return sorted(answers, key=lambda each: each[0])

    def _begin(
        self, key: tuple[str, int], beat: Coroutine[Any, Any, tuple[Beat] | None]
    ) -> BeatTask:
        clock = asyncio.get_running_loop().time
        began = clock()

        def end(task: BeatTask) -> None:
            del self._under_way[key]
            self._took[key[1]] = clock() - began
            if not task.cancelled():
                task.exception()  # of one that is late nobody else asks

        task = self._under_way[key] = asyncio.create_task(beat)
        task.add_done_callback(end)
        return task

    async def end(self) -> None:
        """Wait for none of them any more."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        if tasks:  # plain code, which has no loop, has none
            await asyncio.gather(*tasks, return_exceptions=True)
