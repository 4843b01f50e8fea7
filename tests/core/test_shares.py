"""Shares with one worker that claims for one slot at a time, counted in starts.

A start is contested when both sides had a job that could start.
"""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.core.facts import QueueSettings
from mulligan.core.fairness import (
    BALANCED_SHARE,
    URGENT_SHARE,
    Carry,
    ClaimCounts,
    clamp,
    retry_share,
    settle,
)
from mulligan.core.fetch import Balanced, Capped, Fifo, RetryFirst, Separate, Weighted
from mulligan.core.plan import ONE, Kind
from tests.core.ledger import Ledger, longest_wait
from tests.core.lines import Fetch
from tests.core.strategies import policies, shares, steady

# What joins before each claim: mostly little, so that each side is at times alone and at times not.
few = st.sampled_from([0, 0, 0, 0, 1, 1, 2, 30])
arrivals = st.lists(st.tuples(few, few), max_size=200)
crowds = st.lists(st.tuples(few, few, few), max_size=200)


def order(policy, *jobs: tuple[Kind, int], starts: int) -> str:
    fetch = Fetch(QueueSettings(policy))
    for kind, count in jobs:
        fetch.add(kind, count)
    return "".join(start.kind[0] for _ in range(starts) for start in fetch.claim())


def test_balanced_takes_turns_and_begins_with_the_retry():
    assert order(Balanced(), ("retry", 9), ("fresh", 9), starts=8) == "rfrfrfrf"


def test_weighted_gives_retries_one_start_in_five():
    assert order(Weighted(0.2), ("retry", 9), ("fresh", 20), starts=11) == "rffffrffffr"


def test_either_side_takes_what_the_other_leaves():
    assert order(Weighted(0.2), ("retry", 3), starts=4) == "rrr"
    assert order(Weighted(0.2), ("fresh", 3), starts=4) == "fff"
    assert order(Weighted(0.2), ("retry", 4), ("fresh", 2), starts=7) == "rffrrr"


def test_urgent_work_goes_before_all_but_leaves_one_start_in_five():
    assert order(RetryFirst(), ("urgent", 9), ("fresh", 9), starts=11) == "uuuufuuuufu"
    assert order(Balanced(), ("urgent", 20), ("retry", 9), ("fresh", 9), starts=15) == (
        "uuuuruuuufuuuur"
    )


@steady
@given(shares, arrivals)
def test_while_both_wait_retries_have_their_share_within_one_start(share, arriving):
    """Over any run of contested starts k, retries get more than share * k - 1 and fewer than
    share * k + 1 of them; what is between contested starts does not matter.
    """
    fetch = Fetch(QueueSettings(Weighted(share)))
    books = Ledger(share)
    for retries, fresh in arriving:
        fetch.add("retry", retries)
        fetch.add("fresh", fresh)
        contested = fetch.waits("retry") and fetch.waits("fresh")
        for start in fetch.claim():
            if contested:
                books.book(start.kind == "retry", 1)
    assert books.within_one_start


@steady
@given(shares, arrivals)
def test_a_due_retry_waits_behind_few_fresh_starts_and_a_fresh_job_behind_few_retries(
    share, arriving
):
    """The first due retry waits behind at most ceil(1/share) - 1 fresh starts, and the first fresh
    job behind at most ceil(1/(1 - share)) - 1 retries: with 0.2 four and one, with 0.5 one and one.
    """
    fetch = Fetch(QueueSettings(Weighted(share)))
    bounds: dict[Kind, int] = {"retry": longest_wait(share), "fresh": longest_wait(1 - share)}
    behind: Counter[Kind] = Counter()
    for retries, fresh in arriving:
        fetch.add("retry", retries)
        fetch.add("fresh", fresh)
        waiting = [kind for kind in bounds if fetch.waits(kind)]
        for start in fetch.claim():
            for kind, bound in bounds.items():
                behind[kind] = behind[kind] + 1 if kind in waiting and kind != start.kind else 0
                assert behind[kind] <= bound


