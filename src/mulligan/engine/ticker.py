"""Places the ticks of schedules. Every worker runs one; any number of them place each tick once."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.json import encode
from msgspec.structs import replace

from mulligan.core.errors import InvalidError, StoreError
from mulligan.core.job import Enqueued, NewJob
from mulligan.core.known_tasks import DECLARE_EVERY, DECLARES, KEEP_DECLARED, read_declared
from mulligan.core.reschedule import Reschedule
from mulligan.engine.events import Events
from mulligan.engine.loops import StoreRetry
from mulligan.engine.tracing import Tracing, store_traced
from mulligan.stores.contract import Store

# What reads schedules and decides ticks is imported when there are schedules: few stores have any.
if TYPE_CHECKING:
    from mulligan.core.schedule import Schedule, Stored

log = logging.getLogger("mulligan.worker")
# How long the ticker sleeps at most and at least, and where there are no schedules.
LONGEST_SLEEP, SHORTEST_SLEEP, IDLE_SLEEP = 30.0, 0.01, 600.0


class Ticker:
    """Places what is due, and the next tick of each schedule, and keeps declared ones alive.

    `declared` are the schedules of this worker's tasks, `offset` the seconds that it leaves to
    others. An edit of a schedule changes the epoch of the facts: `wake` is called then.
    """

    def __init__(
        self,
        store: Store,
        declared: "Sequence[Schedule]",
        worker: str,
        *,
        offset: float = 0.0,
        tracing: Tracing | None = None,
        events: Events | None = None,
    ) -> None:
        self._store = store
        self._declared = {schedule.name: schedule for schedule in declared}
        self._worker = worker
        self._offset = offset
        self._tracing = tracing
        self._events = events
        self._renewed: float | None = None
        self._undeclared = list(self._declared)
        self._warned: set[str] = set()
        self._woken = asyncio.Event()
        self._store_retry = StoreRetry("schedules")

    def wake(self) -> None:
        """Look at once: somebody may have changed a schedule."""
        self._woken.set()

    async def run(self) -> None:
        """Place ticks until cancelled."""
        while True:
            self._woken.clear()
            pause = await self._store_retry.call(self.look)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._woken.wait()

    async def leave(self) -> None:
        """Declare no more."""
        if self._declared:
            await self._store.note(DECLARES + self._worker, None, 0.0)

    async def first(self) -> None:
        """Look before the first claim, so that what was missed is settled before anything runs."""
        with contextlib.suppress(StoreError, OSError):
            await self.look()

    async def look(self) -> float:
        """Place the ticks that are missing; returns the seconds until the next look."""
        stored, now = await self._read()
        await self._renew(now)
        while self._undeclared:
            stored, now = await self._declare(self._undeclared[0], stored, now)
            del self._undeclared[0]
        if not stored:
            return IDLE_SLEEP
        from mulligan.core.ticks import look_again_in, tick, undeclared  # noqa: PLC0415

        live = await self._live(stored)
        pauses = [LONGEST_SLEEP]
        for name, each in stored.items():
            if each.schedule.declared and name not in live:
                await self._apply(undeclared(each, now))
            elif name in self._declared and each.schedule.undeclared is not None:
                self._undeclared.append(name)
                pauses.append(0.0)
            elif not self._may_tick(each):
                continue
            elif (change := tick(each, now)) is not None:
                if await self._placed(change):
                    pauses.append(0.0)  # a batch of missed ticks may not have been the last
            elif (pause := look_again_in(each.schedule, now, self._offset)) is not None:
                pauses.append(pause)
        return min(max(min(pauses), SHORTEST_SLEEP), LONGEST_SLEEP)

    async def _renew(self, now: float) -> None:
        """Say again which schedules this worker declares."""
        renewed = self._renewed
        if self._declared and (renewed is None or not 0 <= now - renewed < DECLARE_EVERY):
            self._renewed = now
            key, names = DECLARES + self._worker, sorted(self._declared)
            await self._store.note(key, encode(names), KEEP_DECLARED)

    async def _read(self) -> "tuple[dict[str, Stored], float]":
        """The schedules, and then the time: by an earlier one ticks would seem too far ahead.

        This process may be stopped between the two, and a clock that was set back is not meant.
        """
        found = await self._store.schedules()
        now = (await self._store.facts()).now
        if not found:
            return {}, now
        from mulligan.core.schedule import read_schedules  # noqa: PLC0415

        return read_schedules(found), now

    async def _declare(
        self, name: str, stored: "dict[str, Stored]", now: float
    ) -> "tuple[dict[str, Stored], float]":
        """Store a schedule that a task of this worker declares, as often as others change it.

        Returns the schedules as they are then, and the time at which they were read.
        """
        from mulligan.core.schedule import read_schedules  # noqa: PLC0415
        from mulligan.core.ticks import declare  # noqa: PLC0415

        while True:
            before = stored.get(name)
            if before is not None and not before.schedule.declared:
                log.warning(
                    "task %s has cron= or every=, and does not run by it: a stored schedule has its"
                    " name; remove that one, or give the task another name=",
                    name,
                )
                return stored, now
            change = declare(before, self._declared[name], now)
            if change is None or await self._apply(change):
                break
            stored, now = await self._read()
        if change is not None:
            stored |= read_schedules({name: change.after or b""})
        return stored, now

    async def _live(self, stored: "dict[str, Stored]") -> set[str]:
        """The declared schedules that a live worker declares."""
        others = any(s.declared and name not in self._declared for name, (s, _) in stored.items())
        if not others:
            return set(self._declared)
        return {*self._declared, *read_declared(await self._store.notes(DECLARES))}

    def _may_tick(self, each: "Stored") -> bool:
        """Whether this process can sign the jobs of the schedule, if they must be signed."""
        refusal: Callable[[str, bytes], str | None] | None
        refusal = getattr(self._store, "refusal_of_schedule", None)
        reason = "its jobs are signed, and this process has no signing keys"
        if refusal is not None:
            reason = refusal(each.schedule.name, each.record) or ""
        elif each.schedule.signed is None:
            reason = ""
        name = each.schedule.name
        if reason and refusal is not None and name not in self._warned:
            self._warned.add(name)
            log.error("schedule %s does not tick here: %s", name, reason)
        return not reason

    async def _placed(self, change: Reschedule) -> bool:
        """Place ticks; False if the store refuses them, which holds up no other schedule."""
        try:
            await self._apply(change)
        except InvalidError as error:
            if change.name not in self._warned:
                self._warned.add(change.name)
                log.error("schedule %s does not tick: %s", change.name, error)  # noqa: TRY400
            return False
        self._warned.discard(change.name)
        return True

    async def _apply(self, change: Reschedule | None) -> bool:
        """Carry the change out; False if another process was first."""
        if change is None:
            return True
        done = False

        async def send(jobs: Sequence[NewJob]) -> list[Enqueued]:
            nonlocal done
            done = await self._store.reschedule(replace(change, place=tuple(jobs)))
            return [Enqueued(job.id, created=done) for job in jobs]

        if not change.place:
            await send(())
            return done
        answers = await store_traced(self._tracing, change.place, send)
        if done and self._events is not None:
            self._events.stored(change.place, answers)
        if done:
            log.info("schedule %s: next at %s", change.name, change.place[-1].id[-20:])
        return done
