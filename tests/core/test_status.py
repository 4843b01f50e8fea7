from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from mulligan.core.facts import Facts, QueueSettings, Region
from mulligan.core.fetch import Only, Separate, Weighted
from mulligan.core.job import Job
from mulligan.core.lane import Lane, Priority
from mulligan.core.plan import ClaimPlan, Group, Source
from mulligan.core.stats import DelayedStats, LaneStats, Stats, due_lanes
from mulligan.core.status import region_status, status
from mulligan.core.worker import Worker, WorkerView
from tests.core.jobs import WAITING
from tests.core.refusal import refused

NOTHING = Stats(1000.0, [], {}, {}, {}, [])


def lane(scope: str, priority: Priority, ready: int, delayed: int = 0) -> LaneStats:
    return LaneStats(Lane("questions", scope, priority), ready, delayed, 0.0)


def running(name: str, region: str, runs_in: str, **changes: object) -> Job:
    job = replace(WAITING, id=name, region=region, status="processing", worker="w1")
    return replace(job, **{"worker_region": runs_in, "started_at": 500.0} | changes)


def serving(name: str, only: Only | None = None, *, live: bool = True) -> WorkerView:
    worker = Worker(name, "US", ("questions",), only=only)
    return WorkerView(worker, beat_at=990.0, joined_at=900.0, live=live, running=0)


def test_an_empty_store_has_an_empty_status():
    assert status(NOTHING, [], Facts()) == {
        "global_retry_queue_size": 0,
        "regions": {},
        "queues": {},
        "delayed": {},
        "workers": [],
        "warnings": [],
        "now": 1000.0,
    }


def busy() -> dict[str, Any]:
    """US and EU at work, as dashboards know it."""
    lanes = [
        lane("*", Priority.RETRY, 1),
        lane("*-US", Priority.RETRY, 1, delayed=5),
        lane("*+EU", Priority.URGENT_RETRY, 1),
        lane("US", Priority.NORMAL, 8),
        lane("US", Priority.URGENT, 2),
        lane("EU", Priority.NORMAL, 5),
        lane("ASIA", Priority.NORMAL, 0, delayed=3),
    ]
    jobs = [running("A-q1", "US", "EU", retry_count=1), running("A-q2", "US", "US")]
    stats = replace(NOTHING, lanes=lanes, running={("questions", "US"): 1, ("questions", "EU"): 1})
    return status(stats, jobs, Facts())


def test_regions_show_their_sizes_and_what_runs_in_them():
    whole = busy()
    assert whole["global_retry_queue_size"] == 3
    assert whole["regions"] == {
        "EU": {
            "queue_size": 5,
            "retry_queue_size": 0,
            "processing": True,
            "current_job": {"job_id": "A-q1", "retry_count": 1, "original_region": "US"},
        },
        "US": {
            "queue_size": 10,
            "retry_queue_size": 0,
            "processing": True,
            "current_job": {"job_id": "A-q2", "retry_count": 0},
        },
    }


def test_one_region_also_says_its_name_and_whether_it_runs_a_retry():
    whole = busy()
    assert region_status(whole, "EU") == {
        "region": "EU",
        "queue_size": 5,
        "retry_queue_size": 0,
        "processing": True,
        "current_job": {
            "job_id": "A-q1",
            "retry_count": 1,
            "original_region": "US",
            "is_retry": True,
        },
    }
    assert region_status(whole, "US")["current_job"]["is_retry"] is False
    assert "is_retry" not in whole["regions"]["US"]["current_job"]


def test_a_region_that_runs_nothing_has_no_current_job():
    facts = Facts(regions=(Region("US"),))
    whole = status(replace(NOTHING, lanes=[lane("US", Priority.RETRY, 4)]), [], facts)
    assert region_status(whole, "US") == {
        "region": "US",
        "queue_size": 0,
        "retry_queue_size": 4,
        "processing": False,
        "current_job": None,
    }


def test_a_region_that_runs_several_lists_them_the_longest_running_first():
    jobs = [
        running("late", "US", "US", started_at=600.0),
        running("early", "US", "US", started_at=400.0, retry_count=2),
        running("unsaid", "US", "EU", started_at=None, worker_region=None),
    ]
    whole = status(NOTHING, jobs, Facts())
    shown = region_status(whole, "US")
    assert [job["job_id"] for job in shown["current_jobs"]] == ["unsaid", "early", "late"]
    assert [job["is_retry"] for job in shown["current_jobs"]] == [False, True, False]
    assert shown["current_job"] == shown["current_jobs"][0]


def test_a_region_is_known_by_the_work_that_waits_there_and_lists_as_few_as_two_that_run():
    stats = replace(NOTHING, lanes=[lane("MARS", Priority.NORMAL, 1)])
    whole = status(stats, [running(name, "US", "US") for name in ("a", "b")], Facts())
    assert whole["regions"]["MARS"]["queue_size"] == 1
    assert [job["job_id"] for job in whole["regions"]["US"]["current_jobs"]] == ["a", "b"]


