"""What an attempt in a child process records: it asks its worker, and waits for the answer."""

import socket
import threading
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import msgspec

from mulligan.core.job import Claim
from mulligan.core.record import RecordKind
from mulligan.core.signals import Fail, LeaseLost
from mulligan.engine.attempt_records import TaskRecords, Works, lease_lost
from mulligan.engine.child_messages import Answered, Asked, Noted, Spent, receive

T = TypeVar("T")


class ChildRecords:
    """The records of the attempt that runs in this process; any thread of it may ask.

    While an attempt runs, its worker sends nothing but answers. In the main thread no alarm
    interrupts an exchange: it is `deferred`.
    """

    def __init__(
        self,
        connection: socket.socket,
        send: Callable[[Any], None],
        deferred: Callable[[], AbstractContextManager[None]],
        limits: Collection[str] = (),
    ) -> None:
        self.limits = limits
        self._connection = connection
        self._send = send
        self._deferred = deferred
        self._decoder = msgspec.msgpack.Decoder(Answered)
        self._lock = threading.Lock()
        self._running: Claim | None = None

    def begin(self, claim: Claim) -> None:
        """This attempt runs now."""
        self._running = claim

    def end(self) -> None:
        """It has ended; a thread that it left behind records no more."""
        with self._lock:
            self._running = None

    def of(self, claim: Claim) -> TaskRecords:
        """What the attempt records."""
        if claim != self._running:
            raise lease_lost(claim)
        return AskedRecords(self, claim)

    def ask(self, claim: Claim, asked: Asked) -> bytes | None:
        """Ask the worker; raises Fail or LeaseLost if it says so."""
        main = threading.current_thread() is threading.main_thread()
        with self._deferred() if main else nullcontext(), self._lock:
            if claim != self._running:
                raise lease_lost(claim)
            self._send(asked)
            answer = receive(self._connection, self._decoder)
        if answer is None or answer.lost:
            raise LeaseLost("the worker is gone" if answer is None else answer.lost)
        if answer.refused:
            raise Fail(answer.refused, "step")
        return answer.value

    def note(self, claim: Claim, noted: Noted | Spent) -> None:
        """Tell the worker; it kills this process when the lease is lost."""
        if claim != self._running:
            raise lease_lost(claim)
        self._send(noted)


class AskedRecords:
    """What one attempt may ask. Nothing here is awaited: the attempt has the process to itself."""

    def __init__(self, records: ChildRecords, claim: Claim) -> None:
        self._records = records
        self._claim = claim

    async def begin(self, name: str) -> bytes | None:
        """The recorded result of the step."""
        return self._records.ask(self._claim, Asked("begin", name=name))

    async def write(self, kind: RecordKind, name: str, value: bytes) -> None:
        """Record a step or checkpoint."""
        self._records.ask(self._claim, Asked("write", kind, name, value))

    async def last_checkpoint(self) -> bytes | None:
        """The newest checkpoint."""
        return self._records.ask(self._claim, Asked("checkpoint"))

    def note(self, kind: RecordKind, value: bytes) -> None:
        """Record progress or a log line soon."""
        self._records.note(self._claim, Noted(kind, value))

    def spend(self, limit: str, cost: int) -> None:
        """Charge the limit with the attempt's outcome."""
        self._records.note(self._claim, Spent(limit, cost))

    def wait_for(self, work: Works[T]) -> T:
        """Run one of the coroutines above."""
        try:
            work().send(None)
        except StopIteration as answer:
            value: T = answer.value
            return value
        raise RuntimeError("a record waited for an event loop")

    async def await_on_loop(self, work: Works[T]) -> T:
        """Run one of the coroutines above."""
        return await work()
