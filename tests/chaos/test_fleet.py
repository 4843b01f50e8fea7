"""The processes of a run end one way or the other, and its first error is the one that shows."""

import random

from tests.chaos import fleet as module
from tests.chaos.fleet import Fleet
from tests.resources.working import until


def test_a_process_that_does_not_end_is_killed_and_named(monkeypatch, tmp_path):
    deaf = tmp_path / "deaf"
    begin = "import pathlib, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    command = ["timeit", "-n1", "-r1", "-s", f"{begin}; pathlib.Path({str(deaf)!r}).touch()"]
    fleet = Fleet({"worker": [*command, "time.sleep(600)"]}, {"worker": 1}, {}, random.Random(0))
    fleet.fill()
    until(deaf.exists)
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    log = fleet.stop()
    assert fleet.unwilling == ["worker"]
    assert "did not end within 0.01 s and was killed" in log
