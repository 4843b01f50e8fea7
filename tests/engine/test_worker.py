"""A worker in real time: threads, heartbeats, draining, and a store that fails."""

import asyncio
import threading
import time
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from mulligan import Delays, Mulligan, Retry, current_job
from mulligan.core.decide import decide
from mulligan.core.facts import Facts
from mulligan.core.fairness import Carry, plan_claim
from mulligan.core.job import Claim, NewJob
from mulligan.core.outcome import Lost
from mulligan.engine.worker import Engine
from mulligan.stores.memory import MemoryStore
from tests.contract.builders import used
from tests.engine.real_engine import QUICK, Faulty, ended, engine, found, until, worker_of

AT_ONCE = Retry(3, Delays((0,)))


@pytest.fixture
def app():
    return Mulligan("memory://")


@pytest.fixture
def store():
    return MemoryStore()


async def test_plain_functions_run_in_threads_beside_each_other(app, store):
    together = threading.Barrier(4, timeout=30)

    @app.task
    def meet() -> str:
        together.wait()
        return threading.current_thread().name

    jobs = [meet.call().job for _ in range(4)]
    await store.enqueue(jobs)
    async with engine(app, store):
        assert await ended(store, *(job.id for job in jobs)) == ["done"] * 4
    names = [(await found(store, job.id)).value() for job in jobs]
    assert len(set(names)) == 4


async def test_threads_are_used_again(app, store):
    @app.task
    def where() -> str:
        return threading.current_thread().name

    jobs = [where.call().job for _ in range(50)]
    await store.enqueue(jobs)
    async with engine(app, store, replace(QUICK, concurrency=2)):
        await ended(store, *(job.id for job in jobs))
    assert len({(await found(store, job.id)).value() for job in jobs}) <= 3


async def test_a_plain_function_knows_its_job_and_may_enqueue_more(app, store):
    @app.task
    def parent() -> str:
        return current_job().id

    job = parent.call().job
    await store.enqueue([job])
    async with engine(app, store):
        await ended(store, job.id)
    assert (await found(store, job.id)).value() == job.id


async def test_what_a_plain_function_raises_is_its_failure(app, store):
    @app.task(retry=Retry(0))
    def broken() -> None:
        raise KeyError("missing")

    job = broken.call().job
    await store.enqueue([job])
    async with engine(app, store):
        assert await ended(store, job.id) == ["failed"]
    assert (await store.history(job.id))[0].type == "KeyError"


async def test_a_blocked_event_loop_loses_no_lease(app, store):
    """The loop is blocked for longer than a lease; the heartbeat's own thread goes on."""

    @app.task(retry=AT_ONCE)
    async def blocks() -> int:
        time.sleep(1.5 * QUICK.lease)  # noqa: ASYNC251 - the point of the test
        return current_job().attempt

    @app.task
    async def quick() -> None: ...

    job = blocks.call().job
    await store.enqueue([job])
    observer = threading.Thread(target=asyncio.run, args=(observe(store, job.id),))
    observer.start()
    async with engine(app, store):
        assert await ended(store, job.id) == ["done"]
    observer.join()
    assert (await found(store, job.id)).value() == 1
    assert used(await found(store, job.id)) == 1


async def observe(store: MemoryStore, job: str) -> None:
    """Try to reclaim the job from another thread, all the while it runs."""
    reaper = worker_of(Mulligan("memory://"), name="reaper")
    while (await found(store, job)).status != "done":
        assert await store.reclaim(10, reaper) == []
        await asyncio.sleep(0.02)


async def test_a_function_that_outlives_its_timeout_fails_its_attempt_and_is_abandoned(app, store):
    release = threading.Event()

    @app.task(timeout=1.0, retry=AT_ONCE)  # in which a busy machine starts a thread
    def stuck() -> int:
        attempt = current_job().attempt
        if attempt == 1:
            release.wait(30)
        return attempt

    job = stuck.call().job
    await store.enqueue([job])
    async with engine(app, store) as running:
        assert await ended(store, job.id) == ["done"]
        assert (await found(store, job.id)).value() == 2
        assert (await store.history(job.id))[0].type == "Timeout"
        assert not running.worn
        release.set()


async def test_a_worker_with_too_many_abandoned_threads_drains_to_be_replaced(app, store):
    release = threading.Event()

    @app.task(timeout=0.02, retry=Retry(0))
    def stuck() -> None:
        release.wait(30)

    await store.enqueue([stuck.call().job for _ in range(QUICK.abandoned_limit)])
    made = Engine(store, app.tasks, worker_of(app), QUICK, heart=store)
    await made.run()
    assert made.worn
    release.set()


