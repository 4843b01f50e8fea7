"""What goes wrong in a simulated day: with processes, lines, regions and clocks."""

import asyncio
import contextlib
import random
from collections.abc import Callable
from functools import partial

from tests.dst.plan import Trouble
from tests.dst.world import Member, World
from tests.history import Fault


class Troubled(World):
    """A world in which the troubles of the plan happen, each by a method of its name."""

    async def _befall(self, trouble: Trouble) -> None:
        if not self._members:
            return  # nobody is left to whom anything could happen
        self.faults[trouble.what] += 1
        chance = random.Random(f"{self.plan.seed}/{trouble.at}/{trouble.draw}")
        about = await getattr(self, f"_{trouble.what}")(chance)
        if about is not None:
            self.note(Fault(what=trouble.what, about=about))

    def _some(self, chance: random.Random) -> Member:
        """A worker, mostly one that has something to lose."""
        busy = [each for each in self._members if each.engine.slots.holding]
        return chance.choice(busy if busy and chance.random() < 0.8 else self._members)

    async def _crash(self, chance: random.Random) -> None:
        member = self._some(chance)
        delay = chance.uniform(1, 1800)
        fault = Fault(what="crash", about=member.engine.worker.id)
        self._strike(chance, member, fault, lambda: self._kill(member, delay))

    def _strike(
        self, chance: random.Random, member: Member, fault: Fault, strike: Callable[[], None]
    ) -> None:
        """Now, or just when the store has done something for it that it has not heard of."""

        def struck() -> None:
            self.note(fault)
            strike()

        if chance.random() < 0.5:
            struck()
        else:
            member.line.ambush(chance.choice(("claim", "commit", "commit", "reclaim")), struck)

    def _kill(self, member: Member, delay: float) -> None:
        """Nothing more is heard of it; after the delay its successor starts."""
        if member not in self._members or self.at_peace:
            return
        self._members.remove(member)
        member.line.dead = True
        member.line.thaw()
        member.children.die()
        member.engine.slots.stop()
        member.task.cancel()
        self._dying.append(asyncio.ensure_future(gone(member.task)))
        self._later(delay, member)

    def _later(self, delay: float, member: Member) -> None:
        self.loop.call_later(delay, self._start, member.post, member.life + 1)

    async def _freeze(self, chance: random.Random) -> None:
        member = self._some(chance)
        seconds = chance.uniform(0.5, 3.0) * self.plan.settings.lease
        fault = Fault(what="freeze", about=f"{member.engine.worker.id} for {seconds:.0f} s")
        self._strike(chance, member, fault, lambda: self._hold(member, seconds))

    def _hold(self, member: Member, seconds: float) -> None:
        if not self.at_peace:
            member.line.freeze()
            self.loop.call_later(seconds, member.line.thaw)

    async def _drain(self, chance: random.Random) -> None:
        member = self._some(chance)
        fault = Fault(what="drain", about=member.engine.worker.id)
        self._strike(chance, member, fault, lambda: self._retire(member))

    async def _roll(self, chance: random.Random) -> str:
        for place, member in enumerate(list(self._members)):
            self.loop.call_later(60.0 * place, self._retire, member)
        return "all"

    async def _turnover(self, _chance: random.Random) -> str:
        """Drain each just when the store has given it jobs, or none, that it has not heard of."""
        for member in self._members:
            member.line.ambush("claim", partial(self._retire, member))
        return "all"

    def _retire(self, member: Member) -> None:
        """Drain it, and start its successor when it is gone."""
        if member not in self._members or self.at_peace:
            return
        self._members.remove(member)
        member.engine.stop()
        self._dying.append(member.task)
        member.task.add_done_callback(lambda _: self._later(1.0, member))

    async def _cut(self, chance: random.Random) -> str:
        region = chance.choice(sorted({region for _, region in self.plan.posts}))
        seconds = chance.uniform(0.1, 3.0) * self.plan.settings.lease
        self._cutting.add(region)
        self._see_cuts()
        self.loop.call_later(seconds, self._mend_cut, region)
        return f"{region} for {seconds:.0f} s"

    def _mend_cut(self, region: str) -> None:
        self._cutting.discard(region)
        self._see_cuts()

    def _see_cuts(self) -> None:
        for member in self._members:
            member.line.cut = member.post[1] in self._cutting

    async def _break(self, chance: random.Random) -> str:
        region = chance.choice(sorted({region for _, region in self.plan.posts}))
        self.broken_regions.add(region)
        seconds = chance.uniform(60, 7200)
        self.loop.call_later(seconds, self.broken_regions.discard, region)
        return f"{region} for {seconds:.0f} s"

    async def _noise(self, chance: random.Random) -> str:
        seconds = chance.uniform(60, 3600)
        self._hear(noisy=True)
        self.loop.call_later(seconds, lambda: self._hear(noisy=False))
        return f"for {seconds:.0f} s"

    def _hear(self, *, noisy: bool) -> None:
        self._noisy = noisy
        for member in self._members:
            member.line.noisy = noisy

    async def _clock(self, chance: random.Random) -> None:
        by = chance.choice((-600.0, -30.0, 30.0, 600.0, 7200.0))
        self.note(Fault(what="clock", about=f"{by:+g} s", seconds=by))
        self.skew += by


async def gone(task: "asyncio.Future[None]") -> None:
    """Wait for a task that was cancelled."""
    with contextlib.suppress(asyncio.CancelledError):
        await task
