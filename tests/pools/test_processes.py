"""pool="process": attempts in child processes, which are killed and replaced, one job at a time."""

import asyncio
import logging
import os
import subprocess
import sys
from typing import Any

import pytest

from mulligan import InvalidError, JobFailedError, Mulligan
from mulligan.app.worker import new_worker, work
from mulligan.cli.find_app import opened as opened_store
from mulligan.cli.logs import TextLines
from mulligan.core.decide import decide
from mulligan.core.outcome import Lost
from mulligan.core.worker import Worker
from tests.pools.app import make, surrounded
from tests.pools.worker import ME, gone, pids_in, until, working

TIMEOUT = 60


@pytest.fixture
def app(tmp_path):
    made = make(f"sqlite:///{tmp_path}/jobs.db")
    made.called = "tests.pools.app:app"
    yield made
    made.close()


async def run(app: Mulligan, task: str, *args: object) -> Any:
    return await (await app.tasks[task].aenqueue(*args)).aresult(timeout=TIMEOUT)


async def failure(app: Mulligan, task: str, *args: object) -> tuple[str, str]:
    """The type and the message of the job's last failure."""
    job = await app.tasks[task].aenqueue(*args)
    with pytest.raises(JobFailedError):
        await job.aresult(timeout=TIMEOUT)
    last = (await job.ahistory())[-1]
    return last.type, last.message


def niceness(pid):
    return os.getpriority(os.PRIO_PROCESS, pid)


async def test_attempts_run_in_children_which_are_kept(app):
    async with working(app):
        assert await run(app, "square", 7) == 49
        first, again = await run(app, "pid"), await run(app, "pid")
        assert first == again != ME
        assert niceness(first) == min(niceness(ME) + 5, 19)
        assert await run(app, "elsewhere") == ME
        [number, pid] = await run(app, "coroutine", 3)
        assert (number, pid) == (3, first)
        assert await run(app, "own_loop") == "ran"
    await gone(first)


@pytest.mark.prove
async def test_what_a_task_may_do_elsewhere_it_may_do_in_a_child(app):
    async with working(app) as engine:
        job = await app.tasks["who"].aenqueue()
        found = await job.aresult(timeout=TIMEOUT)
        assert found == {"id": job.id, "attempt": 1, "worker": engine.worker.id, "lane": "fresh"}
        assert await failure(app, "signals", "Fail") == ("Fail", "never")
        assert await failure(app, "signals", "LookupError") == ("LookupError", "LookupError")
        assert await failure(app, "signals", "RetryAfter") == ("RetryAfter", "busy")
        assert (await failure(app, "refused"))[1] == "the result was refused"
        snoozed = await app.tasks["signals"].aenqueue("Snooze")
        while (await snoozed.ainfo()).snoozes == 0:  # noqa: ASYNC110 - the store has no event for it
            await asyncio.sleep(0.01)
        squares = [app.tasks["square"].call(number) for number in range(4)]
        assert await (await app.agather(squares, app.tasks["total"])).aresult(timeout=TIMEOUT) == 14


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("segfault", "the child process of the attempt died: killed by SIGSEGV"),
        ("babble", "the child process of the attempt died: killed by SIGKILL"),
        pytest.param(
            "exit", "the child process of the attempt died: exit code 3", marks=pytest.mark.prove
        ),
        pytest.param(
            "kill",
            "the child process of the attempt died: killed by SIGKILL; perhaps",
            marks=pytest.mark.prove,
        ),
    ],
)
async def test_the_crash_of_a_child_is_a_failure_of_its_one_job(app, tmp_path, how, words):
    go = tmp_path / "go"
    async with working(app):
        beside = await app.tasks["slow"].aenqueue(str(go))
        job = await app.tasks["die"].aenqueue(how)
        assert await job.aresult(timeout=TIMEOUT) == "lived"
        [attempt] = await job.ahistory()
        assert attempt.type == "ProcessDied"
        assert attempt.message.startswith(words)
        go.touch()
        assert await beside.aresult(timeout=TIMEOUT) == "slow"
        assert await beside.ahistory() == []


@pytest.mark.prove
async def test_sys_exit_is_a_failure_and_the_child_lives_on(app):
    async with working(app):
        before = await run(app, "pid")
        job = await app.tasks["die"].aenqueue("sys.exit")
        assert await job.aresult(timeout=TIMEOUT) == "lived"
        assert [each.type for each in await job.ahistory()] == ["SystemExit"]
        assert await run(app, "pid") == before


