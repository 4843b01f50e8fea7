"""The workers of a simulation: one engine each, and a new one for each that dies."""

import asyncio
import random
from contextvars import copy_context
from typing import TYPE_CHECKING, NamedTuple

from mulligan.core.errors import InvalidError
from mulligan.core.fetch import Only, Separate
from mulligan.core.settings import Settings
from mulligan.core.worker import Worker
from mulligan.engine.task_caller import Target
from mulligan.engine.worker import Engine
from mulligan.sim.loop import RANK
from mulligan.sim.scenario import Region, Scenario
from mulligan.sim.store import Recorder
from mulligan.sim.work import TASK

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUE = "default"


class Post(NamedTuple):
    """A worker of the scenario, whatever incarnation of it runs."""

    rank: int
    name: str
    region: Region
    only: Only | None


class Member(NamedTuple):
    """One incarnation of a worker."""

    post: Post
    life: int
    engine: Engine
    task: "asyncio.Task[None]"


class Fleet:
    """Starts, crashes and stops the workers; `ended` is called for each that ends."""

    def __init__(
        self,
        scenario: Scenario,
        store: Recorder,
        ended: "Callable[[asyncio.Task[None]], None]",
    ) -> None:
        self._scenario = scenario
        self._store = store
        self._ended = ended
        self._tasks: dict[str, Target] = {}
        self._members: dict[str, Member] = {}
        self._dying: set[asyncio.Task[None]] = set()

    def start(self, work: Target) -> None:
        """Start every worker, in the scenario's order, to do this work."""
        self._tasks = {TASK: work}
        for post in posts(self._scenario):
            self._start(post, 1)

    def crash(self, worker: str) -> None:
        """Kill a worker without a goodbye; its successor starts at once."""
        member = self._members.pop(worker)
        self._store.crash(member.engine.worker)
        at_once(member.engine)
        self._dying.add(member.task)
        self._start(member.post, member.life + 1)

    async def stop(self) -> None:
        """End all workers, whatever they are doing."""
        for member in self._members.values():
            at_once(member.engine)
        tasks = [member.task for member in self._members.values()]
        await asyncio.gather(*tasks, *self._dying)

    def _start(self, post: Post, life: int) -> None:
        region = post.region
        id_ = post.name if life == 1 else f"{post.name}.{life}"
        settings = Settings(concurrency=region.concurrency)
        worker = Worker(
            id_, region.name, (QUEUE,), settings.lease, region.concurrency, post.only, post.name
        )
        self._store.ranks[id_] = post.rank
        loop = asyncio.get_running_loop()
        # What the worker starts has its rank, the attempts too: their context is the engine's.
        context = copy_context()
        context.run(RANK.set, post.rank)
        engine = context.run(
            Engine,
            self._store,
            self._tasks,
            worker,
            settings,
            chance=random.Random(f"{self._scenario.seed}/{id_}"),
            monotonic=loop.time,
            hold_through_backoff=self._scenario.hold_through_backoff,
        )
        task = loop.create_task(engine.run(), context=context)
        task.add_done_callback(self._ended)
        self._members[id_] = Member(post, life, engine, task)


def at_once(engine: Engine) -> None:
    """Stop the engine at once, and cut off what it runs."""
    engine.stop()
    engine.stop()


def posts(scenario: Scenario) -> list[Post]:
    """The workers in order; under `separate`, half of each region is for retries alone."""
    separate = isinstance(scenario.queue.policy, Separate)
    found: list[Post] = []
    for region in scenario.regions:
        for number in range(1, region.workers + 1):
            only: Only | None = None
            if separate:
                only = "retries" if number > region.workers - region.workers // 2 else "fresh"
            found.append(Post(len(found), f"{region.name}-{number}", region, only))
    if separate and all(post.only == "fresh" for post in found):
        raise InvalidError(
            "policy separate needs a region with two workers or more, to leave one to retries;"
            " raise workers"
        )
    return found
