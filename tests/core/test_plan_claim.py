"""The lanes that a worker looks at, in which order, through which limits."""

import pytest

from mulligan.core.budget import Budget
from mulligan.core.facts import Facts, QueueSettings, Region
from mulligan.core.fairness import (
    KINDS,
    Bound,
    Carry,
    ClaimCounts,
    global_scopes,
    plan_claim,
    steps_of,
)
from mulligan.core.fetch import Capped, RetryFirst, Weighted
from mulligan.core.lane import ANYWHERE, Lane, Priority, away_from, towards
from mulligan.core.plan import Cap, ClaimPlan, Group, Rate, Source, yielding
from tests.core.lines import Fetch

SERVED = frozenset({"default"})

REGIONS = (Region("EU", SERVED), Region("US"))


def planned(settings: QueueSettings | None = None, demand: int = 1, only=None) -> ClaimPlan:
    facts = Facts(3, {"q": settings or QueueSettings()}, REGIONS)
    return plan_claim(demand, "US", [("q", Carry())], facts, only)


def scopes(group: Group) -> list[list[tuple[str, int, float]]]:
    return [[(s.lane.scope, s.lane.priority, s.waited) for s in tier] for tier in group.tiers]


def limits(plan: ClaimPlan) -> dict[Priority, set[object]]:
    found: dict[Priority, set[object]] = {}
    for source in (s for group in plan.groups for tier in group.tiers for s in tier):
        found.setdefault(Priority(source.lane.priority), set()).add(source.limits)
    return found


def test_a_plan_names_its_demand_and_the_facts_that_it_was_made_from():
    plan = planned(demand=5)
    assert (plan.demand, plan.epoch) == (5, 3)
    assert [(group.queue, group.kind) for group in plan.groups] == [("q", kind) for kind in KINDS]


def test_a_queue_alone_is_served_by_its_own_steps_and_no_others():
    assert planned(demand=5).steps == tuple(steps_of(5, 0, Carry(), QueueSettings()))


def test_only_what_is_meant_for_another_region_yields_to_those_who_sleep():
    retries = planned().groups[1].tiers[0]
    assert [source.lane.scope for source in retries if source.yields] == ["*+EU"]


def test_fresh_work_for_anyone_and_that_of_the_region_are_merged():
    fresh = planned().groups[2]
    assert scopes(fresh) == [[("*", 0, 0), ("US", 0, 0), ("=US", 0, 0)]]


def test_global_retries_are_merged_and_go_before_those_of_the_region():
    retry = planned().groups[1]
    assert scopes(retry) == [
        [("*", 1, 0), ("*-EU", 1, 0), ("*+EU", 1, 2), ("*-US", 1, 2), ("*+US", 1, 0)],
        [("US", 1, 0), ("=US", 1, 0)],
    ]


def test_the_grace_is_that_of_the_queue():
    retry = planned(QueueSettings(grace=7)).groups[1]
    assert {s.waited for s in retry.tiers[0]} == {0, 7}
    without = planned(QueueSettings(grace=0)).groups[1]
    assert {s.waited for s in without.tiers[0]} == {0}


def test_urgent_jobs_and_their_retries_are_merged():
    urgent = planned().groups[0]
    assert scopes(urgent) == [
        [
            *[("*", 2, 0), ("US", 2, 0), ("=US", 2, 0)],
            *[("*", 3, 0), ("*-EU", 3, 0), ("*+EU", 3, 2), ("*-US", 3, 2), ("*+US", 3, 0)],
            *[("US", 3, 0), ("=US", 3, 0)],
        ],
    ]


def test_a_worker_that_serves_only_retries_looks_at_no_other_lane():
    plan = planned(only="retries")
    assert {lane.priority for lane in plan.lanes} == {Priority.RETRY, Priority.URGENT_RETRY}
    assert plan.groups[2].tiers == ()


