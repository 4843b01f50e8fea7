"""What one attempt records, until it is sent."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Collection, Coroutine
from math import inf
from typing import Any, NamedTuple, Protocol, TypeVar

from mulligan.core.job import Claim
from mulligan.core.record import Record, RecordKind
from mulligan.core.settings import LOG_LIMIT, STEP_LIMIT
from mulligan.core.signals import Fail, LeaseLost

T = TypeVar("T")
Works = Callable[[], Coroutine[Any, Any, T]]


class TaskRecords(Protocol):
    """What a task may ask of its attempt; in a child process its worker is asked."""

    async def begin(self, name: str) -> bytes | None:
        """The recorded result of the step; None if it has to run."""
        ...

    async def write(self, kind: RecordKind, name: str, value: bytes) -> None:
        """Record a step or checkpoint; it is stored when this returns. Raises LeaseLost."""
        ...

    async def last_checkpoint(self) -> bytes | None:
        """The newest checkpoint, of this attempt or an earlier one."""
        ...

    def note(self, kind: RecordKind, value: bytes) -> None:
        """Record progress or a log line soon; from any thread. Raises LeaseLost."""
        ...

    def spend(self, limit: str, cost: int) -> None:
        """Charge the limit with the attempt's outcome; from any thread. Raises LeaseLost."""
        ...

    def wait_for(self, work: Works[T]) -> T:
        """Run one of the coroutines above for a plain function, which waits for it."""
        ...

    async def await_on_loop(self, work: Works[T]) -> T:
        """Run one of the coroutines above for a coroutine on any loop."""
        ...


class Records(Protocol):
    """Where tasks find what their attempts record: a worker's recorder, or that of a child."""

    # The limits that the app declares.
    limits: Collection[str]

    def of(self, claim: Claim) -> TaskRecords:
        """What the attempt records; raises LeaseLost if it has ended."""
        ...


class Sender(Protocol):
    """Sends what waits, and reads what was recorded: the worker's recorder."""

    loop: asyncio.AbstractEventLoop
    # Called before a step runs, and before its result is recorded; a test may raise there.
    at_step: Callable[..., None]

    def wake(self, *, at_once: bool) -> None:
        """Something waits to be sent; from any thread."""
        ...

    async def read(self, job: str) -> "Known":
        """What the job has recorded."""
        ...

    def wait_for(self, attempt: "AttemptRecords", work: Works[T]) -> T:
        """Run the coroutine for a plain function."""
        ...


class Known(NamedTuple):
    """What earlier attempts have recorded."""

    steps: dict[str, bytes]
    checkpoint: bytes | None


class Write(NamedTuple):
    """A step or checkpoint that somebody waits for; one without a kind waits for all before it."""

    kind: RecordKind | None
    name: str
    value: bytes
    answered: "asyncio.Future[None]"

    def succeed(self) -> None:
        """It is recorded."""
        if not self.answered.done():
            self.answered.set_result(None)

    def fail(self, error: BaseException) -> None:
        """It is not."""
        if not self.answered.done():
            self.answered.set_exception(error)
            self.answered.exception()  # perhaps nobody waits any more


