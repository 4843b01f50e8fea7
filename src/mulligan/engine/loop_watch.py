"""The loop watch: notices that the event loop is blocked, logs by whom, and measures how long.

A coroutine that computes or blocks instead of awaiting holds up every other attempt of its worker.
While attempts run, the loop ticks. A thread notices when a tick is late, and what the loop runs
meanwhile. The deadline of an attempt does not count the time for which others blocked the loop.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from math import inf
from pathlib import Path
from types import FrameType, TracebackType, coroutine
from typing import Any, NamedTuple, Self

from mulligan.core.job import Claim
from mulligan.core.signals import SoftTimeout
from mulligan.engine.current import RUNNING
from mulligan.engine.job_log import log_held, log_holding, log_late

# How often the loop ticks while attempts run. A tick that is as much too late was held up.
TICK = 0.1
# How often the thread looks.
LOOK = 0.25
# A coroutine that blocks the loop for longer is logged.
LONG = 1.0
# An attempt that runs on for so long after its timeout is logged.
LATE = 5.0
ENGINE = "mulligan.engine"
# A shorter rest of a deadline needs no timer.
LEAST = 0.001


class Holder(NamedTuple):
    """What blocks the loop: the attempt, if it can be identified, and its current line of code."""

    claim: Claim | None
    where: str
    task: int

    def is_same(self, other: "Holder | None") -> bool:
        """Whether it is the same attempt, at whatever line of code."""
        return other is not None and (self.claim, self.task) == (other.claim, other.task)


class LoopWatch:
    """Watches the running loop while `is_busy`; `claim_in` gives the claim that a frame runs."""

    def __init__(
        self, is_busy: Callable[[], bool], claim_in: Callable[[FrameType], Claim | None]
    ) -> None:
        self._is_busy = is_busy
        self._claim_in = claim_in
        self._loop = asyncio.get_running_loop()
        self._of_loop = threading.get_ident()
        self._thread: threading.Thread | None = None
        self._ticking = threading.Event()
        self._closing = threading.Event()
        self._total = 0.0
        self._ticked_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._holder: Holder | None = None
        self._since = 0.0
        self._named = False

    def begin(self) -> None:
        """Watch from now on, until no attempt runs."""
        if self._timer is not None or self._closing.is_set():
            return
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._look_on, name="mulligan-watch", daemon=True
            )
            self._thread.start()
        self._tick_later()
        self._ticking.set()

    def held(self) -> float:
        """For how many seconds in all the loop has been blocked so far."""
        since = time.monotonic() - self._ticked_at
        return self._total + (since if self._timer is not None and since > 2 * TICK else 0.0)

    def close(self) -> None:
        """End the thread."""
        self._closing.set()
        self._ticking.set()
        if self._timer is not None:
            self._timer.cancel()

    def look(self, now: float, awake_since: float) -> None:
        """Log what has blocked the loop for long, not counting time before `awake_since`."""
        if self._timer is None or now - self._ticked_at < LOOK:
            self._holder = None
            return
        frame = sys._current_frames().get(self._of_loop)  # noqa: SLF001 - nothing public
        holder = None if frame is None else self._holder_at(frame)
        if holder is None or not holder.is_same(self._holder):
            began = self._ticked_at if self._holder is None else now
            self._since = max(began, awake_since)
            self._named = False
        self._holder = holder
        if holder is not None and not self._named and now - self._since > LONG:
            self._named = True
            log_holding(holder.claim, now - self._since, holder.where)

    def _tick_later(self) -> None:
        self._ticked_at = time.monotonic()
        self._timer = self._loop.call_later(TICK, self._tick)

    def _tick(self) -> None:
        self._total = self.held()
        holder, self._holder = self._holder, None
        if holder is not None and self._named:
            self._named = False
            log_held(holder.claim, time.monotonic() - self._since, holder.where)
        if self._is_busy() and not self._closing.is_set():
            self._tick_later()
        else:
            self._timer = None
            self._ticking.clear()

    def _look_on(self) -> None:
        awake_since = 0.0
        while not self._closing.is_set():
            self._ticking.wait()
            before, spent = time.monotonic(), time.process_time()
            self._closing.wait(LOOK)
            now = time.monotonic()
            if now - before > 2 * LOOK and time.process_time() - spent < (now - before) / 2:
                awake_since = now  # the whole process was suspended: no attempt is to blame
            self.look(now, awake_since)

    def _holder_at(self, frame: FrameType) -> Holder | None:
        """What runs at the frame; None if the loop only waits."""
        task = asyncio.current_task(self._loop)
        if task is None:
            return None
        stack: list[FrameType] = []
        here: FrameType | None = frame
        while here is not None:
            claim = self._claim_in(here)
            if claim is not None:
                return Holder(claim, where(frame, stack), id(task))
            stack.append(here)
            here = here.f_back
        # A task that an attempt has started has its claim in its context (Python 3.12 and later).
        context = getattr(task, "get_context", None)
        return Holder(context().get(RUNNING) if context else None, where(frame, []), id(task))


def where(frame: FrameType, stack: list[FrameType]) -> str:
    """The line that runs, after the line of the user's task that led there if that is elsewhere."""
    own = next((each for each in reversed(stack) if not is_engine(each)), frame)
    file = own.f_code.co_filename
    led = next((each for each in stack if each.f_code.co_filename == file), frame)
    return line_of(frame) if led is frame else f"{line_of(led)}, from where {line_of(frame)}"


