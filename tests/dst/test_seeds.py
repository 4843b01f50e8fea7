"""The portion of the simulation that every run of the tests has, and that of a proof."""

import json
import os
import subprocess
import sys

import pytest

from tests.dst.running import lived

FEW = 20
# How many days a proof has; `make dst` lives through more.
DAYS = int(os.environ.get("MULLIGAN_TEST_DAYS", "2000"))
CHUNK = 100
SQLITE_DAYS = 8


@pytest.mark.parametrize("seed", range(FEW))
def test_whatever_goes_wrong_in_one_of_a_few_days_every_invariant_holds(seed):
    (day,) = lived([seed])
    assert day.violations == []


@pytest.mark.prove
@pytest.mark.parametrize("first", range(0, DAYS, CHUNK))
def test_whatever_goes_wrong_in_a_day_every_invariant_holds(first):
    days = min(CHUNK, DAYS - first)
    command = [sys.executable, "-m", "tests.dst", "--json", "--jobs=1"]
    command += [f"--first={first}", f"--seeds={days}"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.stdout, told.stderr
    answer = json.loads(told.stdout)
    assert (answer["seeds"], answer["violations"]) == (days, []), answer["commit"]


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(SQLITE_DAYS))
def test_on_sqlite_it_is_the_same(seed):
    (day,) = lived([seed], "sqlite://")
    assert day.violations == []