async def test_draining_lets_what_runs_finish_and_starts_nothing_more(app, store):
    started = asyncio.Event()
    finish = asyncio.Event()

    @app.task
    async def long() -> str:
        started.set()
        await finish.wait()
        return "finished"

    first, second = long.call().job, long.call().job
    await store.enqueue([first, second])
    async with engine(app, store, replace(QUICK, concurrency=1)) as running:
        await started.wait()
        running.stop()
        finish.set()
    assert not running.cut_off
    assert (await found(store, first.id)).value() == "finished"
    waiting = await found(store, second.id)
    assert (waiting.status, waiting.retry_count) == ("pending", 0)


async def test_a_second_stop_cuts_off_what_runs_and_others_reclaim_it_at_once(app, store):
    started = asyncio.Event()

    @app.task(retry=AT_ONCE)
    async def endless() -> int:
        if current_job().attempt == 1:
            started.set()
            await asyncio.Event().wait()
        return current_job().attempt

    job = endless.call().job
    await store.enqueue([job])
    async with engine(app, store) as running:
        await started.wait()
        running.stop()
        running.stop()
    assert running.cut_off
    async with engine(app, store, name="next"):
        assert await ended(store, job.id) == ["done"]
    assert (await found(store, job.id)).value() == 2
    assert [a.type for a in await store.history(job.id)] == ["Lost"]


async def test_a_drain_whose_outcomes_are_not_written_in_time_is_cut_off(app):
    class Stuck(MemoryStore):
        asked = asyncio.Event()

        async def commit(self, outcomes):
            self.asked.set()
            await asyncio.Event().wait()

    store = Stuck()

    @app.task
    async def work() -> None: ...

    await store.enqueue([work.call().job])
    async with engine(app, store, replace(QUICK, drain_timeout=0.01)) as running:
        await store.asked.wait()
        running.stop()
    assert running.cut_off


async def test_a_claim_that_comes_back_while_draining_is_returned_unused(app):
    class Slow(MemoryStore):
        claimed = asyncio.Event()
        go_on = asyncio.Event()

        async def claim(self, plan, worker):
            answer = await super().claim(plan, worker)
            if answer.claims:
                self.claimed.set()
                await self.go_on.wait()
            return answer

    store = Slow()

    @app.task
    async def work() -> None: ...

    job = work.call().job
    await store.enqueue([job])
    async with engine(app, store) as running:
        await store.claimed.wait()
        running.stop()
        await asyncio.sleep(0)
        store.go_on.set()
    seen = await found(store, job.id)
    assert (seen.status, seen.retry_count, seen.started_at is None) == ("pending", 0, False)
    assert await store.history(job.id) == []


async def none_left(counts: dict[str, int]) -> bool:
    return not any(counts.values())


async def runs(store: MemoryStore, count: int) -> bool:
    return (await store.stats()).running.get(("default", "default")) == count


async def all_failed_once(store: MemoryStore, jobs: Sequence[NewJob]) -> bool:
    return all([(await found(store, job.id)).retry_count == 1 for job in jobs])


async def test_a_worker_that_cannot_reach_its_store_stops_when_told_to(app):
    store = Faulty()
    store.lose["beat"] = 1_000_000
    made = Engine(store, app.tasks, worker_of(app), QUICK, heart=store)
    running = asyncio.ensure_future(made.run())
    await asyncio.sleep(0)
    made.stop()
    await running
    assert (await store.stats()).running == {}


@pytest.mark.parametrize("operation", ["commit", "beat", "reclaim", "facts"])
async def test_a_lost_reply_is_made_good(app, operation):
    store = Faulty()
    runs = []

    @app.task(retry=AT_ONCE)
    async def work() -> None:
        runs.append(current_job().attempt)

    store.lose[operation] = 3
    job = work.call().job
    await store.enqueue([job])
    async with engine(app, store) as running:
        assert await ended(store, job.id) == ["done"]
        await until(lambda: none_left(store.lose))
        assert running.committer.stale == 0
    assert runs == [1]


async def test_a_claim_whose_reply_was_lost_comes_back_without_using_an_attempt(app):
    store = Faulty()

    @app.task(retry=Retry(0))
    async def work() -> int:
        return current_job().attempt

    job = work.call().job
    await store.enqueue([job])
    store.lose["claim"] = 1
    async with engine(app, store):
        assert await ended(store, job.id) == ["done"]
    assert store.lost == ["claim"]
    assert (await found(store, job.id)).value() == 1
    assert used(await found(store, job.id)) == 2


