"""Work that no live worker may take, and the command that starts one which may."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mulligan.core.alerts import alerts
from mulligan.core.counts import Counts
from mulligan.core.facts import Facts, Region
from mulligan.core.fairness import groups_of
from mulligan.core.fetch import Only
from mulligan.core.health import Breaker, Health
from mulligan.core.lane import Lane, Priority, away_from, pinned_to, towards
from mulligan.core.metrics import metrics
from mulligan.core.stats import LaneStats, Stats
from mulligan.core.unserved import Unserved, live_takers, may_take, unserved
from mulligan.core.worker import Worker, WorkerView

NOTHING = Stats(1000.0, [], {}, {}, {}, [])


def waiting(scope: str, ready: int = 1, priority: Priority = Priority.NORMAL) -> LaneStats:
    return LaneStats(Lane("mail", scope, priority), ready, 0, 990.0)


def worker(region: str = "US", queue: str = "mail", only: Only | None = None) -> Worker:
    return Worker("w", region, (queue,), only=only)


def found(*lanes: LaneStats, workers: tuple[Worker, ...] = (), facts: Facts | None = None):
    views = [WorkerView(each, 990.0, 900.0, live=True, running=0) for each in workers]
    return unserved(replace(NOTHING, lanes=list(lanes), workers=views), facts or Facts())


def left(region: str, jobs: int, *, retries: bool = False) -> Unserved:
    return Unserved("mail", region, retries, jobs)


def test_fresh_work_of_a_region_needs_a_worker_there():
    assert found(waiting("EU", 2), workers=(worker("US"),)) == [left("EU", 2)]
    assert found(waiting("EU", 2), workers=(worker("US"), worker("EU"))) == []


def test_work_for_any_region_needs_a_worker_of_its_queue_anywhere():
    assert found(waiting("*"), workers=(worker(queue="other"),)) == [left("*", 1)]
    assert found(waiting("*"), workers=(worker("ASIA"),)) == []


def test_a_dead_worker_serves_nothing():
    view = WorkerView(worker("EU"), 100.0, 90.0, live=False, running=0)
    assert unserved(replace(NOTHING, lanes=[waiting("EU")], workers=[view]), Facts())


def test_a_worker_of_one_kind_leaves_the_other():
    lanes = waiting("*", 1, Priority.RETRY), waiting("*", 3)
    assert found(*lanes, workers=(worker(only="fresh"),)) == [left("*", 1, retries=True)]
    assert found(*lanes, workers=(worker(only="retries"),)) == [left("*", 3)]


def test_what_is_not_due_or_paused_is_not_told():
    assert found(waiting("EU", 0)) == []
    assert found(waiting("EU"), facts=Facts(paused=frozenset({"mail"}))) == []


def test_the_fresh_work_of_a_region_whose_breaker_is_open_is_served_by_the_healthy():
    serves = frozenset({"mail"})
    regions = (Region("EU"), Region("US", serves))
    facts = Facts(regions=regions, health={("mail", "EU"): Health(breaker=Breaker(open=True))})
    assert found(waiting("EU"), workers=(worker("US"),), facts=facts) == []


def test_urgent_and_normal_jobs_of_a_place_are_told_together():
    lanes = waiting("EU", 2), waiting("EU", 1, Priority.URGENT)
    assert found(*lanes) == [left("EU", 3)]


REGIONS = ("ASIA", "EU", "US")
OWN = (*REGIONS, *map(pinned_to, REGIONS))
SCOPES = ("*", *OWN, *map(away_from, (*REGIONS, "MARS")), *map(towards, (*REGIONS, "MARS")))
LANES = [Lane("mail", scope, priority) for scope in SCOPES for priority in Priority]
places = st.sets(st.sampled_from(REGIONS))
kinds = st.tuples(st.sampled_from(REGIONS), st.sampled_from([None, "retries", "fresh"]))


@given(known=places, serving=places, down=places, workers=st.lists(kinds, max_size=4))
def test_a_worker_may_take_from_the_lanes_that_its_plans_name_and_as_soon(
    known, serving, down, workers
):
    facts = Facts(
        regions=tuple(
            Region(name, frozenset({"mail"} if name in serving else ())) for name in sorted(known)
        ),
        health={("mail", name): Health(breaker=Breaker(open=True)) for name in down},
    )
    planned: dict[Lane, float] = {}
    for region, only in workers:
        for group in groups_of("mail", region, facts.queue("mail"), facts, only):
            for source in (source for tier in group.tiers for source in tier):
                known_wait = planned.get(source.lane, source.waited)
                planned[source.lane] = min(known_wait, source.waited)
    all_ = [worker(region, only=only) for region, only in workers]
    takers = live_takers(["mail"], all_, facts)["mail"]
    found = {lane: first[0] for lane in LANES if (first := takers.first(lane)) is not None}
    assert found == planned
    assert {lane for lane in LANES if any(may_take(each, lane, facts) for each in all_)} == set(
        planned
    )


def test_it_is_an_alert_that_names_the_command():
    stats = replace(NOTHING, lanes=[waiting("EU", 2), waiting("*", 1, Priority.RETRY)])
    assert alerts(stats, Facts(), "myapp:app") == [
        (
            "1 retry of queue mail for any region waits, and no live worker may take it;"
            " start one with: mulligan worker myapp:app --queue mail"
        ),
        (
            "2 jobs of queue mail for region EU wait, and no live worker may take them;"
            " start one with: mulligan worker myapp:app --region EU --queue mail"
        ),
    ]


def test_it_is_a_metric_by_queue_and_region():
    lanes = [waiting("EU", 2), waiting("EU", 3, Priority.RETRY), waiting("*", 1)]
    stats = replace(NOTHING, lanes=lanes)
    [metric] = [m for m in metrics(stats, Counts({}, {}), Facts()) if "unserved" in m.name]
    assert [(sample.labels, sample.value) for sample in metric.samples] == [
        ({"queue": "mail", "region": "*"}, 1),
        ({"queue": "mail", "region": "EU"}, 5),
    ]
