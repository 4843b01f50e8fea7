"""Runs a scenario: one real engine per worker, on a virtual clock."""

import asyncio
import contextlib
import gc
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from mulligan.core.fetch import policy_text
from mulligan.core.job import NewJob, encode
from mulligan.core.retry import Retry
from mulligan.sim.fleet import QUEUE, Fleet
from mulligan.sim.log import Log
from mulligan.sim.loop import OrderedLoop
from mulligan.sim.provider import Calls
from mulligan.sim.scenario import Planned, Scenario, arriving
from mulligan.sim.store import Recorder
from mulligan.sim.work import TASK, Work

if TYPE_CHECKING:
    from mulligan.core.fetch import FetchPolicy

Progress = Callable[[int, int], None]
PROGRESS_EVERY = 500
YOUNG = 100_000


class Run:
    """A scenario with one fetch policy, and the log of its run."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.policy: FetchPolicy = scenario.queue.policy
        self.jobs = 0
        self.first_arrival = 0.0
        # How many jobs have each fairness key.
        self.keys: Counter[str] = Counter()
        for job in arriving(scenario):
            if not self.jobs:
                self.first_arrival = job.at
            self.jobs += 1
            if job.needs.fairness_key:
                self.keys[job.needs.fairness_key] += 1
        self.calls: dict[str, Calls] = {}
        self.log = Log()
        self.ended_at = 0.0
        self.machine_seconds = 0.0

    @property
    def busiest_key(self) -> str | None:
        """The fairness key with most jobs; None if no job has one."""
        return self.keys.most_common(1)[0][0] if self.keys else None

    @property
    def title(self) -> str:
        """The title that distinguishes it from other runs of the scenario."""
        words = policy_text(self.policy)
        scenario = self.scenario
        lacks = [("the breaker", scenario.breaker), ("limits", scenario.limited)]
        lacks.append(("fairness keys", scenario.fair))
        without = [f", without {what}" for what, there in lacks if not there]
        return words + "".join(without)


def simulate(
    scenario: Scenario,
    progress: Progress = lambda _ended, _jobs: None,
    *,
    sleepy: bool = True,
) -> Run:
    """Run the scenario until every job has ended or its time is up.

    The same scenario gives the same run, to the last event. `progress` gets the number of ended
    jobs and of all. Without `sleepy`, workers do every chore on time even if it has nothing to do.
    """
    run = Run(scenario)
    loop = OrderedLoop()
    before = time.process_time()
    # A runner, since it cancels all tasks after Ctrl-C.
    with silence(), seldom_collected(), asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(Simulation(run, loop, progress).play(sleepy=sleepy))
    run.machine_seconds = time.process_time() - before
    return run


class Simulation:
    """The store, the workers and the arrivals of one run.

    Of the jobs only those are kept that have arrived and not ended: there may be a million.
    """

    def __init__(self, run: Run, loop: OrderedLoop, progress: Progress) -> None:
        self._run = run
        self._jobs: dict[str, Planned] = {}
        self._loop = loop
        self._progress = progress
        self._ended = 0
        self._over: asyncio.Future[None] = loop.create_future()

    async def play(self, *, sleepy: bool) -> None:
        """Run until every job has ended or the time is up."""
        scenario = self._run.scenario
        store = Recorder(self._loop, self._key_of, self._job_ended, sleepy=sleepy)
        self._run.log = store.log
        await store.configure(QUEUE, scenario.queue)
        for name, limit in scenario.limits:
            await store.set_limit(name, limit, declared=True)
        calls = {each.name: Calls(each) for each in scenario.providers}
        self._run.calls = calls
        fleet = Fleet(scenario, store, self._task_ended)
        regions = {region.name: region for region in scenario.regions}
        counted = scenario.breaker
        fleet.start(
            Work(self._jobs, regions, scenario.seed, fleet.crash, counted=counted, calls=calls)
        )
        await self._loop.quiet()
        feeding = self._loop.create_task(self._feed(store))
        feeding.add_done_callback(self._task_ended)
        await asyncio.wait([self._over], timeout=scenario.until)
        await fleet.stop()
        feeding.cancel()
        self._run.log.close(store.left())
        self._run.ended_at = self._loop.time()
        if self._over.done():
            self._over.result()

    async def _feed(self, store: Recorder) -> None:
        """Enqueue each job at its time."""
        bodies: dict[Retry, bytes] = {}
        for at, together in groupby(arriving(self._run.scenario), key=lambda job: job.at):
            if at > self._loop.time():
                await asyncio.sleep(at - self._loop.time())
            arrived = list(together)
            self._jobs.update((job.id, job) for job in arrived)
            await store.enqueue_all([new_job(job, bodies, self._run.scenario) for job in arrived])
        if not self._run.jobs:
            self._over.set_result(None)

    def _key_of(self, job: str) -> str | None:
        return self._jobs[job].needs.fairness_key

    def _job_ended(self, job: str) -> None:
        del self._jobs[job]
        self._ended += 1
        if self._ended % PROGRESS_EVERY == 0:
            self._progress(self._ended, self._run.jobs)
        if self._ended == self._run.jobs:
            self._over.set_result(None)

    def _task_ended(self, task: "asyncio.Task[None]") -> None:
        """Raise the error of a worker or of the arrivals, which only a bug can cause."""
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._over.done():
            self._over.set_exception(error)


def new_job(job: Planned, bodies: dict[Retry, bytes], scenario: Scenario) -> NewJob:
    """The job as it is enqueued; jobs of one retry policy share a body."""
    body = bodies.get(job.retry)
    if body is None:
        said = {"task": TASK, "args": [], "kwargs": {}, "retry": job.retry}
        body = bodies[job.retry] = encode(said)
    needs = job.needs
    return NewJob(
        *(job.id, QUEUE, TASK, body, job.region, job.priority),
        limits=needs.limits if scenario.limited else None,
        fairness_key=needs.fairness_key if scenario.fair else None,
    )


@contextlib.contextmanager
def seldom_collected() -> Iterator[None]:
    """Collect garbage rarely: nearly all that a run makes is freed without it."""
    before = gc.get_threshold()
    gc.set_threshold(YOUNG, before[1], before[2])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Turn off the log of the workers, whose failures are simulated."""
    log = logging.getLogger("mulligan.worker")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)
