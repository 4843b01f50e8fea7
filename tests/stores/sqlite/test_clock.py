"""Processes whose clocks differ: the one that the others contradict writes nothing."""

import logging

import pytest

from mulligan.core.errors import StoreUnavailableError
from mulligan.core.worker import Worker
from mulligan.stores.sqlite import SqliteStore
from mulligan.stores.sqlite.clock import WAIT
from mulligan.stores.sqlite.sockets import is_any_worker_alive
from tests.contract.builders import ANN, BOB, claim, done, jobs, start
from tests.store_kit import START
from tests.stores.sqlite.kit import line_of

HOUR = 3600.0
# Another process with a worker: it waits at its socket until it is told to end.
WORKER = """
import asyncio, sys
from mulligan.core.worker import Worker
from mulligan.stores import make_store
from tests.contract.builders import claim

async def main():
    store = make_store(sys.argv[1])
    await store.open()
    await claim(store, worker=Worker("other", "US", ("default",)))
    print("waits", flush=True)
    await asyncio.to_thread(input)
    await store.close()

asyncio.run(main())
"""


class Machine:
    """Processes on one machine, whose clocks may differ; whoever sleeps lets the others work."""

    def __init__(self, url, monkeypatch):
        self.url = url
        self.passed = 0.0
        self.slept = 0.0
        self.others = []
        self.workers_live = True
        monkeypatch.setattr("mulligan.stores.sqlite.clock.sleep", self.sleep)
        for module in ("store", "doctor"):
            place = f"mulligan.stores.sqlite.{module}.is_any_worker_alive"
            monkeypatch.setattr(place, lambda _path: self.workers_live)

    async def process(self, ahead=0.0):
        made = Process(self, ahead)
        await made.store.open()
        return made

    def sleep(self, seconds):
        self.slept += seconds
        self.passed += seconds
        for each in self.others:
            each.store._runner.write_here(lambda _: None)


class Process:
    """A process; its clock is ahead by some seconds."""

    def __init__(self, machine, ahead):
        self.machine = machine
        self.ahead = ahead
        self.store = SqliteStore(
            machine.url,
            lambda: START + machine.passed + self.ahead,
            monotonic=lambda: machine.passed,
            inline=True,
        )


@pytest.fixture
def machine(url, monkeypatch):
    return Machine(url, monkeypatch)


async def refuses_all(store):
    """Whatever it is asked to write."""
    for writing in (
        store.prune(0.0, 10),
        store.promote(10),
        store.reclaim(10, BOB),
        store.enqueue(jobs("late")),
        store.beat(BOB, []),
        claim(store, worker=BOB),
    ):
        with pytest.raises(StoreUnavailableError, match="the clock of this process is 60 min"):
            await writing


@pytest.mark.parametrize(("ahead", "said"), [(HOUR, "ahead of"), (-HOUR, "behind")])
async def test_a_process_whose_clock_is_wrong_deletes_and_reclaims_nothing(machine, ahead, said):
    right = await machine.process()
    await right.store.enqueue(jobs("done", "running", "waiting"))
    first = await start(right.store)
    await right.store.commit([done(first)])
    await start(right.store)
    machine.others = [right]
    wrong = await machine.process(ahead)
    with pytest.raises(StoreUnavailableError, match=f"60 min {said} the clock of the workers"):
        await wrong.store.prune(HOUR, 10)
    await refuses_all(wrong.store)
    statuses = {each: (await right.store.get(each)).status for each in ("done", "running")}
    assert statuses == {"done": "done", "running": "processing"}
    assert await right.store.get("late") is None
    wrong.ahead = 0.0
    await wrong.store.enqueue(jobs("late"))
    assert (await right.store.get("late")).due == pytest.approx(START + machine.passed)


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
async def test_a_process_whose_own_clock_jumps_writes_nothing(machine, jump):
    right, other = await machine.process(), await machine.process()
    await right.store.enqueue(jobs("a"))
    await other.store.enqueue(jobs("b"))
    machine.others = [right]
    other.ahead = jump
    await refuses_all(other.store)
    other.ahead = 0.0
    await other.store.enqueue(jobs("c"))


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
async def test_where_all_clocks_jump_no_lease_is_lost_and_work_goes_on(machine, jump):
    """As when a virtual machine resumes: there, all workers seem to have stopped beating."""
    ann, bob = await machine.process(), await machine.process()
    await ann.store.enqueue(jobs("a"))
    await ann.store.beat(ANN, [])
    await bob.store.beat(BOB, [])
    await start(ann.store)
    ann.ahead = bob.ahead = jump
    assert await bob.store.reclaim(10, BOB) == []
    assert machine.slept >= WAIT
    slept = machine.slept
    assert (await ann.store.beat(ANN, [])).lost == []
    assert machine.slept == slept
    machine.passed += ANN.lease + 1
    await bob.store.beat(BOB, [])
    assert [each.id for each in await bob.store.reclaim(10, BOB)] == ["a"]


