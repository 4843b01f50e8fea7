"""Durable steps, progress, log and checkpoint, as tasks use them."""

import asyncio
import contextlib
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from mulligan import (
    Delays,
    Fail,
    LeaseLost,
    Mulligan,
    MulliganError,
    Retry,
    Settings,
    astep,
    current_job,
    step,
)
from mulligan.app.worker import new_worker, work
from mulligan.core.errors import InvalidError
from mulligan.core.job import Lease
from mulligan.core.record import Record, Recording, shown, step_key
from mulligan.stores.memory import MemoryStore
from tests.engine.real_engine import QUICK, ended, engine, found, until

AT_ONCE = Retry(3, Delays((0,)))


@pytest.fixture
def app():
    return Mulligan("memory://", settings=Settings(concurrency=10))


async def run(app, task, *args, store=None):
    """Run one job of the task on a real engine; its handle's fields and the store."""
    store = store or MemoryStore()
    job = task.call(*args).job
    await store.enqueue([job])
    async with engine(app, store):
        [status] = await ended(store, job.id)
    return status, await found(store, job.id), store


# -- steps ---------------------------------------------------------------------------------


async def test_a_recorded_step_is_not_run_by_a_later_attempt_and_others_are(app):
    runs: list[Any] = []

    async def charge(order: int) -> dict[str, int]:
        runs.append("charge")
        return {"order": order}

    def pack() -> str:
        runs.append("pack")
        return "box"

    @app.task(retry=AT_ONCE)
    async def ship(order: int) -> list[object]:
        charged = await astep("charge", charge, order)
        if current_job().attempt == 1:
            raise ConnectionError("between two steps")
        packed = await astep("pack", pack)
        if current_job().attempt == 2:
            raise ConnectionError("after both")
        return [charged, packed]

    status, job, _ = await run(app, ship, 7)
    assert (status, job.value(), job.retry_count) == ("done", [{"order": 7}, "box"], 2)
    assert runs == ["charge", "pack"]


async def test_plain_functions_in_threads_have_steps_too(app):
    runs: list[Any] = []

    def charge(order: int) -> int:
        runs.append(threading.current_thread() is threading.main_thread())
        return order * 2

    @app.task(retry=AT_ONCE)
    def ship(order: int) -> int:
        charged = step("charge", charge, order)
        if current_job().attempt < 3:
            raise ConnectionError("not yet")
        return charged

    status, job, _ = await run(app, ship, 4)
    assert (status, job.value(), runs) == ("done", 8, [False])


async def test_steps_beside_each_other_are_each_recorded(app):
    runs: list[Any] = []

    async def fetch(number: int) -> int:
        runs.append(number)
        await asyncio.sleep(0)
        return number

    @app.task(retry=AT_ONCE)
    async def all_of_them() -> list[int]:
        got = await asyncio.gather(*(astep(f"page-{n}", fetch, n) for n in range(20)))
        if current_job().attempt == 1:
            raise ConnectionError("not yet")
        return got

    status, job, _ = await run(app, all_of_them)
    assert (status, job.value()) == ("done", list(range(20)))
    assert sorted(runs) == list(range(20))


@dataclass
class Receipt:
    amount: int


async def test_a_result_comes_back_in_the_declared_type_also_where_it_ran(app):
    kinds = []

    def charge() -> Receipt:
        return Receipt(3)

    def undeclared():
        return (1, 2)

    @app.task(retry=AT_ONCE)
    async def ship() -> None:
        kinds.append((await astep("charge", charge), await astep("plain", undeclared)))
        if current_job().attempt == 1:
            raise ConnectionError("once more")

    assert (await run(app, ship))[0] == "done"
    assert kinds == [(Receipt(3), [1, 2])] * 2


async def test_a_recorded_result_that_no_longer_fits_ends_the_job_without_a_retry(app):
    def charge() -> int:
        return 3

    def changed() -> Receipt:
        raise AssertionError("it was recorded")

    @app.task(retry=AT_ONCE)
    async def ship() -> None:
        await astep("charge", charge if current_job().attempt == 1 else changed)
        raise ConnectionError("once more")

    status, job, _ = await run(app, ship)
    assert (status, job.retry_count) == ("failed", 1)
    assert "step 'charge' is not Receipt" in job.last_failure_reason
    assert "--from-start" in job.last_failure_reason


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (object(), "cannot be recorded as JSON"),
        (float("nan"), "cannot be recorded as JSON"),
        ("x" * 300_000, "more than the 262144 allowed; store it elsewhere"),
    ],
)
async def test_what_cannot_be_recorded_is_refused_with_the_remedy(app, value, reason):
    @app.task(retry=AT_ONCE)
    async def ship() -> None:
        await astep("charge", lambda: value)

    status, job, store = await run(app, ship)
    assert (status, job.retry_count) == ("failed", 0)
    assert reason in job.last_failure_reason
    assert await store.records(job.id) == []


