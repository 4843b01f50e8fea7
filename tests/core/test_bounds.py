"""The bounds of fairness.md, counted in starts, over whatever arrives and whoever claims."""

from math import ceil
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import RetryFirst, Weighted
from mulligan.core.lane import Lane
from mulligan.core.plan import Kind
from tests.core.lines import HERE, PRIORITY, Fetch, ListLines, Start

SHARES = (0.05, 0.1, 0.2, 0.25, 0.5, 0.7, 0.9)

RETRY: Kind = "retry"
FRESH: Kind = "fresh"
# What is claimed together starts together, in no order of kinds.
LARGEST_CLAIM = 3

# A move of the game: so many retries and fresh jobs arrive, and one of the workers claims.
moves = st.lists(
    st.tuples(
        st.integers(0, 4), st.integers(0, 4), st.integers(0, 2), st.integers(1, LARGEST_CLAIM)
    ),
    min_size=5,
    max_size=120,
)


class Waiter(NamedTuple):
    """A job that arrived: its kind, how many of it stood before, how many starts there had been."""

    kind: Kind
    ahead: int
    starts: int


def play(workers: list[Fetch], lines: ListLines, game: list[tuple[int, int, int, int]]):
    """Each job that starts, and how many starts there were before its own."""
    waiting: dict[int, Waiter] = {}
    starts: list[Start] = []
    for retries, fresh, who, demand in game:
        for kind in [RETRY] * retries + [FRESH] * fresh:
            waiter = Waiter(kind, lines.waiting("q", kind), len(starts))
            waiting[lines.put(Lane("q", HERE, PRIORITY[kind]))] = waiter
        for start in workers[who % len(workers)].claim(demand):
            starts.append(start)
            yield waiting[start.sequence], len(starts) - 1


@settings(deadline=None, max_examples=60)
@given(moves, st.integers(1, 3), st.sampled_from(SHARES))
def test_a_job_starts_within_as_many_starts_as_its_share_allows(game, count, share):
    lines = ListLines()
    workers = [Fetch(QueueSettings(Weighted(share)), lines=lines) for _ in range(count)]
    for waiter, before in play(workers, lines, game):
        part = share if waiter.kind == "retry" else 1 - share
        limit = ceil(round((waiter.ahead + count) / part, 9))
        assert before - waiter.starts < limit + LARGEST_CLAIM - 1


@settings(deadline=None, max_examples=60)
@given(moves, st.integers(1, 3))
def test_under_retry_first_a_retry_waits_for_retries_alone(game, count):
    lines = ListLines()
    workers = [Fetch(QueueSettings(RetryFirst()), lines=lines) for _ in range(count)]
    for waiter, before in play(workers, lines, game):
        if waiter.kind == "retry":
            assert before - waiter.starts <= waiter.ahead
