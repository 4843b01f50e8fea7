"""Workers are killed and stopped while limits and fairness keys are in use."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
BRIEF = ("--seconds", "5", "--every", "1", "--calm", "2", "--workers", "2", "--rate", "3")


@pytest.mark.prove
@pytest.mark.timeout(400)  # it has ended long before, unless the machine is very busy
def test_limits_and_turns_hold_while_workers_are_killed_and_stopped():
    command = [sys.executable, "-m", "tests.chaos", "--store", "sqlite", "--only-limited", *BRIEF]
    ended = subprocess.run(
        [*command, "--json"], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert ended.stdout, ended.stderr
    report = json.loads(ended.stdout)
    assert (report["lost"], report["unended"], report["violations"]) == (0, 0, 0), ended.stderr
    assert report["had to be killed in the end"] == []
    assert report["faults"]["worker killed"] > 0
    assert report["done"] > 50
