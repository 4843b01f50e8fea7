"""The bounds of docs/concepts/fairness.md hold in whole simulations over random work."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import ceil

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import Balanced, Capped, Fifo, RetryFirst, Separate, Weighted
from mulligan.core.retry import Exponential, Retry
from mulligan.sim import Run, Scenario, simulate
from mulligan.sim.attempts import Attempt
from mulligan.sim.scenario import Duration, Jobs, Region, Stream

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


shares = st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.8])


@few
@given(scenarios(st.integers(1, 3)), shares)
def test_weighted_keeps_its_bounds_once_for_each_worker(scenario, share):
    attempts = list(under(scenario, Weighted(share)).log.attempts)
    workers = scenario.regions[0].workers
    assert longest_wait(attempts, retries=True) <= workers * (ceil(round(1 / share, 9)) - 1)
    assert longest_wait(attempts, retries=False) <= workers * (ceil(round(1 / (1 - share), 9)) - 1)


@few
@given(scenarios(st.integers(1, 3)))
def test_balanced_keeps_its_bounds_once_for_each_worker(scenario):
    attempts = list(under(scenario, Balanced()).log.attempts)
    workers = scenario.regions[0].workers
    assert longest_wait(attempts, retries=True) <= workers
    assert longest_wait(attempts, retries=False) <= workers


@few
@given(scenarios(st.integers(1, 3)), shares)
def test_weighted_starts_each_job_within_its_number_of_starts(scenario, share):
    attempts = list(under(scenario, Weighted(share)).log.attempts)
    workers = scenario.regions[0].workers
    for attempt, ahead, before in whole_waits(attempts):
        part = share if attempt.is_retry else 1 - share
        assert before < ceil(round((ahead + workers) / part, 9))


def whole_waits(attempts: Sequence[Attempt]) -> Iterator[tuple[Attempt, int, int]]:
    """Each attempt, how many of its kind stood before it when it fell due, and all starts since."""
    for place, attempt in enumerate(attempts):
        since = [a for a in attempts[:place] if a.started >= attempt.due]
        ahead = sum(
            a.is_retry == attempt.is_retry and (a.due, a.sequence) < (attempt.due, attempt.sequence)
            for a in since
        )
        yield attempt, ahead, len(since)


@st.composite
def outages(draw: st.DrawFn) -> Scenario:
    """Three busy regions, of which the first is out of order long enough to be found out."""
    stream = Stream("s", "US", 2.0, 0, 60, Duration("exponential", mean=0.9), retry)
    return Scenario(
        "outage",
        (Region("US", 2, outage=((10, 45),)), Region("EU", 2), Region("ASIA", 1)),
        streams=(
            stream,
            replace(stream, id="eu", region="EU", fail_first=0.3),
            replace(stream, id="asia", region="ASIA", rate=0.8),
        ),
        seed=draw(st.integers(0, 10**6)),
    )


@settings(deadline=None, max_examples=10)
@given(outages(), st.sampled_from([0.2, 0.5]), st.sampled_from([0.0, 2.0]))
def test_regions_add_no_more_than_the_grace_and_an_open_one_only_probes(scenario, share, grace):
    run = simulate(replace(scenario, queue=QueueSettings(Weighted(share), grace=grace)))
    # What fails in the EU of its own may now and then be enough to open its breaker too.
    assume({switch.region for switch in run.log.switches} == {"US"})
    [opened, closed] = [switch.at for switch in run.log.switches]
    attempts = list(run.log.attempts)
    probes = [a for a in attempts if a.region == "US" and opened <= a.started < closed]
    assert all(a.ended <= b.started for a, b in pairwise(probes))
    bound = ceil(round(1 / share, 9)) - 1
    for passed_by in first_in_line(attempts, grace):
        fresh = Counter(a.worker for a in passed_by if not a.is_retry and a not in probes)
        assert all(count <= bound for count in fresh.values())


def first_in_line(attempts: Sequence[Attempt], grace: float) -> Iterator[list[Attempt]]:
    """For each retry the attempts that started while it was first and free for every region."""
    places = {attempt: place for place, attempt in enumerate(attempts)}
    line = sorted((a for a in attempts if a.is_retry), key=lambda a: (a.due, a.sequence))
    latest = 0
    for attempt in line:
        while_first = attempts[latest : places[attempt]]
        yield [a for a in while_first if a.started >= attempt.due + grace]
        latest = max(latest, places[attempt])


@few
@given(scenarios(st.integers(1, 3)))
def test_under_retry_first_a_due_retry_waits_behind_no_fresh_start(scenario):
    assert longest_wait(list(under(scenario, RetryFirst()).log.attempts), retries=True) == 0


@few
@given(scenarios(st.integers(1, 4)), st.integers(1, 3))
def test_under_a_cap_never_more_retries_run(scenario, cap):
    attempts = list(under(scenario, Capped(cap)).log.attempts)
    retries = [a for a in attempts if a.is_retry]
    for each in retries:
        assert sum(a.started <= each.started < a.ended for a in retries) <= cap


@few
@given(scenarios(st.integers(2, 4)))
def test_under_separate_each_worker_serves_its_own_kind_alone(scenario):
    attempts = list(under(scenario, Separate()).log.attempts)
    kinds = {(a.worker, a.is_retry) for a in attempts}
    assert len(kinds) == len({worker for worker, _ in kinds})


@few
@given(scenarios(st.integers(1, 3)))
def test_under_fifo_everything_starts_in_the_order_in_which_it_fell_due(scenario):
    places = [(a.due, a.sequence) for a in under(scenario, Fifo()).log.attempts]
    assert places == sorted(places)
