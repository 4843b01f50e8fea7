"""How many workers one token may have, and how many names they may bring into the store.

Every queue and region of a live worker is looked at by all who plan or show something. A token for
workers must not be able to slow down everybody else.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from time import monotonic

from mulligan.core.worker import Worker
from mulligan.server.problems import Refusal
from mulligan.stores.contract import Store

MOST_WORKERS = 1000
MOST_QUEUES = 1000
MOST_REGIONS = 100
MOST_TASKS = 10_000
# Workers that joined through other servers are looked for at most this often.
LOOK_EVERY = 1.0


class Joins:
    """The live workers of a store, as far as joins need to know them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stored: list[Worker] = []
        self.forget()
        self._looking = asyncio.Lock()

    def forget(self) -> None:
        """Look again at the next join: a worker has left."""
        self._looked_at = -LOOK_EVERY

    async def check(
        self,
        worker: Worker,
        tasks: Sequence[str],
        is_ours: Callable[[str], bool],
        here: Iterable[tuple[Worker, Iterable[str]]],
    ) -> None:
        """Refuse a worker if those of its token are or name too many.

        `here` are the token's live workers of this server with their tasks; `is_ours` tells by the
        id whether a worker belongs to the token.
        """
        async with self._looking:
            if monotonic() - self._looked_at >= LOOK_EVERY:
                stats = await self._store.stats()
                self._stored = [view.worker for view in stats.workers if view.live]
                self._looked_at = monotonic()
        ours = {each.id: each for each in self._stored if is_ours(each.id)}
        named = set(tasks)
        for each, its_tasks in here:
            ours[each.id] = each
            named.update(its_tasks)
        ours[worker.id] = worker
        queues = {queue for each in ours.values() for queue in each.queues}
        regions = {each.region for each in ours.values()}
        for number, most, what in (
            (len(ours), MOST_WORKERS, "live workers"),
            (len(queues), MOST_QUEUES, "queues"),
            (len(regions), MOST_REGIONS, "regions"),
            (len(named), MOST_TASKS, "tasks"),
        ):
            if number > most:
                raise Refusal(
                    "at-limit",
                    f"the workers of this token would have {number} {what}, more than {most};"
                    " let workers leave, or join with another token",
                )
