"""A child process of a worker: runs attempts one by one, and sends back results and logs."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from types import FrameType
from typing import Any, TypeVar

import msgspec

from mulligan.core.at_once import at_once
from mulligan.core.job import Claim
from mulligan.core.outcome import Failed, Result
from mulligan.core.settings import Settings
from mulligan.core.signals import SoftTimeout
from mulligan.engine.child_messages import Logged, Run, ended, framed, receive
from mulligan.engine.child_records import ChildRecords
from mulligan.engine.current import RUNNING
from mulligan.engine.job_log import JOB_FIELDS, job_fields, span_ids
from mulligan.engine.result_gate import asked, failed
from mulligan.engine.task_caller import Target, TaskCaller, predicate_of
from mulligan.engine.tracing import Tracing, resumed

T = TypeVar("T")
# Attributes of a log record that the worker makes anew, or that only mean something in the child.
NOT_CARRIED = {"args", "msg", "exc_info", "stack_info", "thread", "process", "taskName"}
CARRIED = (str, int, float, bool, type(None))


class Child:
    """Serves attempts from a socket. `lifespan` is entered before the first, if it is given."""

    def __init__(
        self,
        connection: socket.socket,
        tasks: Mapping[str, Target],
        settings: Settings,
        *,
        lifespan: Callable[[], AbstractAsyncContextManager[None]] | None = None,
        log_level: int = logging.INFO,
        tracing: Tracing | None = None,
        limits: Collection[str] = (),
    ) -> None:
        self._connection = connection
        self._tracing = tracing
        self._tasks = tasks
        self._lifespan = lifespan
        self._sending = threading.Lock()
        self._arrived = Arrived()
        self._alarm = Alarm()
        self._records = ChildRecords(connection, self.send, self._alarm.deferred, limits)
        self._caller = TaskCaller(self._arrived, settings, self._alarm, records=self._records)
        self._runner = asyncio.Runner()
        send_logs(self, log_level)

    def serve(self) -> None:
        """Run attempts until the worker closes its end."""
        with self._runner:
            lifespan = None if self._lifespan is None else self._lifespan()
            broken: Failed | None = None
            if lifespan is not None:
                try:
                    self._runner.run(entered(lifespan))
                except Exception as error:  # noqa: BLE001 - whatever the lifespan raises
                    broken = Failed("LifespanFailed", f"in a child process: {error}")
            decoder = msgspec.msgpack.Decoder(Run)
            while (run := receive(self._connection, decoder)) is not None:
                self._records.begin(run.claim)
                result = broken or self._asked(run)
                self._records.end()
                self.send(ended(result))
                for stream in (sys.stdout, sys.stderr):
                    stream.flush()
            if lifespan is not None and broken is None:
                self._runner.run(left(lifespan))

    def send(self, message: Any) -> None:
        """Send a message to the worker, from any thread; a worker that is gone needs none."""
        with self._sending, contextlib.suppress(OSError):
            self._connection.sendall(framed(message))

    def _asked(self, run: Run) -> Result:
        """The result; whether it is retried may be the task's own decision, which is made here."""
        target = self._tasks.get(run.claim.task)
        retry_if = None if target is None else predicate_of(target, run.claim)
        with resumed(self._tracing, run.trace):
            return asked(self._result(run), retry_if)

    def _result(self, run: Run) -> Result:
        claim, context = run.claim, copy_context()
        target = self._tasks.get(claim.task)
        if target is None:
            return Failed(
                "UnknownTask",
                f"no task is named {claim.task!r} in the child process; import its module where the"
                " app is, then replay",
            )
        self._arrived.found = run.arrived or {}
        self._alarm.seconds = target.runs.soft_timeout
        attempt = self._caller.result(claim, target)
        try:
            if target.is_async or target.around is not None:
                return self._runner.run(attempt, context=context)
            return context.run(at_once, attempt)
        except BaseException as error:  # noqa: BLE001 - a task that cancelled itself, for instance
            return failed(error)


async def entered(lifespan: AbstractAsyncContextManager[None]) -> None:
    """Enter the lifespan."""
    await lifespan.__aenter__()


async def left(lifespan: AbstractAsyncContextManager[None]) -> None:
    """Leave the lifespan."""
    await lifespan.__aexit__(None, None, None)


class Arrived:
    """What the worker has read for a gathering job."""

    found: Mapping[int, bytes | None] = {}

    async def arrivals(self, job: str) -> Mapping[int, bytes | None]:  # noqa: ARG002
        """The results that have arrived at the job."""
        return self.found


class Alarm:
    """Calls plain functions here, in the main thread, and raises SoftTimeout in one by SIGALRM."""

    seconds: float | None = None

    def __init__(self) -> None:
        self._armed = False
        self._defers = False
        self._rung = False

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Raise nothing before this is left: what is half read from a socket would be lost."""
        self._defers = True
        try:
            yield
        finally:
            self._defers = False
            if self._rung:
                self._rung = False
                raise self._late()

    async def run(self, call: Callable[[], Any], timeout: float | None) -> Any:  # noqa: ARG002, ASYNC109
        """Call it; the worker looks after the timeout, and kills this process."""
        # The function may run a loop of its own, which it could not inside of another.
        loop = asyncio._get_running_loop()  # noqa: SLF001 - for those who run loops
        asyncio._set_running_loop(None)  # noqa: SLF001
        try:
            return self._call(call)
        finally:
            asyncio._set_running_loop(loop)  # noqa: SLF001

    def _call(self, call: Callable[[], Any]) -> Any:
        if self.seconds is None:
            return call()
        signal.signal(signal.SIGALRM, self._ring)
        self._armed = True
        signal.setitimer(signal.ITIMER_REAL, self.seconds)
        try:
            return call()
        finally:
            self._armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _ring(self, _number: int, _frame: FrameType | None) -> None:
        if self._armed:
            self._armed = False
            self._rung = self._defers
            if not self._defers:
                raise self._late()

    def _late(self) -> SoftTimeout:
        return SoftTimeout(f"the attempt has run for {self.seconds:g} s")


def send_logs(child: Child, level: int) -> None:
    """Send all that is logged in this process to the worker, and nothing anywhere else.

    The worker has the same loggers, with the handlers that the app has given them.
    """
    for logger in list(logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger):
            logger.handlers.clear()
            logger.propagate = True
    logging.root.handlers[:] = [LogSender(child)]
    logging.root.setLevel(level)


class LogSender(logging.Handler):
    """Sends records to the worker; a line that a task logs carries its job."""

    def __init__(self, child: Child) -> None:
        super().__init__()
        self._child = child

    def emit(self, record: logging.LogRecord) -> None:
        """Send the record; what it cannot carry is sent as text."""
        try:
            self._child.send(Logged(carried(record, RUNNING.get(None))))
        except Exception:  # noqa: BLE001 - as every handler
            self.handleError(record)


def carried(record: logging.LogRecord, claim: Claim | None) -> dict[str, Any]:
    """The attributes of a record, as `logging.makeLogRecord` takes them."""
    fields: dict[str, Any] = {
        name: value if isinstance(value, CARRIED) else str(value)
        for name, value in vars(record).items()
        if name not in NOT_CARRIED
    }
    fields["msg"] = record.getMessage()
    if record.exc_info and not record.exc_text:
        fields["exc_text"] = logging.Formatter().formatException(record.exc_info)
    if claim is not None and not any(name in fields for name in JOB_FIELDS):
        fields.update(job_fields(claim))
    fields |= {name: fields.get(name, value) for name, value in span_ids().items()}
    fields["process"] = os.getpid()
    return fields
