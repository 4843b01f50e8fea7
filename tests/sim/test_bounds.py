"""The bounds of docs/fairness.md hold in whole simulations over random work."""

from collections.abc import Sequence
from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mulligan.core.backoff import Exponential
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import Balanced, Capped, Fifo, RetryFirst, Separate, Weighted
from mulligan.core.retry import Retry
from mulligan.sim import Run, Scenario, simulate
from mulligan.sim.record import Attempt
from mulligan.sim.scenario import Duration, Jobs, Region

few = settings(deadline=None, max_examples=25)
quarters = st.integers(0, 40).map(lambda n: n / 4)
retry = Retry(3, Exponential(1, 2, 60, "none"))


one = st.just(1)


@st.composite
def scenarios(draw: st.DrawFn, workers: st.SearchStrategy[int] = one) -> Scenario:
    """One region, and jobs that fail up to three times."""
    entries = draw(
        st.lists(st.tuples(quarters, st.sampled_from([0.25, 0.5, 1, 2]), st.integers(0, 3)),
                 min_size=1, max_size=40)
    )  # fmt: skip
    jobs = tuple(
        Jobs(f"j{n}", "US", at, Duration(mean=duration), retry, fail=frozenset(range(1, fails + 1)))
        for n, (at, duration, fails) in enumerate(entries)
    )
    return Scenario("random", (Region("US", draw(workers)),), jobs)


def under(scenario: Scenario, policy) -> Run:
    run = simulate(replace(scenario, queue=QueueSettings(policy)))
    assert run.log.done == run.jobs
    return run


def longest_wait(attempts: Sequence[Attempt], *, retries: bool) -> int:
    """The most starts of the other kind behind which one of this kind stood, first and due."""
    worst = behind = 0
    line = sorted((a for a in attempts if a.is_retry == retries), key=lambda a: (a.due, a.sequence))
    for before, attempt in zip([None, *line], line, strict=False):
        since = attempts.index(before) if before else 0
        between = attempts[since : attempts.index(attempt)]
        behind = sum(a.is_retry != retries and a.started >= attempt.due for a in between)
        worst = max(worst, behind)
    return worst


@few
@given(scenarios(), st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.8]))
def test_weighted_keeps_its_bounds(scenario, share):
    attempts = under(scenario, Weighted(share)).log.attempts
    assert longest_wait(attempts, retries=True) <= ceil(round(1 / share, 9)) - 1
    assert longest_wait(attempts, retries=False) <= ceil(round(1 / (1 - share), 9)) - 1


@few
@given(scenarios(st.integers(1, 3)))
def test_balanced_keeps_its_bounds_once_for_each_worker(scenario):
    attempts = under(scenario, Balanced()).log.attempts
    workers = scenario.regions[0].workers
    assert longest_wait(attempts, retries=True) <= workers
    assert longest_wait(attempts, retries=False) <= workers


@few
@given(scenarios(st.integers(1, 3)))
def test_under_retry_first_a_due_retry_waits_behind_no_fresh_start(scenario):
    assert longest_wait(under(scenario, RetryFirst()).log.attempts, retries=True) == 0


@few
@given(scenarios(st.integers(1, 4)), st.integers(1, 3))
def test_under_a_cap_never_more_retries_run(scenario, cap):
    attempts = under(scenario, Capped(cap)).log.attempts
    retries = [a for a in attempts if a.is_retry]
    for each in retries:
        assert sum(a.started <= each.started < a.ended for a in retries) <= cap


@few
@given(scenarios(st.integers(2, 4)))
def test_under_separate_each_worker_serves_its_own_kind_alone(scenario):
    attempts = under(scenario, Separate()).log.attempts
    kinds = {(a.worker, a.is_retry) for a in attempts}
    assert len(kinds) == len({worker for worker, _ in kinds})


@few
@given(scenarios(st.integers(1, 3)))
def test_under_fifo_everything_starts_in_the_order_in_which_it_fell_due(scenario):
    places = [(a.due, a.sequence) for a in under(scenario, Fifo()).log.attempts]
    assert places == sorted(places)
