"""Ids of an app that has several shards: each begins with the number of its shard."""

from itertools import cycle

from mulligan.app.ids import new_id
from mulligan.app.options import Placement
from mulligan.core.errors import InvalidError
from mulligan.core.shards import Layout, home_of_key, tagged
from mulligan.stores.shards import Memory


class ShardedIds:
    """New ids that name a shard: each in turn, or the home of the key or limits of the job.

    A shard that is known to be away gets no new job that may as well be in another. The first turn
    is `begin`.
    """

    def __init__(self, count: int, memory: Memory, begin: int) -> None:
        self.layout = Layout(count, count)
        self._turn = cycle([(begin + turn) % count for turn in range(count)])
        self._memory = memory

    def new(self, home: int | None = None, key: tuple[str, str] | None = None) -> str:
        """A new id for a job with limits of this home, with a unique key, or with neither."""
        if home is not None:
            return tagged(new_id(), home)
        shard = self._next() if key is None else home_of_key(*key, self.layout)
        return tagged(new_id(), shard)

    def _next(self) -> int:
        """The next shard that is not away; if all are, the one whose turn it is."""
        shard = next(self._turn)
        for _ in range(self.layout.count):
            if shard not in self._memory.away:
                break
            shard = next(self._turn)
        return shard

    def of(self, placement: Placement, home: int | None) -> str:
        """The id of a job with these options; refuses an id from the caller beside a unique key."""
        if placement.unique_key is None:
            return placement.id or self.new(home)
        if placement.id is not None:
            raise InvalidError(
                f"id {placement.id!r} beside unique_key {placement.unique_key!r}: an app with"
                " several shards keeps a job in the home of one of them; leave id= away"
            )
        return self.new(home, (placement.queue, str(placement.unique_key)))
