"""The interface for tracing: the hooks that an app's tracing may implement.

An exception from a hook is logged and has no effect on the job.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeVar

from mulligan.core.job import Claim, Enqueued, NewJob
from mulligan.core.outcome import Outcome, Result

log = logging.getLogger("mulligan.worker")
T = TypeVar("T")
# Called with the result of the attempt and the outcome for its job.
Ended = Callable[[Result, Outcome], None]
# Called with the store's answers.
Stored = Callable[[Sequence[Enqueued]], None]


class Tracing(Protocol):
    """Follows jobs from enqueue through every attempt."""

    def enqueuing(
        self, jobs: Sequence[NewJob], *, together: bool = False
    ) -> AbstractContextManager[tuple[Sequence[NewJob], Stored]]:
        """Surrounds the enqueue of jobs; gives the jobs to store, with their traces added.

        Each job has a trace of its own, unless they belong `together`.
        """
        ...

    def attempt(self, claim: Claim) -> AbstractContextManager[Ended]:
        """Surrounds an attempt. For one that is cut off, `Ended` is not called."""
        ...

    def carrier(self) -> dict[str, str]:
        """The current span, as another process takes it up."""
        ...

    def resumed(self, carrier: Mapping[str, str]) -> AbstractContextManager[None]:
        """Surrounds what another process does of an attempt: in the span of the carrier."""
        ...


async def store_traced(
    tracing: Tracing | None,
    jobs: Sequence[NewJob],
    store: Callable[[Sequence[NewJob]], Awaitable[list[Enqueued]]],
    *,
    together: bool = False,
) -> list[Enqueued]:
    """Store the jobs, with traces if the app has tracing."""
    if tracing is None:
        return await store(jobs)
    untraced: tuple[Sequence[NewJob], Stored] = (jobs, ignore)
    with harmless(lambda: tracing.enqueuing(jobs, together=together), untraced) as (traced, stored):
        answers = await store(traced)
        with logged():
            stored(answers)
    return answers


def ignore(*_: object) -> None:
    """Does nothing: the hook failed before."""


@contextmanager
def attempt_traced(tracing: Tracing, claim: Claim) -> Iterator[Ended]:
    """Surrounds an attempt with its hook; errors of the hook are logged."""
    unwatched: Ended = ignore
    with harmless(lambda: tracing.attempt(claim), unwatched) as ended:

        def traced(result: Result, outcome: Outcome) -> None:
            with logged():
                ended(result, outcome)

        yield traced


def carried(tracing: Tracing | None) -> dict[str, str]:
    """The current span for another process; empty without tracing, or if the hook raises."""
    found: dict[str, str] = {}
    if tracing is not None:
        with logged():
            found = tracing.carrier()
    return found


@contextmanager
def resumed(tracing: Tracing | None, carrier: Mapping[str, str]) -> Iterator[None]:
    """Surrounds what this process does of another's attempt."""
    if tracing is None or not carrier:
        yield
        return
    with harmless(lambda: tracing.resumed(carrier), None):
        yield


@contextmanager
def harmless(hook: Callable[[], AbstractContextManager[T]], otherwise: T) -> Iterator[T]:
    """Run the block within the hook; if the hook raises on entry, the block gets `otherwise`."""
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
    """Log anything raised within, and go on."""
    try:
        yield
    except BaseException:
        log.warning("a tracing hook raised; the job goes on without it", exc_info=True)
