"""What an operator does to the jobs and queues of an app, from its code."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from mulligan.app.app_store import AppStore
from mulligan.core.checks import check_name, check_word
from mulligan.core.errors import InvalidError
from mulligan.core.settings import BATCH_LIMIT

if TYPE_CHECKING:
    from mulligan.core.key_share import KeyShare


class Operations(AppStore):
    """Pause and resume queues, replay and purge jobs; each from plain code and from coroutines."""

    async def apause(self, queue: str) -> None:
        """Start no more jobs of the queue; running ones go on."""
        check_name("queue", queue)
        await self.access.acall(lambda store: store.pause(queue, paused=True))

    def pause(self, queue: str) -> None:
        """Start no more jobs of the queue; running ones go on."""
        self.run(lambda: self.apause(queue))

    async def aresume(self, queue: str) -> None:
        """Undo a pause."""
        check_name("queue", queue)
        await self.access.acall(lambda store: store.pause(queue, paused=False))

    def resume(self, queue: str) -> None:
        """Undo a pause."""
        self.run(lambda: self.aresume(queue))

    async def afairness(self, queue: str) -> "list[KeyShare]":
        """The fairness keys of the queue that have work waiting; as `fairness`."""
        from mulligan.app.stored_limits import key_shares  # noqa: PLC0415 - few ask

        check_name("queue", queue)
        return await self.access.acall(lambda store: key_shares(store, queue))

    def fairness(self, queue: str) -> "list[KeyShare]":
        """The fairness keys of the queue that have work waiting, those with most work first.

        Each with its weight, and its share of the starts of its lane while all of them wait.
        """
        return self.run(lambda: self.afairness(queue))

    async def areplay(self, jobs: Sequence[str], *, from_start: bool = False) -> list[bool]:
        """Give failed jobs all their retries again; False where a job had not failed.

        They keep their steps and checkpoints, unless they begin `from_start`.
        """
        return await self.access.acall(
            lambda store: in_batches(partial(store.replay, from_start=from_start), jobs)
        )

    def replay(self, jobs: Sequence[str], *, from_start: bool = False) -> list[bool]:
        """Give failed jobs all their retries again; False where a job had not failed.

        They keep their steps and checkpoints, unless they begin `from_start`.
        """
        return self.run(lambda: self.areplay(jobs, from_start=from_start))

    async def apurge(self, jobs: Sequence[str]) -> list[bool]:
        """Delete jobs that have ended; False where one had not."""
        return await self.access.acall(lambda store: in_batches(store.purge, jobs))

    def purge(self, jobs: Sequence[str]) -> list[bool]:
        """Delete jobs that have ended; False where one had not."""
        return self.run(lambda: self.apurge(jobs))


async def in_batches(
    operate: Callable[[Sequence[str]], Awaitable[list[bool]]], jobs: Sequence[str]
) -> list[bool]:
    """Apply the operation to any number of jobs, a batch at a time."""
    if isinstance(jobs, str):
        raise InvalidError(f"jobs {jobs!r} must be a list of ids; for one job give [{jobs!r}]")
    for job in jobs:
        check_word("job", job)
    return [
        answer
        for start in range(0, len(jobs), BATCH_LIMIT)
        for answer in await operate(jobs[start : start + BATCH_LIMIT])
    ]
