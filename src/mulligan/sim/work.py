"""What a simulated attempt does: takes its time, and then succeeds, fails or kills its worker."""

import asyncio
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

from mulligan.core.job import Call
from mulligan.engine import CurrentJob, current_job
from mulligan.sim.scenario import EVERY, Planned, Region

TASK = "simulated"
DRAWS = 1 << 64


class AttemptFailedError(Exception):
    """What an attempt raises that is to fail."""


class Work:
    """The one task of a simulation; a target of the engine's executor.

    `crash` is called with the id of a worker that dies.
    """

    is_async = True
    accept: Callable[[Any], bool] | None = None

    def __init__(
        self,
        jobs: Mapping[str, Planned],
        regions: Mapping[str, Region],
        seed: int,
        crash: Callable[[str], None],
    ) -> None:
        self._jobs = jobs
        self._regions = regions
        self._seed = seed
        self._crash = crash
        self.function: Callable[..., Any] = self._attempt

    def arguments(self, call: Call) -> tuple[tuple[()], dict[str, Any]]:  # noqa: ARG002
        """None: an attempt knows its job by its id."""
        return (), {}

    async def _attempt(self) -> None:
        job = current_job()
        planned, region = self._jobs[job.id], self._regions[job.worker_region]
        loop = asyncio.get_running_loop()
        duration = planned.duration * region.slowdown
        down = region.down(loop.time())
        if listed(job.attempt, planned.crash):
            await asyncio.sleep(duration / 2)
            loop.call_soon(self._crash, job.worker)
            await loop.create_future()
        await asyncio.sleep(duration)
        if down:
            raise AttemptFailedError(f"{region.name} is out of order")
        if listed(job.attempt, planned.fail) or self._unlucky(job, region):
            raise AttemptFailedError("as the scenario says")

    def _unlucky(self, job: CurrentJob, region: Region) -> bool:
        """By the job, the attempt and the region alone: the same under every policy."""
        if not region.failure_rate:
            return False
        key = f"{self._seed}/{job.id}/{job.attempt}/{region.name}".encode()
        drawn = int.from_bytes(blake2b(key, digest_size=8).digest())
        return drawn < region.failure_rate * DRAWS


def listed(attempt: int, numbers: frozenset[int]) -> bool:
    """Whether the attempt is one of these."""
    return bool(numbers) and (attempt in numbers or numbers is EVERY)
