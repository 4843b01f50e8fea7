"""What an open breaker means for the plans of its own region and of the healthy ones."""

import pytest
from msgspec.structs import replace

from mulligan.core.explain import Surroundings, explain
from mulligan.core.facts import Facts, QueueSettings, Region
from mulligan.core.fairness import Carry, plan_claim
from mulligan.core.health import Breaker, Health
from mulligan.core.lane import Lane, Priority
from mulligan.core.plan import (
    Cap,
    ClaimPlan,
    Group,
    Rate,
    Source,
    group_waits,
    next_yield,
    walk,
)
from tests.core.jobs import WAITING
from tests.core.lines import ListLines

SERVED = frozenset({"q"})
REGIONS = (Region("ASIA", SERVED), Region("EU", SERVED), Region("US", SERVED))
OPEN = Health(0, 20, Breaker(open=True, since=1.0))
PROBE = Cap("probe:q:US", 1)
PACE = Rate("pace:q:US", 1, 1.0)


def facts(*tripped: str, regions: tuple[Region, ...] = REGIONS, grace: float = 2.0) -> Facts:
    health = {("q", region): OPEN for region in tripped}
    return Facts(1, {"q": QueueSettings(grace=grace)}, regions, health=health)


def planned(region: str, known: Facts, demand: int = 10, only=None) -> ClaimPlan:
    return plan_claim(demand, region, [("q", Carry())], known, only)


def scopes(group: Group) -> list[list[tuple[str, int, float]]]:
    return [[(s.lane.scope, s.lane.priority, s.waited) for s in tier] for tier in group.tiers]


def test_every_source_of_an_open_region_has_the_probe_gate():
    plan = planned("US", facts("US"))
    assert {source.limits for source in plan.sources} == {(PROBE, PACE)}


def test_probes_that_fail_are_further_apart():
    slow = Health(breaker=Breaker(open=True, since=1.0, probes=-4))
    known = replace(facts(), health={("q", "US"): slow})
    assert {limit for s in planned("US", known).sources for limit in s.limits} == {
        PROBE,
        Rate("pace:q:US", 1, 8.0),
    }


def test_an_open_region_sees_no_global_retry_and_may_probe_with_one_that_is_pinned_to_it():
    urgent, retry, _ = planned("US", facts("US")).groups
    assert scopes(retry) == [[], [("US", Priority.RETRY, 0.0), ("=US", Priority.RETRY, 0.0)]]
    assert scopes(urgent) == [
        [
            ("*", Priority.URGENT, 0.0),
            ("US", Priority.URGENT, 0.0),
            ("=US", Priority.URGENT, 0.0),
            ("US", Priority.URGENT_RETRY, 0.0),
            ("=US", Priority.URGENT_RETRY, 0.0),
        ],
    ]


def test_a_region_that_rests_waits_for_nothing_of_the_queue():
    known = facts("US")
    queues = [("q", Carry()), ("other", Carry())]
    plan = plan_claim(3, "US", queues, known, resting={"q"})
    assert {lane.queue for lane in plan.lanes} == {"other"}
    assert [group.queue for group in plan.groups] == ["q"] * 3 + ["other"] * 3


def test_facts_say_when_the_next_probe_is_and_take_in_what_a_worker_knows():
    assert facts("US").next_probe_at("q", "US") == 2.0
    assert facts("US", "EU", "ASIA").next_probe_at("q", "US") is None
    assert facts().next_probe_at("q", "US") is None
    known = facts("US").with_breaker("q", "US", replace(OPEN.breaker, probes=-1, probed_at=5.0))
    assert known.next_probe_at("q", "US") == 6.0
    assert known.health_of("q", "US").failed == 20
    opened = facts().with_breaker("q", "EU", OPEN.breaker)
    assert opened.health_of("q", "EU") == Health(breaker=OPEN.breaker)
    assert opened.breakers == {("q", "EU"): OPEN.breaker}


def test_an_open_region_serves_its_own_lanes_and_nobody_else_s():
    urgent, _, fresh = planned("US", facts("US", "EU")).groups
    assert scopes(fresh) == [[("*", 0, 0), ("US", 0, 0), ("=US", 0, 0)]]
    assert {scope for tier in scopes(urgent) for scope, priority, _ in tier if priority == 2} == {
        "*",
        "US",
        "=US",
    }


def test_healthy_regions_look_at_its_fresh_and_urgent_lanes_last():
    urgent, retry, fresh = planned("EU", facts("US")).groups
    # those that are pinned to it are not among them
    assert scopes(fresh) == [[("*", 0, 0), ("EU", 0, 0), ("=EU", 0, 0)], [("US", 0, 2.0)]]
    assert scopes(urgent)[1] == [("US", Priority.URGENT, 2.0)]
    assert all(source.yields for source in (*urgent.tiers[1], *fresh.tiers[1]))
    assert len(retry.tiers) == 2
    assert all(source.limits == () for source in (*urgent.tiers[1], *fresh.tiers[1]))


def test_of_several_open_regions_the_lanes_are_merged():
    fresh = planned("EU", facts("US", "ASIA")).groups[2]
    assert scopes(fresh)[1] == [("ASIA", 0, 2.0), ("US", 0, 2.0)]


