"""The checker is not blind: each bug of the zoo is seen, and nothing is seen without one."""

import pytest

from tests.dst.day import is_seen_by_clients, live
from tests.dst.zoo import SEEDS, ZOO, catch

FEW_SEEDS = 20


@pytest.mark.parametrize("bug", ZOO.values(), ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_caught(bug):
    caught = catch(bug)

    assert caught.seeds is not None, f"{bug.name} was not caught within {SEEDS} seeds"
    assert caught.invariants
    if bug.in_rules:  # the day that shows it in memory shows it in SQLite, or one soon after does
        later = bug._replace(first=bug.first + caught.seeds - 1)
        assert catch(later, FEW_SEEDS, store="sqlite://").seeds is not None


def test_a_batch_that_fails_with_a_member_is_caught_by_what_clients_saw():
    assert catch(ZOO["stale member fails the batch"], as_clients=True).seeds is not None


def test_the_zoo_is_large():
    assert len(ZOO) >= 25


def test_without_a_bug_nothing_is_seen_in_the_same_seeds():
    # Of all others test_seeds.py has seen it.
    seeds = [seed for seed in range(SEEDS) if is_seen_by_clients(seed)]

    assert [live(seed, as_clients=False).violations for seed in seeds] == [[] for _ in seeds]
