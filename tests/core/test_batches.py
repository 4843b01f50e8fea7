"""Shares with claims of 1 to 100: they hold as they do for claims of one."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mulligan.core.facts import QueueSettings
from mulligan.core.fairness import URGENT_SHARE
from mulligan.core.fetch import Balanced, RetryFirst, Weighted
from mulligan.core.plan import Kind
from tests.core.ledger import Ledger, longest_wait
from tests.core.lines import Fetch, Start
from tests.core.strategies import policies, shares, steady

sizes = st.integers(1, 100)
claims = st.lists(sizes, max_size=60)
KINDS: tuple[Kind, ...] = ("urgent", "retry", "fresh")


def count(starts: Sequence[Start], kind: Kind) -> int:
    return sum(start.kind == kind for start in starts)


def crowd(share: float, size: int, *kinds: Kind) -> Fetch:
    """A queue in which so many of each of these kinds wait."""
    fetch = Fetch(QueueSettings(Weighted(share)))
    for kind in kinds:
        fetch.fill(kind, size)
    return fetch


@steady
@given(shares, claims)
@example(0.1, [5] * 20)
@example(0.45, [10] * 30)
@example(0.5, [1, 6] * 20)
def test_while_both_wait_claims_of_any_size_keep_the_share_within_one_start(share, demands):
    """At the end of each claim retries have more than share * k - 1 and fewer than share * k + 1
    of the last k starts, for every k back to when one side did not wait.
    """
    fetch = crowd(share, 100, "retry", "fresh")
    books = Ledger(share)
    for demand in demands:
        starts = fetch.claim(demand)
        books.book(count(starts, "retry"), len(starts))
        assert books.within_one_start
        fetch.fill("retry", 100)
        fetch.fill("fresh", 100)


@steady
@given(shares, claims)
@example(0.2, [5] * 20)
def test_a_retry_waits_behind_few_fresh_starts_whatever_the_size_of_claims(share, demands):
    """The fresh starts of claims that left a due retry waiting are at most ceil(1/share) - 1
    before one that takes it, and for a fresh job the retries at most ceil(1/(1 - share)) - 1.
    """
    fetch = crowd(share, 100, "retry", "fresh")
    bounds: dict[Kind, int] = {"retry": longest_wait(share), "fresh": longest_wait(1 - share)}
    behind: dict[Kind, int] = dict.fromkeys(bounds, 0)
    for demand in demands:
        starts = fetch.claim(demand)
        for kind, bound in bounds.items():
            behind[kind] = 0 if count(starts, kind) else behind[kind] + len(starts)
            assert behind[kind] <= bound
        fetch.fill("retry", 100)
        fetch.fill("fresh", 100)


@steady
@given(policies, claims)
def test_urgent_work_takes_at_most_its_share_of_claims_of_any_size(policy, demands):
    """While both wait throughout, 0.8 of the starts within one start at the end of each claim."""
    fetch = Fetch(QueueSettings(policy))
    books = Ledger(URGENT_SHARE)
    for demand in demands:
        fetch.fill("urgent", 100)
        fetch.fill("fresh", 100)
        starts = fetch.claim(demand)
        books.book(count(starts, "urgent"), len(starts))
        assert books.within_one_start


@steady
@given(shares, st.lists(st.tuples(sizes, st.integers(0, 100)), max_size=40))
@example(0.5, [(100, 40)] * 3)
@example(0.2, [(10, 4)] * 5)
def test_urgent_work_in_a_claim_changes_nothing_between_retries_and_fresh_jobs(share, rounds):
    """Of the starts that are not urgent, retries have their share within one start, however many
    urgent jobs there are: none, some, or more than their share.
    """
    fetch = crowd(share, 100, "retry", "fresh")
    books = Ledger(share)
    for demand, urgent in rounds:
        fetch.add("urgent", urgent)
        starts = fetch.claim(demand)
        retries, fresh = count(starts, "retry"), count(starts, "fresh")
        books.book(retries, retries + fresh)
        assert books.within_one_start
        fetch.fill("retry", 100)
        fetch.fill("fresh", 100)


rushes = st.tuples(*(st.sampled_from([0, 0, 1, 3, 50]) for _ in KINDS), sizes)


@steady
@given(policies, st.lists(rushes, max_size=60))
def test_no_slot_stays_empty_while_a_job_could_start(policy, rounds):
    """A claim gives as many as it asks for or as many as there are; each is taken once, in the
    order in which it joined its lane.
    """
    fetch = Fetch(QueueSettings(policy))
    seen: dict[Kind, int] = dict.fromkeys(KINDS, 0)
    cap = getattr(policy, "limit", None)
    for urgent, retries, fresh, demand in rounds:
        for kind, number in zip(KINDS, (urgent, retries, fresh), strict=True):
            fetch.add(kind, number)
        waiting = {kind: fetch.lines.waiting("q", kind) for kind in KINDS}
        if cap is not None:
            waiting["retry"] = min(waiting["retry"], cap - fetch.lines.permits["cap:q"])
        starts = fetch.claim(demand)
        assert len(starts) == min(demand, sum(waiting.values()))
        for start in starts:
            assert start.sequence > seen[start.kind]
            seen[start.kind] = start.sequence


@pytest.mark.parametrize("demand", [1, 7, 100])
@pytest.mark.parametrize("kind", ["retry", "fresh"])
def test_nobody_saves_up_for_a_burst(demand, kind):
    """However long one side was alone, when the other joins it the share holds from there on."""
    fetch = Fetch(QueueSettings(Balanced()))
    for _ in range(50):
        fetch.fill(kind, demand)
        fetch.claim(demand)
    books = Ledger(0.5)
    for _ in range(20):
        fetch.fill("retry", demand)
        fetch.fill("fresh", demand)
        starts = fetch.claim(demand)
        books.book(count(starts, "retry"), len(starts))
    assert books.within_one_start


def test_retry_first_fills_a_claim_with_retries_before_fresh_jobs():
    fetch = Fetch(QueueSettings(RetryFirst()))
    fetch.add("fresh", 10)
    fetch.add("retry", 3)
    assert [start.kind[0] for start in fetch.claim(5)] == ["r", "r", "r", "f", "f"]
