"""What a server shows of a store."""

from typing import Any

import msgspec
import pytest

from mulligan.app.overview import read_store
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import Weighted
from mulligan.core.lane import Lane, Priority
from mulligan.core.limits import Limit, costs_text
from mulligan.core.status import region_status
from mulligan.core.worker import Worker
from mulligan.engine.heartbeat import WorkerNote
from mulligan.server.listed import MOST
from mulligan.server.overview import full_overview
from mulligan.server.shapes.status import Overview
from tests.cli.command_line import claim, fail, new_job
from tests.contract.builders import again
from tests.server.apps import app
from tests.server.conftest import good, refused


@pytest.fixture
async def busy(store):
    """US runs one job and has one waiting; EU runs a retry that US failed."""
    await store.enqueue([new_job(name, region="US") for name in ("A-q1", "A-q2", "A-q3")])
    first = await claim(store, 1, region="US", worker="w-us")
    await fail(store, first, non_retryable=False)
    await claim(store, 1, region="US", worker="w-us")


async def test_status_has_the_documented_shape(client, store, busy, clock):
    clock.advance(100)
    await claim(store, 1, region="EU", worker="w-eu")
    assert await good(client.get("/api/status")) == {
        "global_retry_queue_size": 0,
        "regions": {
            "EU": {
                "queue_size": 0,
                "retry_queue_size": 0,
                "processing": True,
                "current_job": {"job_id": "A-q1", "retry_count": 1, "original_region": "US"},
            },
            "US": {
                "queue_size": 1,
                "retry_queue_size": 0,
                "processing": True,
                "current_job": {"job_id": "A-q2", "retry_count": 0},
            },
        },
    }


async def test_one_region_says_its_name_and_whether_its_job_is_a_retry(client, store, busy, clock):
    clock.advance(100)
    await claim(store, 1, region="EU", worker="w-eu")
    assert await good(client.get("/api/status/EU")) == {
        "region": "EU",
        "queue_size": 0,
        "retry_queue_size": 0,
        "processing": True,
        "current_job": {
            "job_id": "A-q1",
            "retry_count": 1,
            "original_region": "US",
            "is_retry": True,
        },
    }


async def test_a_region_that_runs_several_lists_them_all(client, store):
    await store.enqueue([new_job(name) for name in ("a", "b")])
    await claim(store, 2)
    shown = await good(client.get("/api/status/default"))
    assert [each["job_id"] for each in shown["current_jobs"]] == ["a", "b"]


async def test_an_unknown_region_is_not_found(client, busy):
    await refused(client.get("/api/status/MARS"), 404, "region 'MARS' is not one of", "US")


async def test_the_overview_is_what_core_computes_and_nothing_is_dropped(client, store, busy):
    shown = await good(client.get("/api/overview"))
    whole = full_overview(await read_store(store))
    for part, value in whole.items():
        assert shown[part] == msgspec.to_builtins(value), part
    assert msgspec.to_builtins(msgspec.convert(whole | shown, Overview)) == shown
    assert region_status(shown, "US")["current_job"]["job_id"] == "A-q2"


async def test_queues_show_what_is_stored_with_them(client, store):
    await store.configure("mail", QueueSettings(Weighted(0.2), grace=3.0))
    await store.pause("mail", paused=True)
    queue = (await good(client.get("/api/queues")))["queues"]["mail"]
    assert queue["policy"] == "weighted(retry=0.2)"
    assert queue["grace"] == 3.0
    assert queue["paused"] is True


async def test_jobs_that_wait_for_a_paused_limit_are_not_late_and_their_queue_says_so(
    client, store, clock
):
    await store.set_limit("api", Limit(rate=9, per=1), declared=True)
    await store.enqueue([new_job("held", limits=costs_text({"api": 1}))])
    [held] = await claim(store, 1)
    await store.commit([again(held, lane=Lane("mail", "*", Priority.RETRY))])
    await store.pause_limit("api", 3600.0)
    clock.advance(60)
    shown = await good(client.get("/api/overview"))
    assert shown["queues"]["mail"]["held_by"] == ["api"]
    assert not any("has waited" in said for said in shown["alerts"])
    [limit] = shown["limits"]
    assert (limit["name"], limit["state"]) == ("api", "paused")
    assert limit["paused_until"] == clock() + 3540
    await store.pause_limit("api", 0.0)
    shown = await good(client.get("/api/overview"))
    assert (shown["queues"]["mail"]["held_by"], shown["limits"]) == ([], [])
    assert any("has waited" in said for said in shown["alerts"])