async def test_a_step_that_returns_a_coroutine_is_told_to_await_it(app):
    async def fetch() -> str:
        return "page"

    async def forgotten() -> Any:
        return fetch()

    async def forgotten_in_a_list() -> Any:
        return [fetch(), fetch()]

    @app.task(retry=AT_ONCE)
    async def ship(function: str) -> None:
        await astep("fetch", {"one": forgotten, "some": forgotten_in_a_list}[function])

    for which, what in (("one", "a coroutine"), ("some", "a list with a coroutine in it")):
        status, job, _ = await run(app, ship, which)
        assert (status, job.retry_count) == ("failed", 0)
        assert f"step 'fetch' returned {what}; await it;" in job.last_failure_reason


async def test_a_type_that_cannot_be_carried_is_refused_before_the_step_runs(app):
    runs: list[Any] = []

    def charge() -> threading.Event:
        runs.append(1)
        return threading.Event()

    @app.task(retry=AT_ONCE)
    async def ship() -> None:
        await astep("charge", charge)

    status, job, _ = await run(app, ship)
    assert (status, runs) == ("failed", [])
    assert "step 'charge' returns what cannot be recorded" in job.last_failure_reason


async def test_a_name_that_is_used_twice_is_refused(app):
    @app.task(retry=AT_ONCE)
    async def ship() -> None:
        for _ in range(2):
            await astep("charge", int)

    status, job, _ = await run(app, ship)
    assert (status, job.retry_count) == ("failed", 0)
    assert "step 'charge' was used twice" in job.last_failure_reason


@pytest.mark.parametrize("name", ["", "x" * 129, "a\nb", 7])
async def test_a_bad_name_is_refused(app, name):
    @app.task(retry=Retry(0))
    async def ship() -> None:
        await astep(name, int)

    status, job, _ = await run(app, ship)
    assert (status, "InvalidError" in job.last_failure_reason) == ("failed", True)


async def test_what_is_no_function_is_refused(app):
    @app.task(retry=AT_ONCE)
    async def ship() -> None:
        await astep("charge", 7)  # type: ignore[call-overload]

    _, job, _ = await run(app, ship)
    assert "7, which is no function" in job.last_failure_reason


async def test_a_coroutine_function_in_a_plain_task_is_refused_with_the_remedy(app):
    async def charge() -> None: ...

    @app.task(retry=AT_ONCE)
    def ship() -> None:
        step("charge", charge)  # type: ignore[unused-coroutine]

    status, job, _ = await run(app, ship)
    assert (status, "use: await astep('charge'" in job.last_failure_reason) == ("failed", True)


async def test_a_plain_step_in_a_coroutine_is_refused_as_it_would_hold_up_the_worker(app):
    @app.task(retry=AT_ONCE)
    async def ship() -> None:
        step("charge", int)

    status, job, _ = await run(app, ship)
    assert (status, "the twin that begins with a" in job.last_failure_reason) == ("failed", True)


async def test_a_thread_of_a_coroutine_may_use_plain_steps(app):
    @app.task(retry=AT_ONCE)
    async def ship() -> int:
        return await asyncio.to_thread(step, "charge", int)

    status, job, _ = await run(app, ship)
    assert (status, job.value()) == ("done", 0)


async def test_a_loop_of_its_own_in_a_plain_task_may_await_steps(app):
    async def charge() -> int:
        return 5

    @app.task(retry=AT_ONCE)
    def ship() -> int:
        return asyncio.run(astep("charge", charge))

    status, job, _ = await run(app, ship)
    assert (status, job.value()) == ("done", 5)


async def test_a_step_over_the_limit_is_refused(app, monkeypatch):
    monkeypatch.setattr("mulligan.engine.attempt_records.STEP_LIMIT", 3)

    @app.task(retry=AT_ONCE)
    async def ship() -> None:
        for number in range(4):
            await astep(f"page-{number}", int)

    status, job, store = await run(app, ship)
    assert (status, job.retry_count) == ("failed", 0)
    assert "a job has at most 3" in job.last_failure_reason
    assert len(await store.records(job.id)) == 3


async def test_outside_of_a_task_there_is_nothing_to_record(app):
    with pytest.raises(MulliganError, match="outside a running task"):
        step("charge", int)


