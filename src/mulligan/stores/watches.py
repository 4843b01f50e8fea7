"""Who in this process waits for which job to end, and how they are told."""

import threading
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

Tell = Callable[[], None]
K = TypeVar("K", bound=Hashable)


class Watch:
    """One caller's wait for the end of a job, until it is closed; from any thread.

    `is_told` is False where the store cannot tell, so that the caller has to look more often.
    """

    def __init__(self, close: Callable[[], None], *, is_told: bool) -> None:
        self.close = close
        self.is_told = is_told


class Watches(Generic[K]):
    """The waiting callers by what a store knows a job by, its id or its number; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callers: dict[K, list[Tell]] = {}

    def __bool__(self) -> bool:
        return bool(self._callers)

    def __contains__(self, job: K) -> bool:
        return job in self._callers

    def jobs(self) -> list[K]:
        """The jobs that are waited for."""
        with self._lock:
            return list(self._callers)

    def add(self, job: K, tell: Tell) -> None:
        """Have `tell` called when the job may have ended."""
        with self._lock:
            self._callers.setdefault(job, []).append(tell)

    def remove(self, job: K, tell: Tell) -> None:
        """Have it called no more."""
        with self._lock:
            callers = self._callers.get(job, [])
            if tell in callers:
                callers.remove(tell)
            if not callers:
                self._callers.pop(job, None)

    def tell(self, jobs: Iterable[K]) -> None:
        """These jobs have ended."""
        if not self._callers:
            return
        with self._lock:
            told = [tell for job in jobs for tell in self._callers.get(job, ())]
        for tell in told:
            tell()

    def tell_all(self) -> None:
        """Any job may have ended: something was lost on the way."""
        self.tell(self.jobs())
