"""One slot: how long it rests, whom it adopts, and whom it refuses."""

import os
from pathlib import Path

import pytest

from mulligan.supervisor.fleet import Kind
from mulligan.supervisor.liveness import Holder, acquire, read_holder
from mulligan.supervisor.process import Command, start
from mulligan.supervisor.slot import Ending, Slot, TakenError
from tests.store_kit import VirtualClock

KIND = Kind("any", command=("sleep", "600"), backoff=1.0, backoff_max=60.0, drain_timeout=10.0)
SLEEP = Command(("sleep", "600"), {})


def end(slot: Slot) -> Ending:
    """Kill the slot's process, and wait until it is gone."""
    assert slot.process is not None
    os.kill(slot.process.pid, 9)
    while (ending := slot.check()) is None:
        os.sched_yield()
    return ending


def test_it_rests_twice_as_long_after_each_death_in_a_row(tmp_path: Path, clock: VirtualClock):
    slot = Slot(KIND, 1, tmp_path, clock)
    assert [slot.rest(0.5, 0.0) for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert slot.phase == "resting"
    assert slot.view("", "").rest == 60
    clock.advance(61)
    assert slot.view("", "").rest < 0


def test_who_lived_long_begins_anew(tmp_path: Path, clock: VirtualClock):
    slot = Slot(KIND, 1, tmp_path, clock)
    for _ in range(5):
        slot.rest(0.5, 0.0)
    assert slot.rest(61.0, 0.0) == 1
    assert slot.rest(0.5, 10.0) == 10, "but not before the cooldown is over"


def test_from_start_to_end(tmp_path: Path, clock: VirtualClock):
    slot = Slot(KIND, 1, tmp_path, clock)
    phases = [slot.phase]
    slot.start(SLEEP)
    phases.append(slot.phase)
    slot.ready = True
    phases.append(slot.phase)
    clock.advance(5)
    assert slot.view(SLEEP.digest, "idle").age == 5
    assert not slot.view(SLEEP.digest, "idle").outdated
    assert slot.view(SLEEP.digest, "idle").kept
    idle = slot.view("kept", SLEEP.digest)
    assert (idle.outdated, idle.kept) == (False, False)
    assert slot.view("another", "idle").outdated
    assert end(slot).words == "killed by SIGKILL after 5.0 s"
    assert [*phases, slot.phase] == ["empty", "starting", "running", "empty"]


def test_what_ignores_being_told_is_killed_when_its_time_is_up(tmp_path, clock):
    slot = Slot(KIND, 1, tmp_path, clock)
    deaf = Command(("sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.05; done"), {})
    slot.start(deaf)
    while "deaf" not in slot.output.read():
        os.sched_yield()
    slot.drain("a test")
    slot.drain("told twice is told once")
    assert slot.phase == "draining"
    clock.advance(14.9)
    assert slot.check() is None
    clock.advance(0.2)
    while (ending := slot.check()) is None:
        os.sched_yield()
    assert ending.killed
    assert ending.drain_reason == "a test"
    assert not ending.in_order


def test_a_process_is_adopted_even_if_nobody_could_write_down_its_number(tmp_path, clock):
    """As when a supervisor is killed right after it started one."""
    lock = tmp_path / "any-1.lock"
    opened = acquire(lock)
    assert opened is not None
    with (tmp_path / "any-1.log").open("ab") as log:
        child = start(Command(("sleep", "600"), {}), opened, log)
    os.close(opened)
    assert read_holder(lock) == Holder()
    slot = Slot(KIND, 1, tmp_path, clock)
    found = slot.start(SLEEP)
    assert found.pid == child.pid, "not started a second time"
    assert found.adopted
    assert slot.phase == "running"
    assert slot.view(SLEEP.digest, "idle").outdated
    os.kill(child.pid, 9)
    while not child.ended or slot.check() is None:
        os.sched_yield()
    child.close()


def test_what_an_ended_process_left_behind_is_ended_before_the_next_starts(tmp_path, clock):
    slot = Slot(KIND, 1, tmp_path, clock)
    slot.start(Command(("sh", "-c", "sleep 600 & echo $!; exec sleep 601"), {}))
    while not slot.output.read():
        os.sched_yield()
    end(slot)
    with pytest.raises(TakenError, match="slot any-1 is held by a process that has yet to end"):
        slot.start(SLEEP)
    while slot.process is None:
        try:
            slot.start(SLEEP)
        except TakenError:
            os.sched_yield()
    end(slot)
