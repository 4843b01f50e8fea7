import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mulligan.core.lane import Lane
from mulligan.core.plan import Cap, ClaimPlan, Group, Limit, Rate, Source, Take, walk
from tests.core.lines import ListLines, Start

ONE, TWO, THREE = (Lane("q", scope, 0) for scope in ("one", "two", "three"))


@pytest.fixture
def lines() -> ListLines:
    lines = ListLines()
    lines.now = 100.0
    return lines


def group(*tiers: tuple[Source, ...]) -> Group:
    return Group("q", "fresh", tiers)


def plan(demand: int, *groups: Group, steps: tuple[Take, ...] | None = None) -> ClaimPlan:
    every = tuple(Take(index, demand) for index in range(len(groups)))
    return ClaimPlan(demand, groups, every if steps is None else steps)


def order(taken: list[Start]) -> list[int]:
    return [start.sequence for start in taken]


def test_an_empty_plan_takes_nothing_and_never_will(lines):
    walked = walk(plan(5), lines, lines.now)
    assert (walked.taken, walked.left, walked.again_in) == ([], (), None)


def test_a_worker_that_waits_is_woken_for_each_source_of_its_plan_once():
    first, second = Source(ONE, 0.0, ()), Source(TWO, 0.0, ())
    assert plan(5, group((first, second)), group((first,))).reach == {first, second}


def test_the_sources_of_a_tier_are_merged_by_due_then_sequence(lines):
    late = lines.put(ONE, due=30)
    early = lines.put(TWO, due=10)
    tied_first = lines.put(TWO, due=20)
    tied_second = lines.put(ONE, due=20)
    walked = walk(plan(4, group((Source(ONE), Source(TWO)))), lines, lines.now)
    assert order(walked.taken) == [early, tied_first, tied_second, late]


def test_a_tier_is_emptied_before_the_next_is_looked_at(lines):
    older = lines.put(TWO, due=1)
    first = lines.put(ONE, due=50)
    second = lines.put(ONE, due=60)
    walked = walk(plan(3, group((Source(ONE),), (Source(TWO),))), lines, lines.now)
    assert order(walked.taken) == [first, second, older]


def test_steps_are_walked_in_order_each_up_to_its_limit(lines):
    ones = [lines.put(ONE) for _ in range(3)]
    twos = [lines.put(TWO) for _ in range(3)]
    steps = (Take(1, 1), Take(0, 3), Take(1, 9))
    walked = walk(plan(5, group((Source(ONE),)), group((Source(TWO),)), steps=steps), lines, 100)
    assert order(walked.taken) == [twos[0], ones[0], ones[1], twos[1], twos[2]]
    assert walked.left == (True, False)
    assert walked.again_in is None


def test_a_claim_never_takes_more_than_its_demand(lines):
    for _ in range(5):
        lines.put(ONE)
    walked = walk(plan(2, group((Source(ONE),)), steps=(Take(0, 9),)), lines, lines.now)
    assert len(walked.taken) == 2
    assert walked.left == (True,)


def test_a_step_spends_one_limit_over_all_its_tiers(lines):
    for lane in (ONE, ONE, TWO, TWO):
        lines.put(lane)
    tiers = group((Source(ONE),), (Source(TWO),))
    walked = walk(plan(9, tiers, steps=(Take(0, 3),)), lines, lines.now)
    assert [start.lane for start in walked.taken] == [ONE, ONE, TWO]


def test_a_job_does_not_start_before_its_time(lines):
    lines.put(ONE, due=100.5)
    walked = walk(plan(1, group((Source(ONE),))), lines, lines.now)
    assert (walked.taken, walked.left, walked.again_in) == ([], (False,), 0.5)


def test_a_job_starts_at_its_time(lines):
    sequence = lines.put(ONE, due=100)
    assert order(walk(plan(1, group((Source(ONE),))), lines, 100).taken) == [sequence]


def test_a_source_yields_only_jobs_that_have_been_due_long_enough(lines):
    lines.put(ONE, due=99)
    patient = group((Source(ONE, waited=2),))
    walked = walk(plan(1, patient), lines, 100)
    assert (walked.taken, walked.left, walked.again_in) == ([], (False,), 1)
    assert len(walk(plan(1, patient), lines, 101).taken) == 1


def test_a_job_that_must_still_wait_does_not_hold_up_its_tier(lines):
    lines.put(ONE, due=99)
    second = lines.put(TWO, due=99.5)
    walked = walk(plan(2, group((Source(ONE, waited=2), Source(TWO)))), lines, 100)
    assert order(walked.taken) == [second]
    assert walked.again_in == 1