@pytest.mark.parametrize("away", [HOUR, -HOUR])
async def test_a_file_that_nobody_works_on_is_used_at_once(machine, away, caplog):
    """After a night, or after all was killed: no clock contradicts the one there is."""
    gone = await machine.process()
    await gone.store.enqueue(jobs("a"))
    await gone.store.beat(ANN, [])
    await start(gone.store)
    machine.workers_live = False
    later = await machine.process(away)
    found = await later.store.reclaim(10, BOB)
    assert [each.id for each in found] == (["a"] if away > 0 else [])
    assert machine.slept == 0.0
    assert ("60 min ahead of the clock" in caplog.text) == (away < 0)


async def test_a_process_that_others_contradict_later_gives_way(machine):
    """Both were trusted, such as while one was stopped; the clock that is behind deletes less."""
    ahead, behind = await machine.process(HOUR), await machine.process()
    machine.workers_live = False
    await ahead.store.enqueue(jobs("a"))
    await behind.store.enqueue(jobs("b"))
    machine.workers_live = True
    machine.passed += WAIT
    with pytest.raises(StoreUnavailableError, match="60 min ahead of"):
        await ahead.store.enqueue(jobs("c"))


async def test_a_process_is_told_of_another_whose_clock_is_ahead(machine, caplog):
    right, ahead = await machine.process(), await machine.process(HOUR)
    machine.workers_live = False
    await right.store.enqueue(jobs("a"))
    await ahead.store.enqueue(jobs("b"))
    machine.passed += WAIT
    [finding] = [each for each in await right.store.doctor() if each.level == "bad"]
    assert "60 min ahead of the clock of this process" in finding.sentence
    with caplog.at_level(logging.WARNING):
        await right.store.enqueue(jobs("c"))
    assert "60 min ahead of the clock of this process" in caplog.text
    assert "bad" not in {each.level for each in await right.store.doctor()}


async def test_the_doctor_knows_its_own_clock_is_wrong(machine):
    right = await machine.process()
    await right.store.enqueue(jobs("a"))
    wrong = await machine.process(HOUR)
    [finding] = [each for each in await wrong.store.doctor() if each.level == "bad"]
    assert "60 min ahead of the clock of the workers" in finding.sentence
    machine.workers_live = False
    assert "bad" not in {each.level for each in await wrong.store.doctor()}


async def test_a_time_that_was_not_committed_is_not_compared_with(machine):
    store = (await machine.process()).store
    await store.enqueue(jobs("a"))
    for _ in range(5):
        machine.passed += WAIT
        with pytest.raises(ZeroDivisionError):
            store._runner.write_here(lambda _: 1 // 0)
    await store.enqueue(jobs("b"))


async def test_a_worker_of_another_process_is_seen_at_its_socket(url, path, run):
    store = SqliteStore(url)
    await store.open()
    await claim(store, worker=Worker("own", "US", ("default",)))
    assert not is_any_worker_alive(str(path))
    other = run(WORKER, url)
    assert await line_of(other) == "waits"
    assert is_any_worker_alive(str(path))
    other.kill()
    other.communicate()
    assert not is_any_worker_alive(str(path))
    await store.close()