def is_engine(frame: FrameType) -> bool:
    """Whether the frame is of the engine itself."""
    return str(frame.f_globals.get("__name__")).startswith(ENGINE)


def line_of(frame: FrameType) -> str:
    """File, line and function of a frame, as text."""
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} in {frame.f_code.co_name}"


def never_held() -> float:
    """The loop is never blocked: on a virtual clock only waiting takes time."""
    return 0.0


class Countdown:
    """Calls `_expire` a number of seconds after `begin`, unless `end` comes first.

    `held` says for how long the loop was blocked so far. The end moves by the time for which others
    blocked the loop. Time for which the attempt blocked it itself counts as its own.
    """

    def __init__(self, seconds: float, held: Callable[[], float] = never_held) -> None:
        self._seconds = seconds
        self._held = held
        self._granted = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._over = False

    def begin(self) -> None:
        """Count from now on; does nothing once the work is done."""
        if not self._over and self._seconds < inf:
            self._granted = self._held()
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._due)

    def end(self) -> None:
        """Count no more: the work is done."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()

    @coroutine
    def watched(self, work: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Begin and run the coroutine; the time for which it blocks the loop counts as its own."""
        self.begin()
        step: Callable[[Any], Any] = work.send
        answer: Any = None
        while True:
            before, began = self._held(), time.monotonic()
            try:
                waits_for = step(answer)
            except StopIteration as ended:
                return ended.value
            # Only blocked time that `held` noticed, and no more than this step took.
            self._granted += min(self._held() - before, time.monotonic() - began)
            try:
                step, answer = work.send, (yield waits_for)
            except BaseException as error:  # noqa: BLE001 - the work deals with it
                step, answer = work.throw, error
            if (instead := self._instead_of(answer)) is not None:
                step, answer = work.throw, instead

    def _due(self) -> None:
        loop, held = asyncio.get_running_loop(), self._held()
        owed, self._granted = held - self._granted, held
        if owed > LEAST:
            self._timer = loop.call_later(owed, self._due)
        elif not self._over:
            self._expire()

    def _expire(self) -> None:
        raise NotImplementedError

    def _instead_of(self, answer: Any) -> BaseException | None:  # noqa: ARG002
        """What to raise in the work instead of the answer or error that it would get; or None."""
        return None


class Deadline(Countdown):
    """A timeout that counts from `begin`; the block that it is entered for ends by TimeoutError."""

    def __init__(self, seconds: float, held: Callable[[], float] = never_held) -> None:
        super().__init__(seconds, held)
        self._until = asyncio.timeout(None)

    @property
    def expired(self) -> bool:
        """Whether the time was over before the work was done."""
        return self._until.expired()

    async def __aenter__(self) -> Self:
        await self._until.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()
        await self._until.__aexit__(kind, error, trace)

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        self._until.reschedule(loop.time())
        self._timer = loop.call_later(LATE, self._log_late)

    def _log_late(self) -> None:
        log_late(RUNNING.get(None), LATE)


class CoroutineSoftTimeout(SoftTimeout, asyncio.CancelledError):
    """SoftTimeout as coroutines get it: task groups and libraries take it for a cancellation.

    So they end what they have begun, as they would when the attempt is cancelled.
    """


class SoftDeadline(Countdown):
    """Raises SoftTimeout once inside a coroutine that runs for too long, where it awaits."""

    _task: "asyncio.Task[Any] | None" = None

    async def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """The coroutine's own result; it may catch what is raised in it and go on."""
        try:
            return await self.watched(work)
        finally:
            self.end()

    def begin(self) -> None:
        """Count from now on."""
        self._task = asyncio.current_task()
        self._raised = False
        super().begin()

    def _expire(self) -> None:
        # Cancelling ends what the coroutine awaits. What that raises is replaced below.
        assert self._task is not None  # noqa: S101 - set by `begin`
        self._raised = True
        self._task.cancel()

    def _instead_of(self, answer: Any) -> BaseException | None:  # noqa: ARG002
        """SoftTimeout, for the cancellation by `_expire`; others are passed on as they are."""
        if not self._raised:
            return None
        assert self._task is not None  # noqa: S101 - set by `begin`
        self._raised = False
        if self._task.uncancel():
            return None  # it is cancelled for another reason too: its timeout, or a lost lease
        return CoroutineSoftTimeout(f"the attempt has run for {self._seconds:g} s")