async def test_a_reclaim_whose_reply_was_lost_is_counted_as_a_lost_attempt_all_the_same(app):
    store = Faulty()
    runs = []

    @app.task(retry=AT_ONCE)
    async def work() -> None:
        runs.append(current_job().attempt)

    job = work.call().job
    await store.enqueue([job])
    dead = worker_of(app, name="dead")
    facts = (await store.beat(dead, [])).facts
    plan = plan_claim(1, dead.region, [("default", Carry())], facts)
    assert (await store.claim(plan, dead)).claims
    await store.leave(dead)
    store.lose["reclaim"] = 1
    async with engine(app, store):
        assert await ended(store, job.id) == ["done"]
    assert store.lost == ["reclaim"]
    assert runs == [2]
    assert [each.type for each in await store.history(job.id)] == ["Lost"]


async def test_a_worker_that_lost_its_lease_stops_the_attempt_and_its_commit_is_refused(app, store):
    started, stopped = asyncio.Event(), asyncio.Event()

    @app.task(retry=AT_ONCE)
    async def work() -> str:
        if current_job().attempt > 1:
            return "by another"
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    job = work.call().job
    await store.enqueue([job])
    async with engine(app, store):
        await started.wait()
        # As if the process had been paused beyond its lease: another one reclaims the job.
        reclaimed: list[Claim] = []
        while not reclaimed:  # a beat may come in between
            await store.leave(worker_of(app))
            reclaimed = await store.reclaim(10, worker_of(app, name="reaper"))
        await store.commit([decide(each, Lost(), Facts(), 0.5) for each in reclaimed])
        assert await ended(store, job.id) == ["done"]
        await stopped.wait()
    assert (await found(store, job.id)).value() == "by another"


async def test_an_idle_worker_asks_the_store_rarely(app, store):
    claims = []
    claim = store.claim

    async def counted(plan, worker):
        claims.append(plan)
        return await claim(plan, worker)

    store.claim = counted

    @app.task
    async def work() -> None: ...

    async with engine(app, store):
        job = work.call().job
        await store.enqueue([job])
        await ended(store, job.id)
        await asyncio.sleep(1)  # a second in which nothing happens is what is looked at
    assert len(claims) <= 6


async def test_a_retry_held_by_a_cap_does_not_make_the_fetcher_spin(app, store):
    app.queue("default", policy="capped(1)")
    await store.configure("default", app.queues["default"])
    finish = asyncio.Event()

    @app.task(retry=AT_ONCE)
    async def work() -> None:
        if current_job().attempt == 1:
            raise ValueError
        await finish.wait()

    claims = []
    claim = store.claim

    async def counted(plan, worker):
        claims.append(plan)
        return await claim(plan, worker)

    store.claim = counted
    jobs = [work.call().job for _ in range(3)]
    await store.enqueue(jobs)
    async with engine(app, store):
        await until(lambda: all_failed_once(store, jobs))
        await until(lambda: runs(store, 1))
        before = len(claims)
        await asyncio.sleep(0.5)  # a while in which nothing happens is what is looked at
        assert len(claims) - before <= 3
        finish.set()
        assert await ended(store, *(job.id for job in jobs)) == ["done"] * 3


def test_a_plan_for_no_queue_takes_nothing():
    plan = plan_claim(5, "default", [("a", Carry())], Facts(paused=frozenset({"a"})))
    assert plan.steps == ()


async def test_a_worker_whose_heartbeat_breaks_ends_and_is_seen_to(app, store):
    class Broken(MemoryStore):
        async def beat(self, worker, holding):
            raise AttributeError("a defect")

    made = Engine(store, app.tasks, worker_of(app), QUICK, heart=Broken())
    with pytest.raises(AttributeError, match="a defect"):
        await made.run()


async def test_a_worker_that_holds_through_backoff_lets_go_of_it_when_told_to_stop(app, store):
    settings = replace(QUICK, concurrency=1)

    @app.task(retry=Retry(1, Delays((3600,))))
    async def ask() -> None:
        raise TimeoutError

    job = (await store.enqueue([ask.call().job]))[0].id
    made = Engine(
        store, app.tasks, worker_of(app, settings), settings, heart=store, hold_through_backoff=True
    )
    running = asyncio.ensure_future(made.run())

    async def has_failed() -> bool:
        return (await found(store, job)).retry_count == 1

    await until(has_failed)
    assert made.slots.demand == 0
    made.stop()
    await running
    assert not made.cut_off
