"""The portion of the simulation that every run of the tests has."""

import os

import pytest

from tests.dst.running import lived

# How many days; `make dst` lives through more.
DAYS = int(os.environ.get("MULLIGAN_TEST_DAYS", "600"))
CHUNK = 25
SQLITE_DAYS = DAYS // 75


def broken(seeds: range, store: str) -> list[str]:
    return [
        f"python -m tests.dst --seed {day.seed} --store {store.partition(':')[0]}: "
        f"{name}: {job}: {words}"
        for day in lived(seeds, store)
        for name, job, words in day.violations
    ]


@pytest.mark.parametrize("first", range(0, DAYS, CHUNK))
def test_whatever_goes_wrong_in_a_day_every_invariant_holds(first):
    assert broken(range(first, min(DAYS, first + CHUNK)), "memory://") == []


@pytest.mark.parametrize("first", range(0, SQLITE_DAYS, 5))
def test_on_sqlite_it_is_the_same(first):
    assert broken(range(first, min(SQLITE_DAYS, first + 5)), "sqlite://") == []
