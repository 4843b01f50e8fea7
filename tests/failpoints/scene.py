"""What a play has at hand: an app, a store of its own, and a worker that runs to the end."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from mulligan import Mulligan
from mulligan.app.using import Prepared
from mulligan.app.worker import new_worker, work
from mulligan.core.fairness import Carry, plan_claim
from mulligan.core.job import ENDED, Claim, Job
from mulligan.core.page import Selection
from mulligan.core.stats import Stats
from mulligan.core.worker import Worker
from mulligan.engine.worker import Engine
from mulligan.stores.contract import Store

LOOK_EVERY = 0.05
LONGEST_WAIT = 60.0
# The lease of a worker that is dead before the play begins.
GHOST_LEASE = 0.01


class Scene(NamedTuple):
    """The app, an open store, and the mark with which all ids of this play begin."""

    app: Mulligan
    store: Store
    mark: str

    def id(self, name: str) -> str:
        """The id of the job that the play knows by this name."""
        return f"{self.mark}-{name}"

    def name(self, job: str) -> str:
        """The name by which the play knows a job, without lives and times."""
        return re.sub(r"~\d+|@.*", "", job.removeprefix(f"{self.mark}-"))

    def call(self, name: str, task: str, *args: object, **options: object) -> Prepared[object]:
        """A call of a task, under an id of its own."""
        using = self.app.tasks[task].using(id=self.id(name), **options)  # type: ignore[arg-type]
        return using.call(*args)

    async def enqueue(self, *calls: Prepared[object]) -> None:
        """Enqueue the calls."""
        await self.app.aenqueue_many(calls)

    async def jobs(self) -> list[Job]:
        """The jobs of this play that are stored."""
        return [job for job in await self.all_jobs() if job.id.startswith(f"{self.mark}-")]

    async def all_jobs(self) -> list[Job]:
        """Every job that is stored, page by page."""
        found: list[Job] = []
        after: str | None = None
        while True:
            page = await self.store.page(Selection(), 500, after)
            found += page.jobs
            after = page.after
            if after is None:
                return found

    async def taken_by_a_ghost(self, count: int) -> list[Claim]:
        """Claims of a worker that died: its lease is over, and nobody has reclaimed them yet."""
        ghost = Worker(f"{self.mark}-ghost", lease=GHOST_LEASE, concurrency=count)
        facts = (await self.store.beat(ghost, [])).facts
        plan = plan_claim(count, ghost.region, [("default", Carry())], facts)
        return (await self.store.claim(plan, ghost)).claims


Part = Callable[[Scene], Awaitable[None]]


def is_quiet(stats: Stats) -> bool:
    """Whether nothing runs, and nothing waits that will be due soon."""
    waiting = [lane for lane in stats.lanes if lane.ready or lane.oldest_due < stats.now + 60]
    return not (stats.running or waiting or stats.gathering)


def work_until_ended(names: Iterable[str]) -> Part:
    """A worker that runs until these jobs have ended and nothing is left to do.

    It gives up after a while: what is wrong is then seen by who looks.
    """

    async def part(scene: Scene) -> None:
        deadline = time.monotonic() + LONGEST_WAIT
        wanted = set(names)

        async def over() -> bool:
            if time.monotonic() > deadline:
                return True
            ended = {scene.name(job.id) for job in await scene.jobs() if job.status in ENDED}
            return wanted <= ended and is_quiet(await scene.store.stats())

        await work_until(scene, over)

    return part


async def work_until(scene: Scene, over: Callable[[], Awaitable[bool]]) -> None:
    """A worker that runs until then, and leaves in order."""
    watching: list[asyncio.Task[None]] = []

    async def watch(engine: Engine) -> None:
        while not await over():  # noqa: ASYNC110 - other processes decide
            await asyncio.sleep(LOOK_EVERY)
        engine.stop()

    await work(
        scene.app,
        new_worker(scene.app),
        lambda engine: watching.append(asyncio.ensure_future(watch(engine))),
    )
    await asyncio.gather(*watching)


def with_status(status: str, names: Iterable[str]) -> dict[str, str]:
    """Jobs that all are to end so."""
    return dict.fromkeys(names, status)
