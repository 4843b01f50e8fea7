"""Whatever goes wrong around one job ends with an outcome for it, and touches no other."""

import asyncio
from collections.abc import Sequence
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from mulligan import Adaptive, Delays, Fail, Mulligan, Retry, StoreError, current_job
from mulligan.core.errors import StoreUnavailableError
from mulligan.core.job import NewJob
from mulligan.core.lane import Lane
from mulligan.core.outcome import Outcome, Verdict
from mulligan.core.record import shown
from mulligan.engine.worker import Engine
from mulligan.stores.memory import MemoryStore
from tests.engine.real_engine import QUICK, ended, engine, found, until, worker_of

AT_ONCE = Retry(1, Delays((0,)))


class UnshowableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.fixture
def app():
    return Mulligan("memory://")


def test_a_task_that_is_cancelled_from_inside_has_failed(app):
    @app.task(retry=AT_ONCE)
    async def cancels() -> None:
        raise asyncio.CancelledError

    with app.testing() as t:
        job = cancels.enqueue()
        t.drain()
        assert [a.type for a in job.history()] == ["asyncio.exceptions.CancelledError"] * 2


class Distant(MemoryStore):
    """A store that is asked over some way."""

    async def depth(self, lane: Lane, limit: int) -> int:
        await asyncio.sleep(0)
        return await super().depth(lane, limit)


async def test_a_task_that_cancels_itself_and_then_fails_has_failed(app):
    store = Distant()

    @app.task(retry=Retry(1, Adaptive(0, jitter="none")))
    async def cancels() -> None:
        await asyncio.sleep(0)  # which gives the attempt a task of its own
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        raise ValueError("cancelled, and more")

    job = cancels.call().job
    await store.enqueue([job])
    async with engine(app, store):
        assert await ended(store, job.id) == ["failed"]
    assert [a.type for a in await store.history(job.id)] == ["ValueError"] * 2


def test_an_exception_that_cannot_be_shown_is_still_a_failure(app):
    @app.task(retry=AT_ONCE)
    async def odd() -> None:
        raise UnshowableError

    with app.testing() as t:
        job = odd.enqueue()
        t.drain()
        assert job.history()[0].message == "<its message cannot be shown>"


class CodelessError(Exception):
    @property
    def code(self) -> str:
        raise RuntimeError("no code")


class EndlessError(Exception):
    code = 10**5000


@pytest.mark.parametrize("error", [CodelessError, EndlessError])
def test_a_code_that_cannot_be_shown_is_none_and_the_failure_counts(app, error):
    @app.task(retry=AT_ONCE)
    async def odd() -> None:
        raise error

    with app.testing() as t:
        job = odd.enqueue()
        t.drain()
        assert [(a.type, a.code) for a in job.history()] == [
            (f"{__name__}.{error.__name__}", None)
        ] * 2
        assert job.status == "failed"


def test_a_code_that_no_store_can_keep_is_cleaned(app):
    @app.task
    async def odd() -> None:
        raise Fail("x", code="\ud800\0" + "9" * 200)

    with app.testing() as t:
        job = odd.enqueue()
        t.drain()
        assert job.history()[0].code == "?" + "9" * 99


async def test_a_plain_function_that_raises_stop_iteration_has_failed(app):
    store = MemoryStore()

    @app.task(retry=Retry(0))
    def exhausted() -> None:
        next(iter([]))

    jobs = [exhausted.call().job for _ in range(3)]
    await store.enqueue(jobs)
    async with engine(app, store):
        assert await ended(store, *(job.id for job in jobs)) == ["failed"] * 3
    assert (await store.history(jobs[0].id))[0].type == "RuntimeError"


async def test_a_plain_functions_own_timeout_error_is_reported_as_such(app):
    store = MemoryStore()

    @app.task(retry=Retry(0), timeout=30)
    def slow() -> None:
        raise TimeoutError("the socket timed out")

    job = slow.call().job
    await store.enqueue([job])
    async with engine(app, store):
        await ended(store, job.id)
    assert (await store.history(job.id))[0].message == "the socket timed out"


def test_a_job_whose_policy_cannot_be_read_is_a_dead_letter_when_it_fails(app):
    @app.task
    async def broken() -> None:
        raise ValueError("no")

    body = b'{"task":"broken","retry":{"backoff":{"type":"of a newer release"}}}'
    with app.testing() as t:
        t.run(t.store.enqueue([NewJob("odd", "default", "broken", body)]))
        t.drain()
        job = app.job("odd")
        assert job.info().last_failure_reason == "ValueError: no; its retry policy cannot be read"


async def test_a_lost_job_whose_policy_cannot_be_read_stops_no_worker(app):
    store = MemoryStore()
    body = b'{"task":"gone","retry":{"backoff":{"type":"of a newer release"}}}'

    @app.task
    async def quick() -> None: ...

    async with engine(app, store, name="first") as first:
        await store.enqueue([NewJob("odd", "default", "gone", body)])
        await until(lambda: is_known(store, "odd"))
        first.stop()
        first.stop()
    other = quick.call().job
    async with engine(app, store, name="second"):
        await store.enqueue([other])
        assert await ended(store, other.id) == ["done"]


async def is_known(store: MemoryStore, job: str) -> bool:
    return (await found(store, job)).started_at is not None


class Choosy(MemoryStore):
    """A store that refuses the outcomes of some jobs."""

    error: Exception = ValueError("what is this?")
    refuses = "bad"

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        if any(o.lease.job == self.refuses and type(o).__name__ == "Done" for o in outcomes):
            raise self.error
        return await super().commit(outcomes)