def test_a_worker_for_retries_alone_takes_no_fresh_work_of_an_open_region():
    plan = planned("EU", facts("US"), only="retries")
    assert not any(lane.scope == "US" for lane in plan.lanes)


def test_where_every_serving_region_is_open_all_serve_as_usual():
    usual = planned("US", facts())
    assert planned("US", facts("US", "EU", "ASIA")) == usual
    alone = (Region("EU"), Region("US", SERVED))
    assert planned("US", facts("US", regions=alone)) == planned("US", facts(regions=alone))


def test_a_queue_s_breaker_says_nothing_about_other_queues():
    known = facts("US")
    assert not known.is_open("other", "US")
    assert known.healthy("q") == ["ASIA", "EU"]


def test_an_open_region_takes_one_job_at_a_time():
    lines = ListLines()
    for _ in range(3):
        lines.put(Lane("q", "US", Priority.NORMAL))
    plan = planned("US", facts("US"))
    assert len(walk(plan, lines, lines.now).taken) == 1
    second = walk(plan, lines, lines.now)
    assert (second.taken, second.again_in) == ([], None)
    lines.permits.clear()
    assert walk(plan, lines, lines.now).again_in == 1.0
    lines.now += 1.0
    assert len(walk(plan, lines, lines.now).taken) == 1


def test_a_healthy_region_takes_its_own_work_first_and_then_that_of_the_open_one():
    lines = ListLines()
    ailing, own = Lane("q", "US", Priority.NORMAL), Lane("q", "EU", Priority.NORMAL)
    lines.put(ailing)
    lines.put(own)
    taken = walk(planned("EU", facts("US")), lines, lines.now).taken
    assert [start.lane for start in taken] == [own, ailing]


@pytest.mark.parametrize(("region", "expected"), [("EU", 1), ("ASIA", 1), ("US", 0)])
def test_a_global_retry_is_left_to_the_healthy_however_long_it_has_been_due(region, expected):
    lines = ListLines()
    lines.put(Lane("q", "*", Priority.RETRY))
    plan = planned(region, facts("US"))
    lines.now += 1000.0
    assert len(walk(plan, lines, lines.now).taken) == expected


def test_what_is_meant_for_another_region_yields_only_while_that_one_sleeps():
    lines = ListLines()
    meant = Lane("q", "*+ASIA", Priority.RETRY)
    lines.put(meant)
    plan = planned("EU", facts())
    lines.awaited.add(meant)
    assert walk(plan, lines, lines.now).again_in == 2.0
    lines.awaited.clear()
    assert [start.lane for start in walk(plan, lines, lines.now).taken] == [meant]


def test_explain_says_that_the_breaker_is_open():
    job = replace(WAITING, queue="q")
    known = facts().with_breaker("q", "US", Breaker(open=True, probes=-4, probed_at=996.0))
    around = Surroundings(now=1000.0, ahead=3, facts=known, live_workers=1)
    assert explain(job, around) == (
        "Due since 10 s: 3 ahead of it in lane fresh, in region US; the breaker of region US is"
        " open: it tries one job at a time, the next in 4.0 s; healthy regions take the others."
    )
    pinned = replace(job, lane_priority=Priority.RETRY, retry_count=1)
    for now, when in ((1003.5, "the next in 0.5 s"), (1004.0, "the next is due")):
        assert explain(pinned, replace(around, now=now)).endswith(
            f"the breaker of region US is open: it tries one job at a time, {when}."
        )
    assert explain(replace(job, scope="=US"), around) == (
        "Due since 10 s: 3 ahead of it in lane fresh, in region US and never elsewhere: it is"
        " pinned; the breaker of region US is open: it tries one job at a time, the next in 4.0 s;"
        " it is pinned, so no other region takes it."
    )
    elsewhere = replace(job, scope="*", lane_priority=Priority.RETRY, retry_count=1)
    assert "breaker" not in explain(elsewhere, around)


def test_a_plan_whose_probe_runs_yields_nothing_by_itself():
    lines = ListLines()
    plan = planned("US", facts("US"))
    assert next_yield(plan, lines, lines.now) is None
    lines.put(Lane("q", "US", Priority.NORMAL), due=3.0)
    assert next_yield(plan, lines, lines.now) == 3.0
    fresh = plan.groups[2]
    assert not group_waits(fresh, lines, lines.now)
    assert group_waits(fresh, lines, 3.0)
    lines.permits[PROBE.key] = 1
    assert next_yield(plan, lines, lines.now) is None
    assert not group_waits(fresh, lines, 3.0)


def test_a_plan_knows_the_source_of_each_lane_and_all_limit_keys():
    plan = planned("US", facts("US"))
    lane = Lane("q", "US", Priority.NORMAL)
    assert plan.by_lane[lane] == Source(lane, 0.0, (PROBE, PACE))
    assert plan.limit_keys == {"probe:q:US", "pace:q:US"}


def test_an_open_region_whose_workers_have_all_died_is_not_left_with_its_jobs():
    facts = Facts(
        regions=(Region("EU", frozenset({"default"})), Region("US")),
        health={("default", "US"): Health(breaker=Breaker(open=True))},
    )
    assert facts.ailing("default") == ("US",)
    lanes = plan_claim(1, "EU", [("default", Carry())], facts).lanes
    assert Lane("default", "US", Priority.NORMAL) in lanes
