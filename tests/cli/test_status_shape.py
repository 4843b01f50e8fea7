"""The object that `status --json` and the HTTP API show."""

import pytest
from msgspec.structs import replace

from mulligan.core.errors import InvalidError
from mulligan.core.facts import Facts, QueueSettings, Region
from mulligan.core.fetch import Separate
from mulligan.core.job import Job
from mulligan.core.lane import Lane, Priority
from mulligan.core.stats import DelayedStats, LaneStats, Stats
from mulligan.core.status import region_status, status
from mulligan.core.worker import Worker, WorkerView

EMPTY = Stats(100.0, [], {}, {}, {}, [])
JOB = Job(
    id="A-q2", queue="q", task="ask", region="US", priority=0, status="processing", scope="US",
    lane_priority=0, due=90.0, sequence=1, token=1, retry_count=0, replay=0, snoozes=0,
    created_at=90.0, body=b"{}", worker="w", worker_region="US", started_at=95.0,
)  # fmt: skip
TAKEN_OVER = replace(JOB, id="A-q1", retry_count=1, worker_region="EU", started_at=96.0)


def lane(scope: str, priority: int, ready: int, delayed: int = 0, queue: str = "q") -> LaneStats:
    return LaneStats(Lane(queue, scope, priority), ready, delayed, 90.0)


def test_it_has_the_promised_shape():
    lanes = [
        lane("*", Priority.RETRY, 1, 5),
        lane("*-US", Priority.RETRY, 1),
        lane("*+EU", Priority.URGENT_RETRY, 1),
        lane("US", Priority.NORMAL, 9, 4),
        lane("US", Priority.URGENT, 1),
        lane("EU", Priority.NORMAL, 5),
    ]
    running = {("q", "US"): 1, ("q", "EU"): 1}
    whole = status(replace(EMPTY, lanes=lanes, running=running), [TAKEN_OVER, JOB], Facts())
    assert {key: whole[key] for key in ("global_retry_queue_size", "regions")} == {
        "global_retry_queue_size": 3,
        "regions": {
            "US": {
                "queue_size": 10,
                "retry_queue_size": 0,
                "processing": True,
                "current_job": {"job_id": "A-q2", "retry_count": 0},
            },
            "EU": {
                "queue_size": 5,
                "retry_queue_size": 0,
                "processing": True,
                "current_job": {"job_id": "A-q1", "retry_count": 1, "original_region": "US"},
            },
        },
    }
    assert whole["queues"]["q"] == {
        "fresh": 14, "urgent": 1, "retry": 3, "running": 2, "done": 0, "failed": 0,
        "cancelled": 0, "paused": False, "policy": "balanced",
    }  # fmt: skip


def test_a_region_that_runs_nothing_has_no_current_job():
    whole = status(EMPTY, [], Facts(regions=(Region("ASIA"),)))
    assert whole["regions"]["ASIA"] == {
        "queue_size": 0,
        "retry_queue_size": 0,
        "processing": False,
        "current_job": None,
    }
    assert region_status(whole, "ASIA") == {"region": "ASIA"} | whole["regions"]["ASIA"]


def test_a_region_that_runs_several_lists_them_the_oldest_first():
    later = replace(JOB, id="B", started_at=97.0, retry_count=2)
    whole = status(EMPTY, [later, JOB], Facts())
    region = whole["regions"]["US"]
    assert region["current_job"]["job_id"] == "A-q2"
    assert [job["job_id"] for job in region["current_jobs"]] == ["A-q2", "B"]
    part = region_status(whole, "US")
    assert part["region"] == "US"
    assert part["current_job"] == {"job_id": "A-q2", "retry_count": 0, "is_retry": False}
    assert [job["is_retry"] for job in part["current_jobs"]] == [False, True]


def test_a_region_that_nobody_knows_is_refused():
    with pytest.raises(InvalidError, match="region 'MARS' is not one of none so far"):
        region_status(status(EMPTY, [], Facts()), "MARS")


def test_a_retry_pinned_to_its_region_counts_there():
    whole = status(replace(EMPTY, lanes=[lane("US", Priority.RETRY, 2)]), [], Facts())
    assert whole["global_retry_queue_size"] == 0
    assert whole["regions"]["US"]["retry_queue_size"] == 2


def test_queues_appear_for_whatever_mentions_them():
    worker = WorkerView(Worker("w", "US", ("served",)), 99.0, 50.0, live=True, running=1)
    stats = replace(
        EMPTY,
        running={("runs", "US"): 1},
        ended={("ended", "failed"): 3},
        workers=[worker],
        delayed={"waits": DelayedStats(4, 1, 2)},
        lanes=[lane("US", 0, 1, 3, queue="waits")],
    )
    facts = Facts(queues={"set": QueueSettings()}, paused=frozenset({"paused"}))
    whole = status(stats, [], facts)
    assert list(whole["queues"]) == ["ended", "paused", "runs", "served", "set", "waits"]
    assert whole["queues"]["ended"]["failed"] == 3
    assert whole["queues"]["paused"]["paused"]
    assert whole["delayed"] == {"waits": {"total": 4, "ready_now": 1, "ready_in_hour": 2}}
    assert whole["workers"] == [
        {
            "id": "w", "name": "", "region": "US", "queues": ["served"], "only": None,
            "concurrency": 1, "live": True, "running": 1, "beat_at": 99.0, "joined_at": 50.0,
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kinds", "missing"),
    [
        (["fresh"], "retries"),
        (["retries", "retries"], "fresh jobs"),
        (["fresh", "retries"], None),
        ([None], None),
        (["fresh", None], None),
        ([], None),
    ],
)
def test_a_separate_queue_with_workers_of_one_kind_is_told(kinds, missing):
    views = [
        WorkerView(Worker(f"w{i}", "US", ("q",), only=only), 99.0, 50.0, live=True, running=0)
        for i, only in enumerate(kinds)
    ]
    dead = WorkerView(Worker("dead", "US", ("q",)), 0.0, 0.0, live=False, running=0)
    facts = Facts(queues={"q": QueueSettings(Separate()), "other": QueueSettings()})
    said = status(replace(EMPTY, workers=[*views, dead]), [], facts)["warnings"]
    if missing is None:
        assert said == []
    else:
        assert len(said) == 1
        assert f"no live worker for its {missing}" in said[0]
        assert "--only" in said[0]
