"""Steps, progress, log and checkpoint of tasks that run in child processes."""

import pytest

from tests.pools.app import make
from tests.pools.worker import gone, pids_in, working

TIMEOUT = 60


@pytest.fixture
def app(store_url, monkeypatch):
    monkeypatch.setenv("TEST_STORE", store_url)
    made = make(store_url)
    made.called = "tests.pools.app:app"
    yield made
    made.close()


async def test_a_child_that_is_killed_between_two_steps_runs_the_first_once(app, tmp_path):
    file = tmp_path / "runs"
    async with working(app):
        job = await app.tasks["in_steps"].aenqueue(str(file))
        assert await job.aresult(timeout=TIMEOUT) == ["one", "two", 1]
        assert [each.type for each in await job.ahistory()] == ["ProcessDied"]
        records = await job.arecords()
    assert file.read_text().split() == ["one", "two"]
    assert [each.name for each in records.steps] == ["one", "two"]
    assert (records.progress.done, records.progress.note) == (1, "one is done")
    assert records.checkpoint.value == 2
    # The line of the attempt that was killed may have been lost with it.
    assert {line.text for line in records.log} == {"a line of a child"}


async def test_coroutines_in_a_child_have_steps_too(app, tmp_path):
    file = tmp_path / "runs"
    async with working(app):
        job = await app.tasks["in_async_steps"].aenqueue(str(file))
        assert await job.aresult(timeout=TIMEOUT) == ["one", "two", [1]]
    assert file.read_text().split() == ["one", "two"]


async def test_what_a_worker_refuses_is_refused_in_the_child(app):
    async with working(app):
        job = await app.tasks["steps_twice"].aenqueue()
        with pytest.raises(Exception, match="step 'one' was used twice"):
            await job.aresult(timeout=TIMEOUT)


async def test_a_child_spends_only_of_limits_that_are_declared(app):
    async with working(app):
        job = await app.tasks["spends"].aenqueue("tokens")
        assert await job.aresult(timeout=TIMEOUT) == "tokens"
        job = await app.tasks["spends"].aenqueue("token")
        with pytest.raises(Exception, match="limit 'token' is not declared"):
            await job.aresult(timeout=TIMEOUT)


async def test_a_soft_timeout_interrupts_no_exchange_with_the_worker(app):
    async with working(app):
        for _ in range(3):
            job = await app.tasks["soft_in_steps"].aenqueue()
            assert await job.aresult(timeout=TIMEOUT) == "caught"
        # The children are still of use.
        assert await (await app.tasks["square"].aenqueue(3)).aresult(timeout=TIMEOUT) == 9


async def test_a_child_whose_record_is_refused_is_killed(app, tmp_path):
    async with working(app):
        job = await app.tasks["hold_in_steps"].aenqueue(
            str(tmp_path / "held"), str(tmp_path / "never")
        )
        [pid, _] = await pids_in(tmp_path / "held")
        assert await job.acancel()
        await gone(pid)
        assert (await job.ainfo()).status == "cancelled"
