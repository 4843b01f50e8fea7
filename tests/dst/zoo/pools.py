"""Mistakes with child processes: who runs in them, and when they are killed."""

from typing import Any

from mulligan.engine.child_process import ChildProcess
from mulligan.engine.processes import Processes
from tests.dst.zoo.cage import plant

child_of = Processes.child


@plant(Processes, "child")
async def crash_of_a_child_fails_two_jobs(self: Any, max_memory: int | None = None) -> Any:
    """A child that is busy is given a second attempt, and both end with it."""
    busy = [child for child in self._children if child.alive]
    return busy[0] if busy else await child_of(self, max_memory)


@plant(ChildProcess, "kill")
def child_outlives_its_lease(self: Any) -> None:
    """A child whose attempt must not go on is left to itself."""
    self.alive = False
