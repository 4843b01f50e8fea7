"""The seam for traces: what an app's tracing is told, if it has one.

Whatever a hook raises is logged and changes nothing: jobs do not depend on who watches them.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeVar

from mulligan.core.job import Claim, Enqueued, NewJob
from mulligan.core.outcome import Outcome, Result

log = logging.getLogger("mulligan.worker")
T = TypeVar("T")
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
    untraced: tuple[Sequence[NewJob], Stored] = (jobs, unheard)
    with harmless(lambda: tracing.enqueuing(jobs, together=together), untraced) as (traced, stored):
        answers = await store(traced)
        with logged():
            stored(answers)
    return answers


def unheard(*_told: object) -> None:
    """Nobody is there to be told."""


@contextmanager
def attempt_traced(tracing: Tracing, claim: Claim) -> Iterator[Ended]:
    """Around an attempt, whatever the hooks do."""
    unwatched: Ended = unheard
    with harmless(lambda: tracing.attempt(claim), unwatched) as ended:

        def told(result: Result, outcome: Outcome) -> None:
            with logged():
                ended(result, outcome)

        yield told


@contextmanager
def harmless(hook: Callable[[], AbstractContextManager[T]], otherwise: T) -> Iterator[T]:
    """What the hook gives for the block; `otherwise`, if it raises before."""
    entered: AbstractContextManager[T] | None = None
    given = otherwise
    with logged():
        entered = hook()
        try:
            given = entered.__enter__()
        except BaseException:
            entered = None
            raise
    try:
        yield given
    except BaseException as error:
        if entered is not None:
            with logged():
                entered.__exit__(type(error), error, error.__traceback__)
        raise
    if entered is not None:
        with logged():
            entered.__exit__(None, None, None)


@contextmanager
def logged() -> Iterator[None]:
    """Whatever is raised within is logged, and over."""
    try:
        yield
    except BaseException:
        log.warning("a tracing hook raised; the job goes on without it", exc_info=True)