def test_an_unknown_region_is_refused_with_those_that_are_known():
    with refused("region 'MARS' is not one of EU, US"):
        region_status(busy(), "MARS")
    with refused("region 'MARS' is not one of none so far"):
        region_status(status(NOTHING, [], Facts()), "MARS")


def test_a_queue_shows_what_waits_by_kind_and_what_became_of_the_rest():
    stats = replace(
        NOTHING,
        lanes=[
            lane("US", Priority.NORMAL, 8),
            lane("US", Priority.URGENT, 2),
            lane("US", Priority.RETRY, 1),
            lane("*", Priority.URGENT_RETRY, 1),
            LaneStats(Lane("answers", "US", Priority.NORMAL), 7, 0, 0.0),
        ],
        running={("questions", "US"): 3, ("questions", "EU"): 1, ("answers", "US"): 9},
        ended={("questions", "done"): 40, ("questions", "failed"): 2},
    )
    facts = Facts(queues={"questions": QueueSettings(Weighted(0.3))})
    assert status(stats, [], facts)["queues"]["questions"] == {
        "fresh": 8,
        "urgent": 2,
        "retry": 2,
        "running": 4,
        "done": 40,
        "failed": 2,
        "cancelled": 0,
        "paused": False,
        "policy": "weighted(retry=0.3)",
    }


def test_a_queue_is_known_by_its_jobs_its_workers_its_settings_or_its_pause():
    stats = replace(
        NOTHING,
        lanes=[LaneStats(Lane("with-jobs", "US", 0), 0, 1, 0.0)],
        running={("running", "US"): 1},
        ended={("ended", "done"): 1},
        workers=[serving("w1")],
    )
    facts = Facts(queues={"configured": QueueSettings()}, paused=frozenset({"paused"}))
    queues = status(stats, [], facts)["queues"]
    assert list(queues) == ["configured", "ended", "paused", "questions", "running", "with-jobs"]
    assert queues["paused"]["paused"] is True


def test_delayed_sets_and_workers_are_shown_as_they_are():
    stats = replace(NOTHING, delayed={"questions": DelayedStats(9, 2, 5)}, workers=[serving("w1")])
    whole = status(stats, [], Facts())
    assert whole["delayed"] == {"questions": {"total": 9, "ready_now": 2, "ready_in_hour": 5}}
    assert whole["workers"] == [
        {
            "id": "w1",
            "name": "",
            "region": "US",
            "queues": ["questions"],
            "only": None,
            "concurrency": 1,
            "live": True,
            "running": 0,
            "beat_at": 990.0,
            "joined_at": 900.0,
        }
    ]
    assert list(whole["regions"]) == ["US"]


@pytest.mark.parametrize(
    ("workers", "unserved"),
    [
        ([serving("w1", "fresh")], "retries"),
        ([serving("w1", "fresh"), serving("w2", "retries", live=False)], "retries"),
        ([serving("w1", "retries"), serving("w2", "retries")], "fresh"),
        ([serving("w1", "fresh"), serving("w2", "retries")], None),
        ([serving("w1", "fresh"), serving("w2")], None),
        ([], None),
    ],
)
def test_a_queue_under_separate_with_workers_of_one_kind_only_is_reported(workers, unserved):
    facts = Facts(queues={"questions": QueueSettings(Separate()), "other": QueueSettings()})
    words = {"retries": "retries", "fresh": "fresh jobs"}
    expected = [
        f"queue questions has policy separate and no live worker for its {words[kind]};"
        f" start one with: mulligan worker APP --only {kind}"
        for kind in ([unserved] if unserved else [])
    ]
    assert status(replace(NOTHING, workers=workers), [], facts)["warnings"] == expected


def test_a_status_is_json():
    whole = busy()
    assert msgspec.json.decode(msgspec.json.encode(whole)) == whole


def test_a_lane_is_due_for_a_plan_that_takes_from_it_and_asks_for_no_longer_a_wait():
    here, there, other = (Lane("q", scope, Priority.NORMAL) for scope in ("EU", "US", "*"))
    group = Group("q", "fresh", ((Source(here), Source(there, 10.0)),))
    plan = ClaimPlan(1, (group,), ())

    def due(*lanes: LaneStats) -> list[Lane]:
        stats = Stats(100.0, list(lanes), {}, {}, {}, [])
        return [each.lane for each in due_lanes(plan, stats)]

    assert due(LaneStats(here, 1, 0, 100.0), LaneStats(there, 1, 0, 90.0)) == [here, there]
    assert due(LaneStats(here, 0, 1, 100.0), LaneStats(there, 1, 0, 90.1)) == []
    assert due(LaneStats(other, 1, 0, 1.0)) == []
