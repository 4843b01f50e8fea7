"""Policies without shares: their bounds, counted in starts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import Capped, Fifo, RetryFirst, Separate
from mulligan.core.lane import Lane, Priority
from tests.core.lines import HERE, Fetch, ListLines, Start
from tests.core.strategies import steady

few = st.sampled_from([0, 0, 1, 2, 10])
rounds = st.lists(st.tuples(few, few, st.integers(1, 20)), max_size=60)
FRESH_LANE = Lane("q", HERE, Priority.NORMAL)


@steady
@given(rounds)
def test_under_retry_first_no_fresh_job_starts_while_a_due_retry_waits(arriving):
    """A due retry waits behind no fresh start and only behind retries due before it; a fresh job
    waits for every due retry, without bound.
    """
    fetch = Fetch(QueueSettings(RetryFirst()))
    for retries, fresh, demand in arriving:
        fetch.add("retry", retries)
        fetch.add("fresh", fresh)
        kinds = [start.kind for start in fetch.claim(demand)]
        assert kinds == sorted(kinds, key=["retry", "fresh"].index)
        if "fresh" in kinds:
            assert not fetch.waits("retry")


@steady
@given(st.lists(st.tuples(st.lists(st.integers(0, 20), max_size=5), st.integers(1, 5))))
def test_under_fifo_everything_starts_in_the_order_in_which_it_fell_due(arriving):
    """A retry waits behind exactly what stood in its region's line when it fell due, and nothing
    that joins later passes it; so does a fresh job. Delays are the retries' own.
    """
    fetch = Fetch(QueueSettings(Fifo()))
    for delays, demand in arriving:
        fetch.lines.now += 1
        for delay in delays:
            fetch.lines.put(FRESH_LANE, due=fetch.lines.now + delay)
        starts = fetch.claim(demand)
        places = [(start.due, start.sequence) for start in starts]
        assert places == sorted(places)
        head = fetch.lines.head(FRESH_LANE)
        assert head is None or not places or head > places[-1]
        assert len(starts) == demand or head is None or head[0] > fetch.lines.now


def test_under_fifo_retries_left_from_another_policy_are_not_forgotten():
    fetch = Fetch(QueueSettings(Fifo()))
    fetch.add("fresh", 2)
    fetch.add("retry", 1)
    assert [start.kind[0] for start in fetch.claim(3)] == ["r", "f", "f"]


@steady
@given(st.integers(1, 10), rounds, st.randoms(use_true_random=False))
def test_under_a_cap_never_more_retries_are_in_flight(cap, arriving, chance):
    """With n in flight a due retry waits for one of them to end; below n it waits behind no fresh
    start. A fresh job waits behind at most the retries that the cap still has room for.
    """
    fetch = Fetch(QueueSettings(Capped(cap)))
    running: list[Start] = []
    for retries, fresh, demand in arriving:
        fetch.add("retry", retries)
        fetch.add("fresh", fresh)
        room = cap - len(running)
        waiting = fetch.lines.waiting("q", "retry")
        starts = fetch.claim(demand)
        started = [start for start in starts if start.kind == "retry"]
        assert len(started) == min(room, waiting, demand)
        running += started
        assert len(running) <= cap
        if len(starts) < demand:
            assert not fetch.waits("fresh")
        for start in chance.sample(running, chance.randint(0, len(running))):
            running.remove(start)
            fetch.lines.permits["cap:q"] -= 1


def test_a_retry_of_an_urgent_job_counts_against_the_cap():
    fetch = Fetch(QueueSettings(Capped(1)))
    urgent_retry = Lane("q", HERE, Priority.URGENT_RETRY)
    fetch.lines.put(urgent_retry)
    fetch.lines.put(urgent_retry)
    fetch.add("retry", 1)
    assert [start.lane for start in fetch.claim(5)] == [urgent_retry]


def test_a_cap_on_retries_of_urgent_jobs_does_not_hold_back_fresh_urgent_work():
    fetch = Fetch(QueueSettings(Capped(1)))
    fetch.lines.put(Lane("q", HERE, Priority.URGENT_RETRY), due=-1)
    fetch.lines.put(Lane("q", HERE, Priority.URGENT_RETRY), due=-1)
    fetch.add("urgent", 2)
    priorities = [start.lane.priority for start in fetch.claim(5)]
    assert priorities == [Priority.URGENT_RETRY, Priority.URGENT, Priority.URGENT]


@steady
@given(rounds)
def test_under_separate_each_worker_serves_its_own_kind_alone(arriving):
    """A retry waits behind no fresh start and a fresh job behind no retry, ever."""
    lines = ListLines()
    settings = QueueSettings(Separate())
    for_retries = Fetch(settings, only="retries", lines=lines)
    for_fresh = Fetch(settings, only="fresh", lines=lines)
    for retries, fresh, demand in arriving:
        for_retries.add("retry", retries)
        for_retries.add("fresh", fresh)
        due = min(lines.waiting("q", "retry"), demand)
        assert [start.kind for start in for_retries.claim(demand)] == ["retry"] * due
        ready = min(lines.waiting("q", "fresh"), demand)
        assert [start.kind for start in for_fresh.claim(demand)] == ["fresh"] * ready


@pytest.mark.parametrize(
    ("only", "priority"), [("retries", Priority.URGENT_RETRY), ("fresh", Priority.URGENT)]
)
def test_a_worker_for_one_kind_takes_urgent_work_of_that_kind_alone(only, priority):
    fetch = Fetch(QueueSettings(Separate()), only=only)
    fetch.lines.put(Lane("q", HERE, Priority.URGENT))
    fetch.lines.put(Lane("q", HERE, Priority.URGENT_RETRY))
    assert [start.lane.priority for start in fetch.claim(5)] == [priority]