@given(st.integers(0, 10**9), st.integers(0, 10**9))
@example(1_100_000, 2_200_000)
def test_waiting_for_what_a_claim_said_is_enough(due, waited):
    """Stores keep time in microseconds: at due + waited, so rounded, the job may start."""
    lines = ListLines()
    lines.put(ONE, due=due / 1e6)
    patient = plan(1, group((Source(ONE, waited=waited / 1e6),)))
    pause = walk(patient, lines, 0.0).again_in
    if pause is not None:
        assert walk(patient, lines, round(pause, 6)).taken


RUNNING = Cap("cap:q", 2)
RATE = Rate("budget:q", 2, 60.0)


@pytest.mark.parametrize(
    ("limit", "again_in"), [(RUNNING, None), (RATE, 60.0)], ids=["running", "rate"]
)
def test_a_gate_lets_through_as_many_as_it_has_room_for(lines, limit: Limit, again_in):
    for _ in range(3):
        lines.put(ONE)
    walked = walk(plan(3, group((Source(ONE, 0.0, (limit,)),))), lines, lines.now)
    assert len(walked.taken) == 2
    assert walked.left == (False,)
    assert walked.again_in == again_in


def test_a_closed_gate_holds_back_its_own_source_alone(lines):
    lines.permits["cap:q"] = 2
    lines.put(ONE, due=1)
    free = lines.put(TWO, due=2)
    sources = (Source(ONE, 0.0, (RUNNING,)), Source(TWO))
    walked = walk(plan(2, group(sources)), lines, lines.now)
    assert order(walked.taken) == [free]


def test_every_gate_of_a_source_must_be_open(lines):
    lines.put(ONE)
    lines.permits["cap:q"] = 2
    both = plan(1, group((Source(ONE, 0.0, (RATE, RUNNING)),)))
    assert walk(both, lines, lines.now).taken == []
    lines.permits["cap:q"] = 1
    assert len(walk(both, lines, lines.now).taken) == 1
    assert lines.permits["cap:q"] == 2
    assert list(lines.starts["budget:q"]) == [100]


def test_a_rate_opens_again_when_its_first_start_is_old_enough(lines):
    for _ in range(3):
        lines.put(ONE)
    limited = plan(1, group((Source(ONE, 0.0, (RATE,)),)))
    for now in (100, 110):
        lines.now = now
        assert walk(limited, lines, now).again_in is None
    lines.now = 120
    assert walk(limited, lines, 120).again_in == 40
    lines.now = 160
    assert len(walk(limited, lines, 160).taken) == 1


def test_a_gate_that_only_counts_is_never_closed(lines):
    for _ in range(3):
        lines.put(ONE)
    counter = Rate("fresh:q", None, 60.0)
    walked = walk(plan(3, group((Source(ONE, 0.0, (counter,)),))), lines, lines.now)
    assert len(walked.taken) == 3
    assert len(lines.starts["fresh:q"]) == 3


def test_a_job_that_waits_for_both_its_time_and_a_gate_waits_for_the_later(lines):
    lines.starts["budget:q"].extend((50.0, 50.0))
    lines.put(ONE, due=105)
    limited = group((Source(ONE, 0.0, (RATE,)),))
    assert walk(plan(1, limited), lines, 100).again_in == 10
    assert walk(plan(1, group((Source(ONE, 20.0, (RATE,)),))), lines, 100).again_in == 25


def test_the_first_source_to_yield_says_when_to_look_again(lines):
    lines.put(ONE, due=130)
    lines.put(TWO, due=107)
    lines.permits["cap:q"] = 2
    lines.put(THREE, due=101)
    groups = (group((Source(ONE),)), group((Source(TWO),), (Source(THREE, 0.0, (RUNNING,)),)))
    assert walk(plan(1, *groups), lines, 100).again_in == 7


def test_a_job_that_had_to_be_set_aside_takes_no_slot(lines):
    held = lines.put(ONE)
    free = lines.put(ONE)
    lines.saturated.add(held)
    walked = walk(plan(1, group((Source(ONE),))), lines, lines.now)
    assert order(walked.taken) == [free]
    assert lines.aside == [held]
    assert walked.again_in is None


def test_a_lane_of_jobs_to_set_aside_is_left_empty(lines):
    lines.saturated.update(lines.put(ONE) for _ in range(3))
    walked = walk(plan(1, group((Source(ONE),))), lines, lines.now)
    assert (walked.taken, walked.left, walked.again_in) == ([], (False,), None)


def test_what_the_steps_do_not_reach_is_due_at_once(lines):
    lines.put(ONE)
    walked = walk(plan(1, group((Source(ONE),)), steps=()), lines, lines.now)
    assert (walked.taken, walked.left, walked.again_in) == ([], (True,), 0.0)


def test_a_plan_knows_its_lanes():
    sources = (Source(ONE), Source(TWO))
    assert plan(1, group(sources), group((Source(THREE),))).lanes == (ONE, TWO, THREE)
