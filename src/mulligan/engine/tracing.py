"""The seam for traces: what an app's tracing is told, if it has one."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from mulligan.core.job import Claim, Enqueued, NewJob
from mulligan.core.outcome import Outcome, Result

# What the attempt gave, and what becomes of its job.
Ended = Callable[[Result, Outcome], None]
# What became of the jobs, once the store has answered.
Stored = Callable[[Sequence[Enqueued]], None]


class Tracing(Protocol):
    """Follows jobs from enqueue through every attempt."""

    def enqueuing(
        self, jobs: Sequence[NewJob], *, together: bool = False
    ) -> AbstractContextManager[tuple[Sequence[NewJob], Stored]]:
        """Around the storing of jobs: those to store, which carry their traces.

        Each job has a trace of its own, unless they belong together.
        """
        ...

    def attempt(self, claim: Claim) -> AbstractContextManager[Ended]:
        """Around an attempt; one that is cut off ends without being told how."""
        ...


async def store_traced(
    tracing: Tracing | None,
    jobs: Sequence[NewJob],
    store: Callable[[Sequence[NewJob]], Awaitable[list[Enqueued]]],
    *,
    together: bool = False,
) -> list[Enqueued]:
    """Store the jobs, with their traces if there are to be any."""
    if tracing is None:
        return await store(jobs)
    with tracing.enqueuing(jobs, together=together) as (traced, stored):
        answers = await store(traced)
        stored(answers)
    return answers