def test_a_worker_that_serves_only_fresh_jobs_looks_at_no_retry_lane():
    plan = planned(only="fresh")
    assert {lane.priority for lane in plan.lanes} == {Priority.NORMAL, Priority.URGENT}
    assert plan.groups[1].tiers == ()


def test_without_a_cap_or_a_budget_there_is_no_gate():
    assert all(found == {()} for found in limits(planned()).values())


CAP = Cap("cap:q", 4)
BUDGET = Rate("budget:q", 100, 60.0)
RATIO = Rate("budget:q", 10, 60.0, 0.2, "fresh:q")
COUNTER = Rate("fresh:q", None, 60.0)


@pytest.mark.parametrize(
    ("settings", "for_retries", "for_fresh"),
    [
        (QueueSettings(Capped(4)), (CAP,), ()),
        (QueueSettings(RetryFirst(), Budget(100)), (BUDGET,), ()),
        (QueueSettings(Capped(4), Budget(100)), (CAP, BUDGET), ()),
        (QueueSettings(Weighted(), Budget(ratio=0.2)), (RATIO,), (COUNTER,)),
    ],
    ids=["cap", "budget", "both", "ratio"],
)
def test_every_retry_passes_the_gates_and_urgent_ones_too(settings, for_retries, for_fresh):
    assert limits(planned(settings)) == {
        Priority.NORMAL: {for_fresh},
        Priority.RETRY: {for_retries},
        Priority.URGENT: {for_fresh},
        Priority.URGENT_RETRY: {for_retries},
    }


def test_a_worker_without_a_free_slot_gets_nothing():
    fetch = Fetch(QueueSettings())
    fetch.add("fresh", 3)
    assert fetch.claim(0) == []


def test_a_tally_says_which_kinds_there_were():
    counts = ClaimCounts(urgent=0, retry=2, fresh=0, left=frozenset({"fresh"}))
    assert [counts.waited(kind) for kind in KINDS] == [False, True, True]


def test_a_source_has_no_gate_and_no_wait_unless_told():
    assert Source(Lane("q", "US", 0)) == Source(Lane("q", "US", 0), 0.0, ())


def test_a_worker_among_strangers_yields_where_it_did_not_wait():
    retry = yielding(planned().groups[1], 2.0)
    assert {source.waited for tier in retry.tiers for source in tier} == {2.0}
    held_back = [s.lane.scope for tier in retry.tiers for s in tier if not s.yields]
    assert held_back == ["*-US"]  # what its own region failed waits as before


def bounded(most: int, *queues: str) -> ClaimPlan:
    facts = Facts(3, {}, REGIONS)
    served = [(queue, Carry()) for queue in ("a", "b", "c")]
    return plan_claim(9, "US", served, facts, bound=Bound(frozenset(queues), most))


def test_bounded_queues_come_first_and_share_what_the_bound_allows():
    plan = bounded(3, "b", "c")
    of = [(plan.groups[step.group].queue, step.until) for step in plan.steps]
    untils = {queue: sorted({until for q, until in of if q == queue}) for queue in ("a", "b", "c")}
    assert untils == {"a": [9], "b": [2, 3], "c": [3]}
    assert [queue for queue, _ in of].index("a") > max(
        index for index, (queue, _) in enumerate(of) if queue != "a"
    )


def test_where_the_bound_allows_none_its_queues_rest():
    plan = bounded(0, "a")
    assert [bool(group.tiers) for group in plan.groups] == [False] * 3 + [True] * 6


def test_a_bound_is_no_more_than_the_demand():
    assert max(step.until for step in bounded(50, "a").steps) == 9


def test_only_a_retry_that_is_meant_for_another_region_yields_to_a_sleeper_there():
    assert global_scopes("EU", 2.0, ("EU", "US")) == [
        (ANYWHERE, 0.0, False),
        (away_from("EU"), 2.0, False),
        (towards("EU"), 0.0, False),
        (away_from("US"), 0.0, False),
        (towards("US"), 2.0, True),
    ]