async def test_an_exception_of_a_step_is_the_tasks_own_and_nothing_is_recorded(app):
    caught: list[bool] = []

    def charge() -> None:
        raise ZeroDivisionError("no")

    @app.task
    async def ship() -> None:
        with contextlib.suppress(ZeroDivisionError):
            await astep("charge", charge)
        caught.append(True)

    status, job, store = await run(app, ship)
    assert (status, caught, await store.records(job.id)) == ("done", [True], [])


async def test_a_step_key_is_the_same_at_every_attempt(app):
    keys = []

    @app.task(retry=AT_ONCE)
    async def ship() -> None:
        keys.append(current_job().step_key("charge"))
        if current_job().attempt == 1:
            raise ConnectionError("once more")

    _, job, _ = await run(app, ship)
    assert keys == [f"{job.id}/charge"] * 2
    with pytest.raises(InvalidError, match="has 0 characters"):
        step_key("a", "")


async def test_a_lost_reply_records_a_step_once_and_runs_it_once(app):
    runs: list[Any] = []

    def charge() -> int:
        runs.append(1)
        return 1

    @app.task(retry=AT_ONCE)
    async def ship() -> int:
        current_job().log("charging")
        return await astep("charge", charge)

    store = Losing("record", "records")
    status, job, _ = await run(app, ship, store=store)
    assert (status, job.retry_count, runs) == ("done", 0, [1])
    assert [each.kind for each in await store.records(job.id)] == ["log", "step"]
    assert sorted(store.lost) == ["record", "records"]