@pytest.mark.parametrize("error", [ValueError("what is this?"), StoreError("the disk is full")])
async def test_an_outcome_that_cannot_be_stored_does_not_hold_up_the_others(app, error):
    store = Choosy()
    store.error = error

    @app.task
    async def work() -> None: ...

    bad = work.using(id="bad").call().job
    others = [work.call().job for _ in range(20)]
    await store.enqueue([bad, *others])
    async with engine(app, store):
        assert await ended(store, *(job.id for job in others)) == ["done"] * 20
        store.refuses = ""  # there is room again
        assert (await ended(store, "bad"))[0] in ("cancelled", "done")


class Full(MemoryStore):
    """A store that takes nothing of running attempts until there is room."""

    error: Exception
    is_full = True

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[str] = []

    async def record(self, recordings):
        self._refuse("record")
        return await super().record(recordings)

    async def commit(self, outcomes):
        self._refuse("commit")
        return await super().commit(outcomes)

    def _refuse(self, what: str) -> None:
        if self.is_full:
            self.refused.append(what)
            raise self.error


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(
    ("error", "refused", "kept"),
    [
        (StoreUnavailableError("the disk is full"), "record", ["charged the card"]),
        (StoreError("refused"), "commit", []),
    ],
)
async def test_an_attempt_that_noted_something_keeps_its_outcome(app, error, refused, kept, fails):
    """Notes wait for a store that is full; those that a store refuses hold up no outcome."""
    store = Full()
    store.error = error
    runs = []

    @app.task(retry=Retry(0))
    async def charge() -> str:
        runs.append(1)
        current_job().log("charged the card")
        if fails:
            raise ValueError("no")
        return "charged"

    async def is_refused() -> bool:
        return store.refused.count(refused) > 1

    job = charge.call().job
    await store.enqueue([job])
    async with engine(app, store):
        await until(is_refused)
        store.is_full = False
        assert await ended(store, job.id) == ["failed" if fails else "done"]
    assert runs == [1]
    assert [each.type for each in await store.history(job.id)] == ["ValueError"] * fails
    assert [each.text for each in shown(await store.records(job.id)).log] == kept


def test_a_store_that_cannot_tell_the_depth_does_not_cost_an_attempt(app):
    @app.task(retry=Retry(1, Adaptive(base=1)))
    async def flaky() -> None:
        raise ValueError("no")

    with app.testing() as t:

        async def depth(*_: object) -> int:
            raise StoreError("not now")

        t.store.depth = depth
        job = flaky.enqueue()
        t.drain()
        assert [a.number for a in job.history()] == [1, 2]


async def test_a_worker_that_drains_leaves_its_wake_ups_to_others(app):
    store = MemoryStore()
    finish = asyncio.Event()

    @app.task
    async def long() -> None:
        await finish.wait()

    @app.task
    async def quick() -> None: ...

    first, second = long.call().job, quick.call().job
    await store.enqueue([first])
    one = replace(QUICK, concurrency=2)
    draining = Engine(store, app.tasks, worker_of(app, one, "draining"), one, heart=store)
    running = asyncio.ensure_future(draining.run())
    await until(lambda: is_known(store, first.id))
    async with engine(app, store, one, name="other"):
        await until(lambda: both_wait(store))
        draining.stop()
        await until(lambda: resigned(store))
        await store.enqueue([second])
        assert await ended(store, second.id) == ["done"]
        finish.set()
        await running


async def both_wait(store: MemoryStore) -> bool:
    return all(worker in store.state.sleepers for worker in ("draining", "other"))


async def resigned(store: MemoryStore) -> bool:
    return "draining" not in store.state.sleepers


async def test_what_is_on_its_way_is_not_taken_for_forgotten(app):
    class Slow(MemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self.arrived = asyncio.Event()

        async def claim(self, plan, worker):
            answer = await super().claim(plan, worker)
            if answer.claims:
                await self.arrived.wait()
            return answer

    store = Slow()
    runs = []

    @app.task
    async def work() -> None:
        runs.append(1)

    job = work.call().job
    await store.enqueue([job])
    async with engine(app, store):
        await until(lambda: is_known(store, job.id))
        await asyncio.sleep(2 * QUICK.lease)  # beats go on meanwhile, and must return nothing
        assert (await found(store, job.id)).status == "processing"
        store.arrived.set()
        assert await ended(store, job.id) == ["done"]
    assert runs == [1]


class Raising:
    """Tracing whose hooks raise, each at the moments that are named."""

    def __init__(self, *moments: str) -> None:
        self.moments = moments
        self.reached: list[str] = []

    def _come_to(self, moment: str) -> None:
        self.reached.append(moment)
        if moment in self.moments:
            raise RuntimeError(moment)

    @contextmanager
    def enqueuing(self, jobs, *, together=False):
        self._come_to("before enqueue")
        yield jobs, lambda _answers: self._come_to("enqueued")
        self._come_to("after enqueue")

    def attempt(self, claim):
        self._come_to("call")
        return self._around()

    @contextmanager
    def _around(self):
        self._come_to("enter")
        try:
            yield lambda _result, _outcome: self._come_to("ended")
        finally:
            self._come_to("exit")


@pytest.mark.parametrize(
    "moment", ["before enqueue", "enqueued", "after enqueue", "call", "enter", "ended", "exit"]
)
def test_a_tracing_hook_that_raises_changes_nothing_for_the_job(app, moment, caplog):
    app.tracing = tracing = Raising(moment)
    runs = []

    @app.task(retry=AT_ONCE)
    async def flaky() -> str:
        runs.append(1)
        if len(runs) == 1:
            raise TimeoutError
        return "done"

    with app.testing() as t:
        job = flaky.enqueue()
        t.drain()
        assert (job.result(), len(runs)) == ("done", 2)
    assert moment in tracing.reached
    assert "a tracing hook raised" in caplog.text
