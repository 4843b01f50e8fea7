"""Slots: which claims of a worker run, which wait for a slot, and which must run alone."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from mulligan.core.decide import isolated
from mulligan.core.job import Claim, Lease
from mulligan.core.settings import BATCH_LIMIT
from mulligan.engine.claim_runner import ClaimRunner, HeldClaim
from mulligan.engine.job_log import job_fields

# Crash suspects wait no longer than this for other attempts to end, nor do others wait for them.
LONGEST_ISOLATION = 30.0
# While attempts take no longer on average, jobs are prefetched.
SHORT = 0.02
# Beyond one for each slot, no more are prefetched than start within this time: a retry that falls
# due waits for them.
AHEAD = 0.005
# A prefetched job waits no longer than this for a slot.
LONGEST_WAIT = 0.05
# The weight of the last attempt, and of the last claim, in their averages.
WEIGHT = 1 / 8
# Clocks tell no shorter time.
SHORTEST = 1e-6


class Slots:
    """Admits claims and has `attempt` run each that has a slot, until it is released.

    A claim that the worker holds runs, or waits for a slot (prefetch), or is a crash suspect that
    waits for all other attempts to end (isolation). A slot may also be kept through a backoff, when
    the claim is no longer held. `give_back` returns jobs unstarted, `flushed` waits until the
    outcomes so far are written, `lost` logs a lost lease.
    """

    def __init__(
        self,
        count: int,
        *,
        attempt: Callable[[HeldClaim], Coroutine[Any, Any, None]],
        give_back: Callable[[Iterable[Claim]], None],
        flushed: Callable[[], Awaitable[None]],
        lost: Callable[[Lease, str, Mapping[str, Any]], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._count = count
        self._give_back = give_back
        self._flushed = flushed
        self._lost = lost
        self._monotonic = monotonic
        self._held: dict[HeldClaim, None] = {}  # in the order of their claims
        self._backing_off: set[asyncio.Future[None]] = set()
        self._isolation: asyncio.Task[None] | None = None
        self._draining = False
        self._changed = asyncio.Event()
        self._runner = ClaimRunner(
            count,
            attempt,
            lambda: self._used - count,
            self.put_back,
            monotonic=monotonic,
            cpu_time=time.thread_time if monotonic is time.monotonic else monotonic,
        )
        self._prefetch = Prefetch(
            count,
            self._runner.start_next,
            self.put_back,
            monotonic=monotonic,
        )

    @property
    def demand(self) -> int:
        """How many more jobs to claim: for the free slots, and as prefetch.

        Prefetch is refilled when half of it has started, not one by one.
        """
        if self._isolation is not None:
            return 0
        free, most = self._free, self._prefetch.room
        if free <= 0 and 2 * len(self._prefetch) > most:
            return 0
        return min(free + most - len(self._prefetch), max(self._runner.batch, most))

    @property
    def is_busy(self) -> bool:
        """Whether a claim is held."""
        return bool(self._held)

    @property
    def holding(self) -> list[Lease]:
        """The leases of all claims that are held; may be read from another thread."""
        return [held.claim.lease for held in list(self._held)]

    @property
    def running(self) -> list[Claim]:
        """The claims that are held and do not wait for a slot."""
        waiting = {each.held for each in self._prefetch.waiting}
        return [held.claim for held in self._held if held not in waiting]

    def claim_took(self, seconds: float) -> None:
        """A claim was answered after this time: the longer it takes, the more is prefetched."""
        self._prefetch.learn_claim(seconds)

    def count(self, true: Callable[[Claim], bool]) -> int:
        """How many claims of this sort are held."""
        return sum(true(held.claim) for held in self._held)

    def admit(self, claims: list[Claim]) -> list[Claim]:
        """Start claims in this order as slots are free, keep the rest as prefetch; which it took.

        If there are crash suspects among them, those are taken alone and the others given back.
        """
        suspects = isolated(claims)
        if suspects:
            self._give_back([claim for claim in claims if claim not in suspects])
            self._isolation = asyncio.ensure_future(self._isolate(self._hold(suspects)))
            return suspects
        free = max(0, self._free)
        held = self._hold(claims)
        self._prefetch.add(held[free:])
        self._runner.start(held[:free])
        return claims

    def put_back(self, held: HeldClaim) -> None:
        """Hold the claim no longer, and give its job back unstarted."""
        self._held.pop(held, None)
        self._give_back([held.claim])

    def release(self, held: HeldClaim, began: float, *, learn: bool = True) -> None:
        """The attempt that began then has ended: its slot goes to the next prefetched claim.

        With `learn`, its time says whether attempts are short.
        """
        self._held.pop(held, None)
        if learn and held.task is not None:
            self._prefetch.learn(self._monotonic() - began)
        if self._prefetch.waiting and self._free > 0:
            self._prefetch.start_next()
        self._changed.set()

    async def keep_through_backoff(self, held: HeldClaim, delay: float) -> None:
        """Keep the slot, without the claim, until the retry is due or the worker drains."""
        self._held.pop(held, None)
        if self._draining:
            return
        backoff = asyncio.ensure_future(self._back_off(delay))
        self._backing_off.add(backoff)
        try:
            await asyncio.wait([backoff])
        finally:
            backoff.cancel()
            self._backing_off.discard(backoff)

    def abandon(self, leases: Iterable[Lease]) -> None:
        """Stop attempts whose lease is lost or whose job was cancelled; nothing is committed."""
        gone = set(leases)
        for held in [held for held in self._held if held.claim.lease in gone] if gone else ():
            self._lost(held.claim.lease, "its attempt is stopped", job_fields(held.claim))
            held.cut()

    def drain(self) -> None:
        """Start nothing more: prefetched claims and waiting crash suspects are given back."""
        self._draining = True
        self._prefetch.clear()
        for backoff in self._backing_off:
            backoff.cancel()
        self._changed.set()

    def stop(self) -> None:
        """Stop every attempt at once; their jobs will be reclaimed as lost."""
        for held in list(self._held):
            held.cut()

    async def changed(self) -> None:
        """Wait until an attempt has ended."""
        self._changed.clear()
        await self._changed.wait()

    async def idle(self) -> None:
        """Wait until no claim is held."""
        while self._held:
            await self.changed()

    @property
    def _used(self) -> int:
        """How many slots are in use; attempts that end within a turn may use more than there are.

        Prefetched claims use none.
        """
        return len(self._held) - len(self._prefetch.waiting) + len(self._backing_off)

    @property
    def _free(self) -> int:
        """How many more attempts may start."""
        return self._runner.room - self._used

    def _hold(self, claims: Sequence[Claim]) -> list[HeldClaim]:
        held = [HeldClaim(claim) for claim in claims]
        self._held.update(dict.fromkeys(held))
        return held

    async def _isolate(self, suspects: list[HeldClaim]) -> None:
        """Run crash suspects after all other attempts have ended, and before more are claimed.

        The outcomes of the others are written first, or they would be lost with the suspects. No
        wait is endless: an attempt that takes hours holds nobody up.
        """
        alone = set(suspects)
        try:
            await self._wait_until(lambda: self._draining or self._held.keys() <= alone)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._flushed(), LONGEST_ISOLATION)
            if self._draining:
                for held in suspects:
                    self.put_back(held)
                return
            self._runner.start(suspects)
            await self._wait_until(lambda: not self._held.keys() & alone)
        finally:
            self._isolation = None
            self._changed.set()

    async def _wait_until(self, true: Callable[[], bool]) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_ISOLATION):
                while not true():
                    await self.changed()

    async def _back_off(self, delay: float) -> None:
        # The delay counts from the commit. A claim sent before the retry is due brings fresh work.
        await self._flushed()
        await asyncio.sleep(delay)


class Prefetched(NamedTuple):
    """A claim without a slot, and since when it waits for one."""

    held: HeldClaim
    since: float


class Prefetch:
    """Keeps claims until a slot is free for them (`start`) or they are given back.

    A claim is a round trip to the store, which may take longer than a short attempt. So while
    attempts take no longer than SHORT on average, the worker claims one job more for each slot, and
    as many as start while two claims are answered: the next is sent when half of them have started.
    What is more than one for each slot is expected to start within AHEAD. Prefetched jobs start in
    the order of their claims. When one has waited for longer than LONGEST_WAIT, attempts are no
    longer short: all are given back, for other workers to claim.
    """

    def __init__(
        self,
        slots: int,
        start: Callable[[HeldClaim], None],
        give_back: Callable[[HeldClaim], None],
        *,
        monotonic: Callable[[], float],
    ) -> None:
        self._slots = slots
        self._start = start
        self._give_back = give_back
        self._monotonic = monotonic
        self._loop = asyncio.get_running_loop()
        self.waiting: deque[Prefetched] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._average = inf
        self._claim = 0.0  # how long a claim takes, on average

    def __len__(self) -> int:
        return len(self.waiting)

    @property
    def room(self) -> int:
        """How many claims may wait: none while attempts are not short."""
        attempt = max(self._average, SHORTEST)
        if attempt > SHORT:
            return 0
        ahead = min(attempt + 2 * self._claim, AHEAD)
        return max(self._slots, min(int(self._slots * ahead / attempt), BATCH_LIMIT))

    def learn(self, seconds: float) -> None:
        """Take the time of an attempt into the average."""
        average = seconds if self._average == inf else self._average
        self._average = average + WEIGHT * (seconds - average)

    def learn_claim(self, seconds: float) -> None:
        """Take the time of a claim into its average."""
        self._claim += WEIGHT * (seconds - self._claim)

    def add(self, attempts: Iterable[HeldClaim]) -> None:
        """Have these claims wait for slots."""
        now = self._monotonic()
        self.waiting.extend(Prefetched(held, now) for held in attempts)
        self._set_timer()

    def start_next(self) -> None:
        """Start the claim that has waited longest, if there is one: a slot is free."""
        if self.waiting:
            self._start(self.waiting.popleft().held)

    def clear(self) -> None:
        """Give all claims back."""
        while self.waiting:
            self._give_back(self.waiting.pop().held)

    def _set_timer(self) -> None:
        if self.waiting and self._timer is None:
            rest = self.waiting[0].since + LONGEST_WAIT - self._monotonic()
            self._timer = self._loop.call_later(max(rest, 0.0), self._check)

    def _check(self) -> None:
        self._timer = None
        if self.waiting and self.waiting[0].since + LONGEST_WAIT <= self._monotonic():
            self._average = inf
            self.clear()
        self._set_timer()