async def test_lanes_and_delayed_sets_count_what_waits(client, store):
    await store.enqueue([new_job("now"), new_job("later", delay=600)])
    assert (await good(client.get("/api/delayed")))["delayed"] == {
        "mail": {"total": 1, "ready_now": 0, "ready_in_hour": 1}
    }
    (lane,) = (await good(client.get("/api/lanes")))["lanes"]
    assert (lane["lane"], lane["ready"], lane["delayed"]) == ("fresh", 1, 1)


async def test_regions_show_their_health_and_breaker(client, store, busy):
    from mulligan.core.counts import Count  # noqa: PLC0415 - only here

    await store.count([Count("mail", "US", "failed", 3.0), Count("mail", "US", "succeeded", 1.0)])
    us = (await good(client.get("/api/regions")))["regions"]["US"]
    assert us["live"] is True
    assert us["serves"] == ["mail"]
    assert us["health"]["mail"]["failed"] == 3
    assert us["health"]["mail"]["breaker"]["open"] is False


async def test_workers_say_where_they_work(client, store, busy):
    (worker,) = (await good(client.get("/api/workers")))["workers"]
    assert (worker["id"], worker["region"], worker["running"]) == ("w-us", "US", 1)


async def test_tasks_are_those_of_the_app(client, serve):
    assert await good(client.get("/api/tasks")) == {"tasks": []}
    shown = await good(serve(app=app).get("/api/tasks"))
    ask = next(task for task in shown["tasks"] if task["name"] == "ask")
    assert ask == {
        "name": "ask",
        "queue": "questions",
        "region": "*",
        "gated": True,
        "parameters": [
            {
                "name": "question",
                "type": "str",
                "schema": {"type": "string"},
                "required": True,
                "given": "either",
            },
            {
                "name": "limit",
                "type": "int",
                "schema": {"type": "integer"},
                "required": False,
                "given": "keyword",
                "default": 1,
            },
        ],
    }


async def test_a_worker_is_shown_with_its_process_and_its_jobs_and_obeys_orders(
    client, store, busy
):
    shown = await good(client.get("/api/workers/w-us"))
    assert (shown["id"], shown["about"], shown["order"]) == ("w-us", None, None)
    assert [job["status"] for job in shown["jobs"]] == ["processing"]
    refusal = "takes no orders"
    await refused(client.post("/api/workers/w-us/drain"), 422, refusal)

    note = WorkerNote(store, Worker("w-us"), "shop:app", lambda _order: None)
    await note.look()
    answer = await good(client.post("/api/workers/w-us/drain"))
    assert answer == {"worker": "w-us", "order": "drain"}
    shown = await good(client.get("/api/workers/w-us"))
    assert (shown["about"]["app"], shown["order"]) == ("shop:app", "drain")
    await good(client.post("/api/workers/w-us/stop"))
    assert (await good(client.get("/api/workers/w-us")))["order"] == "stop"
    await refused(client.get("/api/workers/w"), 404, "no worker 'w' is known")


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/api/status", "regions"),
        ("/api/queues", "queues"),
        ("/api/lanes", "lanes"),
        ("/api/delayed", "delayed"),
        ("/api/regions", "regions"),
        ("/api/workers", "workers"),
    ],
)
async def test_long_lists_come_in_parts(client, store, path, field):
    names = [f"n{number}" for number in range(5)]
    await store.enqueue([new_job(name, queue=name, region=name, delay=60) for name in names])
    await store.enqueue([new_job(f"{name}-due", queue=name, region=name) for name in names])
    for name in names:
        await store.beat(Worker(name, name, (name,)), [])
    whole = (await good(client.get(path)))[field]
    query: dict[str, Any] = {"limit": len(whole) // 2}
    parts = []
    for _ in range(3):
        page = await good(client.get(path, params=query))
        assert len(page[field]) <= len(whole) // 2
        parts.append(page[field])
        query["after"] = page.get("after")
    assert query["after"] is None
    if isinstance(whole, list):
        assert sorted(whole, key=str) == sorted((each for part in parts for each in part), key=str)
    else:
        assert whole == {name: value for part in parts for name, value in part.items()}


async def test_the_overview_keeps_the_busiest_of_very_many(client, store):
    quiet = [new_job(f"j{number}", queue=f"q{number:04}") for number in range(MOST)]
    busy = [new_job(f"b{number}", queue="zz-busy") for number in range(3)]
    await store.enqueue(quiet)
    await store.enqueue(busy)
    shown = await good(client.get("/api/overview"))
    assert len(shown["queues"]) == len(shown["alerts"]) == MOST
    assert shown["queues"]["zz-busy"]["fresh"] == 3
    assert shown["omitted"] == {"queues": 1, "lanes": 1, "alerts": 1}
    assert "1 queues, 1 lanes, 1 alerts more" in shown["warnings"][-1]
    assert "zz-busy" in (await good(client.get("/api/queues?after=q0998")))["queues"]