class Losing(MemoryStore):
    """A store whose first reply to each of these is lost: it happened, and nobody is told."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self._left = set(names)
        self.lost: list[str] = []

    def _lose(self, name):
        if name in self._left:
            self._left.discard(name)
            self.lost.append(name)
            raise ConnectionError(f"the reply to {name} was lost")

    async def record(self, recordings):
        answer = await super().record(recordings)
        self._lose("record")
        return answer

    async def records(self, job, most=None):
        answer = await super().records(job, most)
        if most is None:
            self._lose("records")
        return answer


# -- progress, log and checkpoint ----------------------------------------------------------


async def test_progress_log_and_checkpoint_are_seen_while_it_runs(app):
    go_on = asyncio.Event()

    @app.task
    async def long() -> None:
        job = current_job()
        await job.aprogress(40, of=100, note="resizing")
        await job.alog("one")
        job.log("two")
        await job.acheckpoint({"row": 7})
        await go_on.wait()

    store = MemoryStore()
    job = long.call().job
    await store.enqueue([job])
    async with engine(app, store):
        await until(lambda: has_all(store, job.id))
        found = await store.records(job.id)
        assert sorted((each.kind, each.value) for each in found) == [
            ("checkpoint", b'{"row":7}'),
            ("log", b'"one"'),
            ("log", b'"two"'),
            ("progress", b'{"done":40,"of":100,"note":"resizing"}'),
        ]
        go_on.set()
        assert await ended(store, job.id) == ["done"]


async def has_all(store, job):
    return {each.kind for each in await store.records(job)} == {"checkpoint", "log", "progress"}


async def test_progress_is_sent_twice_a_second_at_most_and_the_last_one_in_any_case(app):
    with app.testing() as t:

        @app.task
        async def long() -> None:
            for done in range(101):
                current_job().progress(done, of=100)
                current_job().log(f"row {done}")
                await asyncio.sleep(0.1)

        sent: list[Record] = []
        record = t.store.record

        async def counted(recordings):
            sent.extend(each for _, records in recordings for each in records)
            return await record(recordings)

        t.store.record = counted
        job = long.enqueue()
        t.drain()
        progress = [each for each in sent if each.kind == "progress"]
        assert len(progress) <= 10 * 2 + 2
        assert len(progress) >= 10
        assert job.records().progress.done == 100
        assert [line.text for line in job.records().log] == [f"row {n}" for n in range(101)]


async def test_notes_of_many_jobs_go_in_one_call(app):
    with app.testing(concurrency=50) as t:

        @app.task
        async def long(number: int) -> None:
            for done in range(20):
                current_job().progress(done)
                await asyncio.sleep(0.1)

        calls = []
        record = t.store.record

        async def counted(recordings):
            calls.append(len(recordings))
            return await record(recordings)

        t.store.record = counted
        app.enqueue_many([long.call(number) for number in range(50)])
        t.drain()
        assert max(calls) == 50
        assert len(calls) < 10 + 50  # two seconds of ticks, and the end of each job


async def test_a_checkpoint_is_handed_to_the_next_attempt(app):
    begun = []

    @app.task(retry=AT_ONCE)
    def import_rows() -> int:
        job = current_job()
        first = job.last_checkpoint or 0
        begun.append(first)
        for row in range(first, 10):
            job.checkpoint(row + 1)
            if row == 3 and job.attempt == 1:
                raise ConnectionError("at row 3")
        assert job.last_checkpoint == 10
        return 10 - first

    status, job, _ = await run(app, import_rows)
    assert (status, job.value(), begun) == ("done", 6, [0, 4])


@pytest.mark.parametrize(
    ("say", "rule"),
    [
        (lambda job: job.progress("much"), "must be a finite number"),
        (lambda job: job.progress(float("nan")), "must be a finite number"),
        (lambda job: job.progress(1, of=0), "must be above 0"),
        (lambda job: job.progress(1, note=7), "note 7 must be text"),
        (lambda job: job.log(7), "log line 7 must be text"),
        (lambda job: job.checkpoint(object()), "cannot be written as JSON"),
        (lambda job: job.checkpoint([float("inf")]), "holds NaN or Infinity"),
        (lambda job: job.checkpoint("x" * 300_000), "the checkpoint has 300002 bytes"),
    ],
)
async def test_what_cannot_be_said_is_refused_with_the_rule(app, say, rule):
    @app.task(retry=Retry(0))
    def long() -> None:
        say(current_job())

    status, job, store = await run(app, long)
    assert (status, rule in job.last_failure_reason) == ("failed", True), job.last_failure_reason
    assert await store.records(job.id) == []


async def test_log_lines_are_shortened_and_cleaned(app):
    @app.task
    async def long() -> None:
        current_job().log("a\0b" + "x" * 5000)

    _, job, store = await run(app, long)
    [line] = await store.records(job.id)
    assert line.value == b'"ab' + b"x" * 1998 + b'"'


async def test_the_last_words_of_a_failed_attempt_are_kept(app):
    @app.task(retry=Retry(0))
    async def long() -> None:
        current_job().progress(3)
        current_job().log("about to fail")
        raise ConnectionError("failed")

    status, job, store = await run(app, long)
    assert (status, [each.kind for each in await store.records(job.id)]) == (
        "failed",
        ["log", "progress"],
    )


# -- leases --------------------------------------------------------------------------------


@pytest.mark.parametrize("plain", [False, True])
async def test_who_records_after_its_job_was_cancelled_ends_whatever_it_catches(app, plain):
    began, go_on, seen = threading.Event(), threading.Event(), list[str]()

    def body() -> None:
        began.set()
        go_on.wait(20)

    @app.task(retry=AT_ONCE)
    def plainly() -> None:
        body()
        try:
            step("late", seen.append, "ran")
        except Exception:  # noqa: BLE001 - what a careless task does
            seen.append("swallowed")
        except LeaseLost:
            seen.append("lost")
            raise
        seen.append("went on")

    @app.task(retry=AT_ONCE)
    async def coroutine() -> None:
        await asyncio.to_thread(body)
        try:
            await astep("late", seen.append, "ran")
        except Exception:  # noqa: BLE001 - as above
            seen.append("swallowed")
        seen.append("went on")

    # The worker does not hear of it by its beat: only the record tells.
    slow = Settings(lease=60, beat=30)
    store = MemoryStore()
    job = (plainly if plain else coroutine).call().job
    await store.enqueue([job])
    async with engine(app, store, slow) as running:
        await until(lambda: is_set(began))
        await store.cancel([job.id], "by hand")
        go_on.set()
        await until(lambda: idle(running))
    assert seen in (["ran", "lost"], ["ran"])
    assert (await found(store, job.id)).status == "cancelled"
    assert await store.records(job.id) == []
    assert running.committer.written == 0


async def is_set(event):
    return event.is_set()


async def idle(running):
    return not running.slots.is_busy


async def test_progress_that_is_refused_stops_the_attempt(app):
    began, stopped = asyncio.Event(), list[bool]()

    @app.task(retry=AT_ONCE)
    async def long() -> None:
        began.set()
        try:
            while True:
                current_job().progress(1)
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            stopped.append(True)
            raise

    store = MemoryStore()
    job = long.call().job
    await store.enqueue([job])
    async with engine(app, store, Settings(lease=60, beat=30)) as running:
        await began.wait()
        await store.cancel([job.id], "by hand")
        await until(lambda: idle(running))
    assert stopped == [True] or (await found(store, job.id)).status == "cancelled"
    assert (await store.counts()).ever[("default", "default", "stale-record")] == 1


async def test_a_thread_that_outlived_its_attempt_records_no_more(app):
    go_on, seen = threading.Event(), list[str]()

    @app.task(retry=Retry(0), timeout=0.05)
    def slow() -> None:
        current_job().log("began")
        go_on.wait(20)
        try:
            step("late", int)
        except LeaseLost:
            seen.append("lost")
            raise

    store = MemoryStore()
    job = slow.call().job
    await store.enqueue([job])
    async with engine(app, store):
        assert await ended(store, job.id) == ["failed"]
        go_on.set()
        await until(lambda: has(seen))
    assert [each.kind for each in await store.records(job.id)] == ["log"]


async def has(seen):
    return bool(seen)


async def test_a_store_that_refuses_a_record_fails_the_attempt(app):
    class Full(MemoryStore):
        async def record(self, recordings):
            raise ValueError("it cannot be stored")

    @app.task(retry=Retry(0))
    async def ship() -> None:
        await astep("charge", int)

    status, job, _ = await run(app, ship, store=Full())
    assert (status, "it cannot be stored" in job.last_failure_reason) == ("failed", True)


async def test_nothing_is_asked_of_the_store_by_jobs_that_record_nothing(app):
    asked = []

    class Watched(MemoryStore):
        async def record(self, recordings):
            asked.append("record")
            return await super().record(recordings)

        async def records(self, job, most=None):
            asked.append("records")
            return await super().records(job, most)

    @app.task
    async def short() -> None: ...

    status, _, _ = await run(app, short, store=Watched())
    assert (status, asked) == ("done", [])


# -- testing -------------------------------------------------------------------------------


def test_a_test_can_fail_between_two_steps(app):
    runs: list[Any] = []

    @app.task(retry=AT_ONCE)
    async def ship() -> None:
        await astep("charge", runs.append, "charge")
        await astep("pack", runs.append, "pack")
        await astep("send", runs.append, "send")

    with app.testing() as t:
        t.fail_step("pack")
        t.fail_step("send", after=True)
        job = ship.enqueue()
        t.drain()
        assert job.status == "done"
        assert [each.type for each in job.history()] == [
            "mulligan.testing.harness.InjectedError"
        ] * 2
    assert runs == ["charge", "pack", "send", "send"]


def test_a_plain_task_in_a_test_has_steps_and_a_checkpoint(app):
    @app.task(retry=AT_ONCE)
    def ship() -> list[object]:
        job = current_job()
        first = job.last_checkpoint
        value = step("charge", int, "7")
        job.checkpoint([value])
        job.progress(1, of=2)
        if job.attempt == 1:
            raise ConnectionError("once more")
        return [first, value]

    with app.testing() as t:
        job = ship.enqueue()
        t.drain()
        assert job.result() == [[7], 7]
        assert [each.name for each in job.records().steps] == ["charge"]
        assert job.records().checkpoint.value == [7]


def test_replay_keeps_steps_and_from_start_drops_them(app):
    runs: list[Any] = []

    @app.task(retry=Retry(0))
    async def ship() -> None:
        await astep("charge", runs.append, "charge")
        raise Fail("no")

    with app.testing() as t:
        job = ship.enqueue()
        t.drain()
        assert app.replay([job.id]) == [True]
        t.drain()
        assert runs == ["charge"]
        assert app.dead_letters().replay(from_start=True) == 1
        t.drain()
    assert runs == ["charge", "charge"]


async def test_a_transactional_sink_records_nothing(tmp_path):
    app = Mulligan(f"sqlite:///{tmp_path / 'jobs.db'}", settings=QUICK)
    said = []

    @app.sink(transactional=True)
    def keep(connection, value: int, key: str) -> None:
        try:
            current_job().log("within")
        except MulliganError as error:
            said.append(str(error))

    @app.task(sink=keep)
    async def make() -> int:
        return 1

    ready = asyncio.get_running_loop().create_future()
    running = asyncio.ensure_future(work(app, new_worker(app), ready.set_result))
    made = await ready
    job = await make.aenqueue()
    assert await job.aresult(timeout=30) == 1
    await (await job.asink()).aresult(timeout=30)
    made.stop()
    await running
    app.close()
    assert "a transactional sink runs within the commit" in said[0]


async def test_what_another_program_spoilt_is_left_out_for_readers(app):
    store = MemoryStore()

    @app.task
    async def short() -> None: ...

    job = short.call().job
    await store.enqueue([job])
    stored = store.state.jobs[job.id]
    stored.records["progress"] = Record("progress", 1, b"not json")
    assert shown(await store.records(job.id)).progress is None
    assert await store.record([Recording(Lease(job.id, 1), ())]) == ["stale"]
