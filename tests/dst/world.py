"""A simulated day: workers and producers on a virtual clock, and the history of what they do."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from mulligan.app.schedules import put_schedule, remove_schedule
from mulligan.core.errors import StoreError
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import Capped
from mulligan.core.job import NewJob
from mulligan.core.worker import Worker
from mulligan.engine.worker import Engine
from mulligan.sim.loop import OrderedLoop
from mulligan.stores import make_store
from mulligan.stores.contract import Store
from tests.dst.children import Children
from tests.dst.line import Line
from tests.dst.plan import DAY, Arrival, Plan, Trouble
from tests.dst.tasks import POOL_QUEUES, QUEUES, SERVED, app
from tests.history import AnyEvent, Clerk, InMemory, Recorder, take_stock

# The store's clock when a day begins: no round number.
EPOCH = 1_700_000_000.0
# After the day everything must end within this time, in peace.
PEACE = 20 * DAY
LOOK_EVERY = 600.0
# The limits that operators pause.
PAUSED_LIMITS = ("account1", "window", "bucket")


def recorded_shards(store: Any, clock: Callable[[], float]) -> list[InMemory]:
    """The histories of the shards, each seen by itself, where the store has several."""
    journals = []
    for shard in store.shards.all if hasattr(store, "shards") else ():
        journals.append(InMemory())
        shard.store = Recorder(shard.store, Clerk(journals[-1], f"shard {shard.number}", clock))
    return journals


class Member:
    """One incarnation of a worker process."""

    def __init__(
        self, post: tuple[str, str], life: int, line: Line, engine: Engine, children: Children
    ) -> None:
        self.post = post
        self.life = life
        self.line = line
        self.engine = engine
        self.children = children
        self.task = asyncio.ensure_future(engine.run())
        self.task.add_done_callback(lambda _: children.die())


class World:
    """Runs the plan of a seed on one store.

    The history is recorded where operations reach the store, so that all is known of it; with
    `as_clients` where processes ask for them, so that what was lost on the way is in doubt.
    """

    def __init__(self, plan: Plan, store: str, loop: OrderedLoop, *, as_clients: bool) -> None:
        self.plan = plan
        self.loop = loop
        self.chance = random.Random(f"world {plan.seed}")
        self.faults: Counter[str] = Counter()
        self.broken_regions: set[str] = set()
        self.hole: str | None = None
        self.at_peace = False
        self.journal = InMemory()
        self.skew = 0.0
        self._as_clients = as_clients
        self._store = make_store(store, self.store_time)
        self.shards = recorded_shards(self._store, loop.time)
        self._clerk = Clerk(self.journal, "world", loop.time)
        self._recorder = Recorder(self._store, self._clerk)
        self._members: list[Member] = []
        self._parts: list[object] = [self]
        self._dying: list[asyncio.Future[None]] = []
        self._producing: list[asyncio.Future[None]] = []
        self._cutting: set[str] = set()
        self._noisy = False

    def fitted(self, settings: QueueSettings) -> QueueSettings:
        """The settings for so many shards: each has a whole cap and budget as its part."""
        many = max(1, len(self.shards))
        policy, budget = settings.policy, settings.budget
        if isinstance(policy, Capped):
            policy = Capped(policy.limit * many)
        if budget is not None and budget.limit is not None:
            budget = replace(budget, limit=budget.limit * many)
        return replace(settings, policy=policy, budget=budget)

    def store_time(self) -> float:
        """The store's clock, which may be set forward and back."""
        return EPOCH + self.loop.time() + self.skew

    def note(self, event: AnyEvent) -> None:
        """Write something into the history."""
        self._clerk.note(event)

    async def run(self) -> list[AnyEvent]:
        """Let the day pass, and then let all that is left come to its end."""
        await self._store.open()
        for queue, settings in self.plan.queues.items():
            await self._recorder.configure(queue, self.fitted(settings))
        for name, limit in app.declared_limits.items():
            await self._recorder.set_limit(name, limit, declared=True)
        if self.plan.schedule is not None:
            await put_schedule(self._recorder, self.plan.schedule)
        for post in self.plan.posts:
            self._start(post, 1)
        if self.plan.hole is not None:
            self.loop.call_later(self.plan.hole.at, self._begin_hole, self.plan.hole.region)
            until = self.plan.hole.at + self.plan.hole.seconds
            self.loop.call_later(until, self._begin_hole, None)
        happenings: list[Arrival | Trouble] = [*self.plan.arrivals, *self.plan.troubles]
        happenings.sort(key=lambda each: each.at)
        for each in happenings:
            await asyncio.sleep(max(0.0, each.at - self.loop.time()))
            if isinstance(each, Trouble):
                await self._befall(each)
            else:
                self._producing.append(asyncio.ensure_future(self._produce(each.jobs)))
        await self._end()
        return self.journal.events

    def _begin_hole(self, region: str | None) -> None:
        """From now on this region fails calls at once, or none does."""
        self.hole = region

    async def _end(self) -> None:
        """Heal everything, wait until nothing is left to do, and take stock."""
        await asyncio.sleep(max(0.0, DAY - self.loop.time()))
        self.at_peace = True
        self._noisy = False
        self.broken_regions.clear()
        self._cutting.clear()
        for member in self._members:
            member.line.noisy = member.line.cut = False
            member.line.keeps_reclaims = True
            member.line.thaw()
        for queue in QUEUES:
            await self._recorder.pause(queue, paused=False)
        for name in PAUSED_LIMITS:
            await self._recorder.pause_limit(name, 0.0)
        if self.plan.schedule is not None:
            await remove_schedule(self._recorder, self.plan.schedule.name)
        until = self.loop.time() + PEACE
        while self.loop.time() < until and not await self._is_over():  # noqa: ASYNC110 - a look
            await asyncio.sleep(LOOK_EVERY)
        for member in self._members:
            member.engine.stop()
        await asyncio.gather(*(member.task for member in self._members), *self._dying)
        self.journal.events.append(await take_stock(self._store, rest=True))
        await self._store.close()

    def let_go(self) -> None:
        """Take it apart, so that nothing of it is left for the garbage collector to find."""
        for part in self._parts:
            vars(part).clear()

    async def _befall(self, trouble: Trouble) -> None:
        """Something goes wrong; in this world nothing does."""

    async def _is_over(self) -> bool:
        stats = await self._store.stats()
        producing = any(not each.done() for each in self._producing)
        return not stats.lanes and not stats.running and not producing

    def _line(self, process: str) -> Line:
        store: Store = self._store if self._as_clients else self._recorder
        line = Line(store, self.chance, self.faults, self.plan.latency)
        line.noisy = self._noisy
        line.keeps_reclaims = self.at_peace
        self._parts.append(line)
        return line

    def _handle(self, line: Line, process: str) -> Store:
        if not self._as_clients:
            return line
        return Recorder(line, Clerk(self.journal, process, self.loop.time))

    def _start(self, post: tuple[str, str], life: int) -> None:
        name, region = post
        process = f"{name}.{life}"
        settings = self.plan.settings
        worker = Worker(process, region, SERVED, settings.lease, settings.concurrency, None, name)
        line = self._line(process)
        line.cut = region in self._cutting
        children = Children(app.tasks, settings)
        engine = Engine(
            self._handle(line, process),
            app.tasks,
            worker,
            settings,
            chance=random.Random(f"{self.plan.seed}/{process}"),
            monotonic=self.loop.time,
            processes=children.processes(),
            pool_queues=POOL_QUEUES,
        )
        self._parts += [engine, children]
        self._members.append(Member(post, life, line, engine, children))

    async def _produce(self, jobs: list[NewJob]) -> None:
        """Enqueue until it is answered."""
        process = f"producer {jobs[0].id}"
        store = self._handle(self._line(process), process)
        while True:
            try:
                await store.enqueue(jobs)
            except (StoreError, OSError):
                await asyncio.sleep(self.chance.uniform(1, 30))
            else:
                return