class AttemptRecords:
    """The records of one attempt; its coroutines run on the worker's loop."""

    def __init__(self, sender: Sender, claim: Claim, *, is_async: bool) -> None:
        self.claim = claim
        self.is_async = is_async
        self.lost = False
        self._sender = sender
        self._number = 0
        self._lines: deque[bytes] = deque(maxlen=LOG_LIMIT)
        self._progress: bytes | None = None
        self._writes: list[Write] = []
        # What a shard that is away has not answered: it is sent again as it was, at this time.
        self._unanswered: tuple[tuple[Record, ...], list[Write]] | None = None
        self.not_before = -inf
        self._lock = threading.Lock()  # notes come from threads
        self._ends = False
        self._begun: set[str] = set()
        self._known: Known | None = None
        self._reading = asyncio.Lock()
        self._checkpoint: bytes | None = None
        # What it has spent of limits besides the costs of its job.
        self.spent: dict[str, int] = {}

    # -- what a task asks for ------------------------------------------------------------

    async def begin(self, name: str) -> bytes | None:
        """The recorded result of the step; refuses a name that comes twice, and too many."""
        if name in self._begun:
            raise Fail(
                f"step {name!r} was used twice in one attempt of job {self.claim.id}; give each"
                ' step a name of its own, such as f"page-{number}"',
                "step",
            )
        self._begun.add(name)
        steps = (await self._read()).steps
        if name not in steps and len(steps.keys() | self._begun) > STEP_LIMIT:
            raise Fail(
                f"step {name!r} would be number {STEP_LIMIT + 1} of job {self.claim.id}, and a job"
                f" has at most {STEP_LIMIT}; keep a checkpoint, or let a step do more",
                "step",
            )
        if name not in steps:
            self._sender.at_step(name, ran=False)
        return steps.get(name)

    async def write(self, kind: RecordKind, name: str, value: bytes) -> None:
        """Record a step or checkpoint."""
        if kind == "step":
            self._sender.at_step(name, ran=True)
        await self._write(kind, name, value)
        if kind == "checkpoint":
            self._checkpoint = value

    async def last_checkpoint(self) -> bytes | None:
        """The newest checkpoint."""
        return self._checkpoint or (await self._read()).checkpoint

    def note(self, kind: RecordKind, value: bytes) -> None:
        """Record progress or a log line soon."""
        self._check()
        with self._lock:
            first = not self.is_waiting
            if kind == "log":
                self._lines.append(value)
            else:
                self._progress = value
        if first:
            self._sender.wake(at_once=False)

    def spend(self, limit: str, cost: int) -> None:
        """Charge the limit with the attempt's outcome."""
        self._check()
        with self._lock:
            self.spent[limit] = self.spent.get(limit, 0) + cost

    def wait_for(self, work: Works[T]) -> T:
        """Run a coroutine for a plain function."""
        return self._sender.wait_for(self, work)

    async def await_on_loop(self, work: Works[T]) -> T:
        """Run a coroutine on the worker's loop."""
        loop = self._sender.loop
        if asyncio.get_running_loop() is loop:
            return await work()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), loop))

    async def _read(self) -> Known:
        """What earlier attempts have recorded, read once."""
        self._check()
        async with self._reading:
            if self._known is None:
                self._known = await self._sender.read(self.claim.id)
        return self._known

    async def _write(self, kind: RecordKind | None, name: str = "", value: bytes = b"") -> None:
        self._check()
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._writes.append(Write(kind, name, value, answered))
        self._sender.wake(at_once=True)
        await answered

    def _check(self) -> None:
        if self.lost:
            raise lease_lost(self.claim)

    # -- what the recorder asks for ------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Whether something has not been sent."""
        return self.hurries or bool(self._lines) or self._progress is not None

    @property
    def hurries(self) -> bool:
        """Whether somebody waits for what has not been sent, or not been answered."""
        return bool(self._writes) or self._unanswered is not None

    def take(self, *, progress: bool) -> tuple[tuple[Record, ...], list[Write]]:
        """What is to be sent now, numbered, and who waits for it."""
        again, self._unanswered = self._unanswered, None
        if again is not None:
            return again
        with self._lock:
            records = [self._numbered("log", line) for line in self._lines]
            self._lines.clear()
            if self._progress is not None and (progress or self._ends):
                records.append(self._numbered("progress", self._progress))
                self._progress = None
            writes, self._writes = self._writes, []
        records += [
            self._numbered(each.kind, each.value, each.name)
            for each in writes
            if each.kind is not None
        ]
        return tuple(records), writes

    def put_back(self, records: tuple[Record, ...], writes: list[Write], until: float) -> None:
        """Nobody has answered: send the same again, not before then, and only then what is new."""
        self._unanswered, self.not_before = (records, writes), until
        if self.lost:
            self.end()

    async def flush(self) -> None:
        """Wait until all that was noted is recorded, also what is under way."""
        self._ends = True
        if self._number or self.is_waiting:
            await self._write(None)

    def end(self) -> None:
        """The attempt has ended: whoever still waits gets LeaseLost."""
        self.lost = True
        _, unanswered = self._unanswered or ((), [])
        for each in (*unanswered, *self._writes):
            each.fail(lease_lost(self.claim))
        self._writes, self._unanswered = [], None

    def _numbered(self, kind: RecordKind, value: bytes, name: str = "") -> Record:
        self._number += 1
        return Record(kind, self._number, value, name)


def lease_lost(claim: Claim) -> LeaseLost:
    """What ends an attempt whose lease was lost."""
    return LeaseLost(
        f"job {claim.id}: its lease (token {claim.token}) is no longer held: the job was canceled,"
        " or another worker has it"
    )
