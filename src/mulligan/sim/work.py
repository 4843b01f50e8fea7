"""A simulated attempt: it takes time, and then succeeds, fails or kills its worker."""

import asyncio
import builtins
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, cast

from mulligan.core.declared import Declared
from mulligan.core.job import Call, Claim, encode
from mulligan.core.runs import Runs
from mulligan.core.signals import Fail, RetryAfter
from mulligan.engine.current import RUNNING
from mulligan.engine.middleware import Around
from mulligan.sim.provider import Calls
from mulligan.sim.scenario import EVERY, Planned, Region

TASK = "simulated"
DRAWS = 1 << 64


class AttemptFailedError(Exception):
    """Raised by an attempt that fails."""

    # Seconds, if a provider has said when to come back.
    retry_after: int | None = None


class UncountedError(AttemptFailedError, ValueError):
    """Raised by one that fails without counting against its region."""


@cache
def error_class(name: str | None, *, counted: bool) -> type[AttemptFailedError]:
    """The class of this name, as policies see it: with its bases, if it is one of Python's own."""
    base = AttemptFailedError if counted else UncountedError
    if name is None:
        return base
    module, _, plain = name.rpartition(".")
    known = getattr(builtins, name, None)
    own: tuple[Any, ...] = (base, known) if can_be_raised(known) else (base,)
    return cast("type[AttemptFailedError]", type(plain, own, {"__module__": module or "builtins"}))


def can_be_raised(kind: Any) -> bool:
    """Whether it is an exception class, and a message is all that it takes."""
    try:
        return issubclass(kind, Exception) and bool(kind("as the scenario says"))
    except TypeError:
        return False


class Work:
    """The one task of a simulation; a target of the engine's executor.

    `crash` is called with the id of a worker that dies.
    """

    is_async = True
    transactional = False
    accept: Callable[[Any], bool] | None = None
    declared = Declared()
    retry_if: Callable[[Any], bool] | None = None
    around: Around | None = None
    runs = Runs()
    encode = staticmethod(encode)

    def __init__(
        self,
        jobs: Mapping[str, Planned],
        regions: Mapping[str, Region],
        seed: int,
        crash: Callable[[str], None],
        *,
        counted: bool = True,
        calls: Mapping[str, Calls] = MappingProxyType({}),
    ) -> None:
        self._jobs = jobs
        self._regions = regions
        self._seed = seed
        self._crash = crash
        self._counted = counted
        self._calls = calls
        self.function: Callable[..., Any] = self._attempt

    def arguments(self, call: Call) -> tuple[tuple[()], dict[str, Any]]:  # noqa: ARG002
        """No arguments: an attempt finds its job by id."""
        return (), {}

    async def _attempt(self) -> None:
        job = RUNNING.get()
        planned, region = self._jobs[job.id], self._regions[job.worker_region]
        if job.retry_count < len(planned.course):
            await self._repeat(planned, job)
            return
        loop = asyncio.get_running_loop()
        duration = planned.duration * region.slowdown
        down = bool(region.outage) and region.down(loop.time())
        if listed(job.attempt, planned.crash):
            await asyncio.sleep(duration / 2)
            loop.call_soon(self._crash, job.worker)
            await loop.create_future()
        if planned.needs.provider is not None:
            await self._call(self._calls[planned.needs.provider], loop.time())
        fails_here = down or self._unlucky(job, region)
        if fails_here and region.fail_after is not None:
            duration = region.fail_after
        await asyncio.sleep(duration)
        if down:
            raise self._error(region.error)(f"{region.name} is out of order")
        if fails_here:
            raise self._error(region.error)("as the scenario says")
        if listed(job.attempt, planned.fail):
            raise self._error(planned.error)("as the scenario says")

    async def _call(self, calls: Calls, now: float) -> None:
        """Call the provider; one that refuses says when to come back."""
        wait = calls.call(now)
        if wait is not None:
            await asyncio.sleep(calls.provider.refuse_after)
            error = self._error("TooManyRequests")(f"{calls.provider.name} answered 429")
            error.retry_after = wait
            raise error

    async def _repeat(self, planned: Planned, job: Claim) -> None:
        """Repeat the traced attempt."""
        past = planned.course[job.retry_count]
        await asyncio.sleep(past.duration)
        if past.ending == "done":
            return
        if past.ending == "dead" and not planned.retry.spent(job.retry_count):
            raise Fail("as in the trace")
        if past.delay is not None:
            raise RetryAfter(past.delay, "as in the trace")
        raise self._error(None)("as in the trace")

    def _error(self, name: str | None) -> type[AttemptFailedError]:
        return error_class(name, counted=self._counted)

    def _unlucky(self, job: Claim, region: Region) -> bool:
        """Whether the attempt fails by chance: the same for the same job, number and region."""
        if not region.failure_rate:
            return False
        key = f"{self._seed}/{job.id}/{job.attempt}/{region.name}".encode()
        drawn = int.from_bytes(blake2b(key, digest_size=8).digest())
        return drawn < region.failure_rate * DRAWS


def listed(attempt: int, numbers: frozenset[int]) -> bool:
    """Whether the attempt is one of these."""
    return bool(numbers) and (attempt in numbers or numbers is EVERY)