@pytest.mark.parametrize(
    ("share", "retry_waits", "fresh_waits"), [(0.2, 4, 1), (0.5, 1, 1), (0.3, 3, 1), (0.8, 1, 4)]
)
def test_the_bounds_of_common_shares_are_these(share, retry_waits, fresh_waits):
    assert (longest_wait(share), longest_wait(1 - share)) == (retry_waits, fresh_waits)


@steady
@given(policies, crowds)
def test_urgent_work_takes_at_most_its_share_while_other_work_waits(policy, arriving):
    """Over any run of k starts for which urgent and other work both wait, urgent work has more
    than 0.8 k - 1 and fewer than 0.8 k + 1; other work waits behind at most four urgent starts,
    urgent work behind one other.
    """
    fetch = Fetch(QueueSettings(policy))
    books = Ledger(URGENT_SHARE)
    run = 0
    for urgent, retries, fresh in arriving:
        fetch.add("urgent", urgent)
        fetch.add("retry", retries)
        fetch.add("fresh", fresh)
        others = fetch.waits("retry") or fetch.waits("fresh")
        contested = fetch.waits("urgent") and others
        started = [start.kind for start in fetch.claim()]
        # A cap may hold back all the others; then nothing is contested.
        if contested and not isinstance(policy, Capped):
            books.book(started == ["urgent"], 1)
            run = run + 1 if started == ["urgent"] else 0
            assert run <= 4
    assert books.within_one_start


@steady
@given(shares, crowds)
def test_urgent_starts_change_nothing_between_retries_and_fresh_jobs(share, arriving):
    """Counted in starts that are not urgent, the share of retries holds within one start."""
    fetch = Fetch(QueueSettings(Weighted(share)))
    books = Ledger(share)
    for urgent, retries, fresh in arriving:
        fetch.add("urgent", urgent)
        fetch.add("retry", retries)
        fetch.add("fresh", fresh)
        contested = fetch.waits("retry") and fetch.waits("fresh")
        for start in fetch.claim():
            if contested and start.kind != "urgent":
                books.book(start.kind == "retry", 1)
    assert books.within_one_start


tallies = st.builds(
    ClaimCounts,
    st.integers(0, 1000),
    st.integers(0, 1000),
    st.integers(0, 1000),
    st.frozensets(st.sampled_from(["urgent", "retry", "fresh"])),
)
carries = st.builds(Carry, st.integers(0, ONE - 1), st.integers(0, ONE - 1))


@given(carries, tallies, policies)
def test_a_carry_is_never_below_nothing_nor_a_whole_start(carry, counts, policy):
    after = settle(carry, counts, QueueSettings(policy))
    assert 0 <= after.urgent < ONE
    assert 0 <= after.retry < ONE


@given(carries, tallies, policies)
def test_a_carry_moves_only_while_both_sides_wait(carry, counts, policy):
    after = settle(carry, counts, QueueSettings(policy))
    others = counts.waited("retry") or counts.waited("fresh")
    if not (counts.waited("urgent") and others):
        assert after.urgent == carry.urgent
    if not (counts.waited("retry") and counts.waited("fresh")):
        assert after.retry == carry.retry


def test_a_new_worker_owes_both_urgent_work_and_retries_almost_a_start():
    assert Carry() == Carry(ONE - 1, ONE - 1)


def test_a_carry_is_clamped_to_one_start():
    assert [clamp(carry) for carry in (-5, 0, 7, ONE - 1, ONE, 9 * ONE)] == [
        *(0, 0, 7),
        *(ONE - 1, ONE - 1, ONE - 1),
    ]


@pytest.mark.parametrize(
    ("policy", "share"),
    [
        (Weighted(0.3), 0.3),
        (Balanced(), BALANCED_SHARE),
        (RetryFirst(), None),
        (Capped(2), None),
        (Separate(), None),
        (Fifo(), None),
    ],
)
def test_only_weighted_and_balanced_split_by_shares(policy, share):
    assert retry_share(QueueSettings(policy)) == share
