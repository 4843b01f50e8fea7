"""The portion of the simulation that every run of the tests has, and that of a proof."""

import json
import os
import subprocess
import sys

import pytest

from tests.dst.many_seeds import lived
from tests.store_kit import SHARDS

FEW = 20
FEW_SHARDED = 6
# How many days a proof has; `make dst` lives through more.
DAYS = int(os.environ.get("MULLIGAN_TEST_DAYS", "2000"))
CHUNK = 100
SQLITE_DAYS = 8
SHARDED_DAYS = int(os.environ.get("MULLIGAN_TEST_SHARDED_DAYS", "48"))


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


@pytest.mark.parametrize("seed", range(FEW_SHARDED))
def test_over_four_shards_it_is_the_same_and_each_shard_keeps_its_order(seed):
    (day,) = lived([seed], SHARDS)
    assert day.violations == []


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(FEW_SHARDED, SHARDED_DAYS))
def test_over_four_shards_it_is_the_same_on_many_days(seed):
    (day,) = lived([seed], SHARDS)
    assert day.violations == []


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(SQLITE_DAYS))
def test_on_sqlite_it_is_the_same(seed):
    (day,) = lived([seed], "sqlite://")
    assert day.violations == []
