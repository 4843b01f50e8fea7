"""The processes of a run end one way or the other, and its first error is the one that shows."""

import random

from tests.chaos import fleet as module
from tests.chaos.fleet import Fleet
from tests.databases._server import state
from tests.resources.worker_process import until

ASLEEP = "import time; time.sleep(600)"


def test_a_process_that_does_not_end_is_killed_and_named(monkeypatch, tmp_path):
    deaf = tmp_path / "deaf"
    begin = "import pathlib, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    command = ["timeit", "-n1", "-r1", "-s", f"{begin}; pathlib.Path({str(deaf)!r}).touch()"]
    fleet = Fleet({"worker": [*command, "time.sleep(600)"]}, {"worker": 1}, {}, random.Random(0))
    fleet.fill()
    until(deaf.exists)
    monkeypatch.setattr(module, "LONGEST_WAIT", 0.01)
    log = fleet.stop()
    assert fleet.unwilling == ["worker"]
    assert "did not end within 0.01 s and was killed" in log


def test_whoever_is_paused_can_be_woken_before_its_time():
    fleet = Fleet({"worker": ["timeit", "-n1", "-r1", ASLEEP]}, {"worker": 2}, {}, random.Random(0))
    fleet.fill()
    try:
        processes = fleet._processes["worker"]
        stopped = fleet.pause("worker", 3600, [each.pid for each in processes])
        assert stopped is not None
        until(lambda: state(stopped) == "T")
        fleet.wake()
        assert state(stopped) == "T"
        fleet.wake(every=True)
        until(lambda: state(stopped) != "T")
    finally:
        fleet.stop()
