"""A worker that serves several queues takes from them in turn."""

from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from mulligan.core.facts import Facts, QueueSettings
from mulligan.core.fairness import URGENT_SHARE, Carry, plan_claim
from mulligan.core.fetch import Weighted
from tests.core.ledger import Ledger
from tests.core.lines import HERE, Fetch, Start
from tests.core.strategies import policies, shares, steady

NAMES = ("a", "b", "c", "d", "e")
queue_lists = st.integers(1, 5).map(lambda count: NAMES[:count])


def by_queue(starts: Sequence[Start]) -> Counter[str]:
    return Counter(start.lane.queue for start in starts)


@steady
@given(policies, queue_lists, st.integers(1, 60))
def test_no_queue_waits_for_more_than_one_start_of_each_other(policy, queues, claims):
    """With claims of one, while all have work, each queue gets one start in every `queues`."""
    fetch = Fetch(QueueSettings(policy), queues)
    since = dict.fromkeys(queues, 0)
    for _ in range(claims):
        for queue in queues:
            fetch.fill("fresh", 1, queue)
        (start,) = fetch.claim()
        for queue in queues:
            since[queue] = 0 if queue == start.lane.queue else since[queue] + 1
            assert since[queue] <= len(queues) - 1


@steady
@given(policies, queue_lists, st.lists(st.integers(1, 100), max_size=30))
def test_a_claim_is_split_evenly_between_queues_that_have_enough(policy, queues, demands):
    """While all have enough work, each gets demand / queues of every claim within one start."""
    fetch = Fetch(QueueSettings(policy), queues)
    for demand in demands:
        for queue in queues:
            fetch.fill("fresh", demand, queue)
        got = by_queue(fetch.claim(demand))
        for queue in queues:
            assert demand // len(queues) <= got[queue] <= -(-demand // len(queues))


@steady
@given(queue_lists, st.lists(st.integers(0, 40), min_size=5, max_size=5), st.integers(1, 100))
def test_what_a_queue_leaves_goes_to_the_others(queues, depths, demand):
    fetch = Fetch(QueueSettings(), queues)
    for queue, depth in zip(queues, depths, strict=False):
        fetch.add("fresh", depth, queue)
    total = sum(depths[: len(queues)])
    got = by_queue(fetch.claim(demand))
    assert sum(got.values()) == min(demand, total)
    for queue, depth in zip(queues, depths, strict=False):
        assert got[queue] >= min(depth, demand // len(queues))


@steady
@given(shares, st.integers(2, 5), st.lists(st.integers(1, 100), min_size=1, max_size=30))
def test_a_share_holds_in_a_queue_whatever_the_others_leave_to_it(share, count, demands):
    """Retries of a queue have their share within one start while the other queues are empty."""
    queues = NAMES[:count]
    fetch = Fetch(QueueSettings(Weighted(share)), queues)
    books = Ledger(share)
    for demand in demands:
        fetch.fill("retry", 100, "a")
        fetch.fill("fresh", 100, "a")
        starts = fetch.claim(demand)
        books.book(sum(start.kind == "retry" for start in starts), len(starts))
        assert books.within_one_start


@steady
@given(policies, st.integers(2, 5), st.lists(st.integers(1, 100), min_size=1, max_size=30))
def test_urgent_work_keeps_to_its_share_in_a_queue_whatever_the_others_leave(
    policy, count, demands
):
    """Urgent work has 0.8 of a queue's starts within one while the other queues are empty."""
    queues = NAMES[:count]
    fetch = Fetch(QueueSettings(policy), queues)
    books = Ledger(URGENT_SHARE)
    for demand in demands:
        fetch.fill("urgent", 100, "a")
        fetch.fill("fresh", 100, "a")
        starts = fetch.claim(demand)
        books.book(sum(start.kind == "urgent" for start in starts), len(starts))
        assert books.within_one_start


def test_a_paused_queue_is_left_out_and_its_part_goes_to_the_others():
    facts = Facts(epoch=7, paused=frozenset({"a"}))
    plan = plan_claim(10, HERE, [("a", Carry()), ("b", Carry())], facts)
    assert {lane.queue for lane in plan.lanes} == {"b"}
    assert plan == plan_claim(10, HERE, [("b", Carry())], facts)
    assert plan.epoch == 7


def test_when_every_queue_is_paused_a_plan_is_empty():
    plan = plan_claim(10, HERE, [("a", Carry())], Facts(paused=frozenset({"a"})))
    assert (plan.demand, plan.groups, plan.steps) == (10, (), ())