async def test_one_that_outlives_its_timeout_is_killed_wherever_it_hangs(app):
    async with working(app):
        before = await run(app, "pid")
        assert await failure(app, "hang") == ("Timeout", "the attempt took longer than 0.3 s")
        assert await run(app, "pid") != before
        await gone(before)


async def test_a_predicate_is_asked_about_a_timeout(app):
    async with working(app):
        job = await app.tasks["hang_for_good"].aenqueue()
        with pytest.raises(JobFailedError, match=r"the attempt took longer than 0\.3 s"):
            await job.aresult(timeout=TIMEOUT)
        assert [each.type for each in await job.ahistory()] == ["Timeout"]


@pytest.mark.prove
async def test_one_that_uses_too_much_memory_is_killed(app):
    async with working(app):
        assert await run(app, "grow", 20) == 20
        kind, message = await failure(app, "grow", 400)
        assert kind == "MemoryExceeded"
        assert message.endswith(
            "more than its max_memory of 150 MiB; let it use less, or raise max_memory"
        )


@pytest.mark.prove
async def test_memory_that_an_earlier_attempt_has_kept_counts_against_none(app):
    async with working(app):
        kept = await run(app, "keep", 200)
        assert await run(app, "grow", 20) == 20
        await gone(kept)


@pytest.mark.prove
async def test_a_soft_timeout_is_raised_in_the_middle_of_a_computation(app):
    async with working(app):
        before = await run(app, "pid")
        assert await run(app, "soft", "catch") == "caught"
        assert await run(app, "soft_coroutine") == "caught"
        assert await failure(app, "soft", "raise") == (
            "SoftTimeout",
            "the attempt has run for 0.2 s",
        )
        assert await run(app, "pid") == before


@pytest.mark.prove
async def test_a_cancelled_job_is_killed_with_all_that_it_has_started(app, tmp_path):
    async with working(app):
        job = await app.tasks["hold"].aenqueue(str(tmp_path / "held"), str(tmp_path / "never"))
        child, grandchild = await pids_in(tmp_path / "held.1")
        await job.acancel()
        await gone(child, grandchild)
        assert await run(app, "square", 3) == 9
        assert (await job.ainfo()).status == "cancelled"


@pytest.mark.prove
async def test_one_that_lost_its_lease_is_killed_and_its_result_is_nobodys(app, tmp_path):
    held = str(tmp_path / "held")
    async with working(app) as engine:
        job = await app.tasks["hold"].aenqueue(held, str(tmp_path / "never"))
        child, grandchild = await pids_in(tmp_path / "held.1")
        async with opened_store(app, writes=True) as store:
            # As if another worker had not heard of this one for longer than a lease.
            while True:
                await store.leave(engine.worker)
                if claims := await store.reclaim(1, Worker("other")):
                    break
            facts = await store.facts()
            assert await store.commit([decide(claims[0], Lost(), facts, 0.5)]) == ["written"]
        await gone(child, grandchild)
        assert await job.aresult(timeout=TIMEOUT) == [2]
        assert [each.type for each in await job.ahistory()] == ["Lost"]


@pytest.mark.prove
async def test_a_stopped_worker_kills_what_its_children_run(app, tmp_path):
    async with working(app, drain=False):
        await app.tasks["hold"].aenqueue(str(tmp_path / "held"), str(tmp_path / "never"))
        child, grandchild = await pids_in(tmp_path / "held.1")
    await gone(child, grandchild)


@pytest.mark.prove
async def test_the_log_of_a_child_is_the_log_of_its_worker(app, caplog):
    async with working(app):
        with caplog.at_level(logging.INFO):
            job = await app.tasks["logs"].aenqueue("hello")
            await job.aresult(timeout=TIMEOUT)
    [said, wrong] = [each for each in caplog.records if each.name == "tests.pools.app"]
    assert (said.getMessage(), said.levelname) == ("a child says hello", "WARNING")
    assert vars(said)["job"] == job.id
    assert vars(said)["colour"] == "green"
    assert said.process != ME
    assert "ValueError: invalid literal" in (wrong.exc_text or "")
    assert "  ValueError: invalid literal" in TextLines().format(wrong)


@pytest.mark.prove
async def test_a_task_in_a_child_may_enqueue(app, monkeypatch):
    monkeypatch.setenv("TEST_STORE", app.url)
    async with working(app):
        assert await app.job(await run(app, "enqueues", 5)).aresult(timeout=TIMEOUT) == 25


