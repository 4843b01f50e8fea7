"""Child processes of a simulated worker: attempts on the virtual clock, which crash or are killed.

The pool around them is the real one; only forking and talking to a child are simulated.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar, copy_context
from typing import Any, cast

from mulligan.core.job import Claim
from mulligan.core.outcome import Result
from mulligan.core.settings import Settings
from mulligan.engine.attempt_records import TaskRecords
from mulligan.engine.child import Arrived
from mulligan.engine.child_messages import Ended, Kill, Run, Setup, ended
from mulligan.engine.child_process import ChildProcess, DiedError
from mulligan.engine.processes import ForkServerProcess, Processes
from mulligan.engine.result_gate import asked
from mulligan.engine.task_caller import Target, TaskCaller, predicate_of

SEGMENTATION_FAULT, KILLED = -11, -9
# The child that an attempt runs in.
CHILD: ContextVar["Child | None"] = ContextVar("child", default=None)


class Children:
    """Stands for the fork server of a worker, and for the process of each child."""

    def __init__(self, tasks: Mapping[str, Target], settings: Settings) -> None:
        self.alive = True
        self.tasks = tasks
        self.settings = settings
        self._children: dict[int, Child] = {}

    def processes(self) -> Processes:
        """The pool's real half, which asks these for children."""
        server = cast("ForkServerProcess", self)
        return Processes(server, cast("Setup", None))

    async def fork(self) -> "Child":
        """A new child."""
        child = Child(len(self._children) + 1, self)
        self._children[child.pid] = child
        return child

    def send(self, message: Any) -> None:
        """Kill a child; that is all that is ever sent."""
        assert isinstance(message, Kill)
        self._children[message.pid].end(KILLED)

    def die(self) -> None:
        """The worker is gone, and its children with it."""
        self.alive = False
        for child in self._children.values():
            child.end(KILLED)


class Child(ChildProcess):
    """A child whose attempts are tasks on the loop. A pool in order gives it one at a time."""

    def __init__(self, pid: int, children: Children) -> None:
        super().__init__(pid, children.send)
        self._children = children
        self._attempts: set[asyncio.Task[Result]] = set()

    async def run(self, run: Run, records: Callable[[], TaskRecords]) -> Result:
        """Run an attempt; raises DiedError if the process ends first."""
        if self.ended.done():
            raise DiedError(self.ended.result())
        context = copy_context()
        context.run(CHILD.set, self)
        attempt = asyncio.get_running_loop().create_task(
            self._attempt(run, records), context=context
        )
        self._attempts.add(attempt)
        attempt.add_done_callback(self._attempts.discard)
        either: list[asyncio.Future[Any]] = [attempt, self.ended]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if self.ended.done():
            raise DiedError(self.ended.result())
        return attempt.result()

    async def _attempt(self, run: Run, records: Callable[[], TaskRecords]) -> Result:
        """What a real child does with an attempt."""
        target = self._children.tasks[run.claim.task]
        arrived = Arrived()
        arrived.found = run.arrived or {}
        caller = TaskCaller(arrived, self._children.settings, None, records=Asked(records))
        result = await caller.result(run.claim, target)
        sent: Ended = ended(asked(result, predicate_of(target, run.claim)))
        return sent.result

    def end(self, code: int) -> None:
        """The process is no more: what runs in it stops where it is."""
        self.alive = False
        if not self.ended.done():
            self.ended.set_result(code)
        for attempt in list(self._attempts):
            attempt.cancel()

    @property
    def closed(self) -> bool:
        """Whether nothing more can come from it."""
        return self.ended.done()

    @property
    def memory(self) -> int:
        """Nobody measures it here."""
        return 0


class Asked:
    """The records of the one attempt that a child runs, which its worker keeps."""

    limits: Collection[str] = ()

    def __init__(self, records: Callable[[], TaskRecords]) -> None:
        self._records = records

    def of(self, _claim: Claim) -> TaskRecords:
        """What the attempt records."""
        return self._records()


def crash() -> None:
    """Have the attempt's process die, at its next await."""
    child = CHILD.get()
    assert child is not None
    child.end(SEGMENTATION_FAULT)