@pytest.mark.prove
async def test_but_not_on_a_store_that_children_do_not_see(monkeypatch):
    monkeypatch.delenv("TEST_STORE", raising=False)
    app = make("memory://")
    app.called = "tests.pools.app:app"
    async with working(app):
        assert (await failure(app, "enqueues", 5))[1].startswith("memory:// is seen by the worker")


@pytest.mark.prove
async def test_a_child_that_dies_while_it_is_idle_is_replaced(app):
    async with working(app):
        pid = await run(app, "pid")
        os.kill(pid, 9)
        await gone(pid)
        assert await run(app, "pid") != pid


@pytest.mark.prove
async def test_a_fork_server_that_dies_is_replaced(app, caplog):
    async with working(app) as engine:
        assert await run(app, "square", 2) == 4
        assert engine._pool is not None
        server = engine._pool._processes._server
        server._process.kill()
        await until(lambda: not server.alive)
        assert await run(app, "square", 3) == 9
    assert "the fork server of the child processes has ended; starting another" in caplog.text


@pytest.mark.prove
async def test_middleware_and_lifespan_are_those_of_the_child(monkeypatch):
    monkeypatch.delenv("TEST_STORE", raising=False)
    async with working(surrounded):
        found = await run(surrounded, "plain")
        pid = found["around"]
        inside = {"inside": pid, "value": {"owner": pid}}
        assert (found, pid != ME) == ({"around": pid, "value": inside}, True)
        assert await run(surrounded, "awaited") == {"around": pid, "value": {"owner": pid}}


# -- what children cannot import ------------------------------------------------------------


@pytest.mark.prove
async def test_an_app_that_children_cannot_import_is_refused_when_the_worker_starts(tmp_path):
    app = make(f"sqlite:///{tmp_path}/jobs.db")
    app.called = "tests.pools.missing:app"
    with pytest.raises(
        InvalidError,
        match=r"cannot import the app tests.pools.missing:app: ModuleNotFoundError: No module named"
        r" 'tests.pools.missing' .*it must be importable by its name",
    ):
        await work(app, new_worker(app))


async def test_an_app_that_is_in_no_module_is_refused(tmp_path):
    app = make(f"sqlite:///{tmp_path}/jobs.db")
    with pytest.raises(InvalidError, match="cannot import an app that is no attribute of a module"):
        await work(app, new_worker(app))


SCRIPT = """
import asyncio
from mulligan import Mulligan
from mulligan.app.worker import new_worker, work

app = Mulligan("memory://")

@app.task(pool="process")
def square(number: int) -> int:
    return number * number

async def main() -> None:
    ready = asyncio.get_running_loop().create_future()
    running = asyncio.ensure_future(work(app, new_worker(app), ready.set_result))
    engine = await ready
    print(await (await square.aenqueue(9)).aresult(timeout=60))
    engine.stop()
    await running

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.prove
def test_a_script_that_runs_its_own_worker_is_found_by_its_file(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("81\n", 0), done.stderr


# -- declarations ---------------------------------------------------------------------------


def test_declarations_that_make_no_sense_are_refused():
    app = Mulligan("memory://")
    with pytest.raises(InvalidError, match="pool 'thread' is unknown; use \"process\""):
        app.task(pool="thread")  # type: ignore[call-overload]
    with pytest.raises(InvalidError, match="max_memory 'lots' must be a number of bytes"):
        app.task(pool="process", max_memory="lots")
    with pytest.raises(InvalidError, match=r'has max_memory, .* add pool="process"'):
        app.task(max_memory="1GB")(lambda: None)
    with pytest.raises(InvalidError, match="is transactional, and a child process has no part"):

        @app.sink(transactional=True, pool="process")
        def sink(connection: object, result: object, key: str) -> None: ...


async def test_max_memory_needs_a_system_that_tells_the_memory_of_a_process(app, monkeypatch):
    monkeypatch.setattr("mulligan.engine.processes.can_measure_memory", lambda: False)
    with pytest.raises(InvalidError, match=r"task 'grow' has max_memory, and .* on Linux alone"):
        await work(app, new_worker(app))


def test_testing_runs_them_in_place(tmp_path):
    app = make("memory://")
    with app.testing():
        assert app.tasks["pid"].enqueue().result() == ME
        assert app.tasks["coroutine"].enqueue(1).result() == [1, ME]
