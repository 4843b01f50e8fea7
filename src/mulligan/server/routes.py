"""The table of all routes, which are served, guarded and described from it."""

from starlette.requests import Request
from starlette.responses import Response

from mulligan.server import (
    change_api,
    gathers_api,
    hours_api,
    jobs_api,
    limits_api,
    metrics_api,
    openapi,
    records_api,
    reference,
    schedules_api,
    stages_api,
    status_api,
    worker_api,
    workers_api,
)
from mulligan.server.endpoint import Row
from mulligan.server.prefix import prefix_of
from mulligan.server.service import Service


async def description(service: Service, request: Request) -> Response:  # noqa: ARG001 - all handlers are called alike
    """This API, described in OpenAPI 3.1."""
    encoded = openapi.encoded(ROUTES, prefix_of(request))
    return Response(encoded, media_type="application/json")


async def docs(service: Service) -> Response:  # noqa: ARG001 - as above
    """This API, described for people."""
    return Response(reference.page(ROUTES), media_type="text/html")


ROUTES: tuple[Row, ...] = (
    Row("GET", "/api/status", "read", status_api.status),
    Row("GET", "/api/status/{region}", "read", status_api.one_region),
    Row("GET", "/api/overview", "read", status_api.overview),
    Row("GET", "/api/queues", "read", status_api.queues),
    Row("GET", "/api/lanes", "read", status_api.lanes),
    Row("GET", "/api/delayed", "read", status_api.delayed),
    Row("GET", "/api/delayed/hours", "read", hours_api.hours),
    Row("GET", "/api/hour", "read", hours_api.hour),
    Row("GET", "/api/hour/tasks", "read", hours_api.tasks_hour),
    Row("GET", "/api/regions", "read", status_api.regions),
    Row("GET", "/api/workers", "read", status_api.workers),
    Row("GET", "/api/workers/{worker}", "read", workers_api.one_worker),
    Row("GET", "/api/tasks", "read", status_api.tasks),
    Row("GET", "/api/schedules", "read", schedules_api.list_schedules),
    Row("GET", "/api/schedules/{schedule}", "read", schedules_api.one_schedule),
    Row("GET", "/api/ticks", "read", schedules_api.ticks),
    Row("GET", "/api/limits", "read", limits_api.list_limits),
    Row("GET", "/api/limits/{limit}", "read", limits_api.one_limit),
    Row("GET", "/api/queues/{queue}/keys", "read", limits_api.keys),
    Row("GET", "/api/metrics", "read", metrics_api.metrics),
    Row("GET", "/metrics", "read", metrics_api.scrape, "text/plain"),
    Row("GET", "/api/jobs", "read", jobs_api.list_jobs),
    Row("GET", "/api/jobs/{job}", "read", jobs_api.get_job),
    Row("GET", "/api/jobs/{job}/history", "read", jobs_api.history),
    Row("GET", "/api/jobs/{job}/explain", "read", jobs_api.explain),
    Row("GET", "/api/jobs/{job}/records", "read", records_api.records),
    Row("GET", "/api/jobs/{job}/events", "read", records_api.follow, "text/event-stream"),
    Row("GET", "/api/jobs/{job}/stages", "read", stages_api.stages),
    Row("GET", "/api/gathers/{job}", "read", gathers_api.gather),
    Row("GET", "/api/count", "read", change_api.count),
    Row("GET", "/api/dead", "read", jobs_api.dead),
    Row("GET", "/api/events", "read", status_api.events, "text/event-stream"),
    Row("POST", "/api/jobs", "operate", jobs_api.enqueue),
    Row("POST", "/api/jobs/cancel", "operate", change_api.cancel),
    Row("POST", "/api/jobs/replay", "operate", change_api.replay),
    Row("POST", "/api/jobs/purge", "operate", change_api.purge),
    Row("POST", "/api/gathers/{job}/cancel", "operate", gathers_api.cancel_all),
    Row("POST", "/api/gathers/{job}/replay", "operate", gathers_api.replay_failed),
    Row("POST", "/api/workers/{worker}/drain", "operate", workers_api.drain),
    Row("POST", "/api/workers/{worker}/stop", "operate", workers_api.stop),
    Row("POST", "/api/schedules/{schedule}", "operate", schedules_api.put_schedule),
    Row("POST", "/api/schedules/{schedule}/pause", "operate", schedules_api.pause_schedule),
    Row("POST", "/api/schedules/{schedule}/resume", "operate", schedules_api.resume_schedule),
    Row("POST", "/api/schedules/{schedule}/remove", "operate", schedules_api.remove_schedule),
    Row("POST", "/api/schedules/{schedule}/run", "operate", schedules_api.run_schedule),
    Row("POST", "/api/limits/{limit}", "operate", limits_api.set_limit),
    Row("POST", "/api/limits/{limit}/reset", "operate", limits_api.reset_limit),
    Row("POST", "/api/limits/{limit}/pause", "operate", limits_api.pause_limit),
    Row("POST", "/api/limits/{limit}/resume", "operate", limits_api.resume_limit),
    Row("POST", "/api/queues/{queue}/weights", "operate", limits_api.set_weights),
    Row("POST", "/api/queues/{queue}/pause", "operate", change_api.pause),
    Row("POST", "/api/queues/{queue}/resume", "operate", change_api.resume),
    Row("GET", "/api/openapi.json", "read", description),
    Row("GET", "/api/docs", "read", docs, "text/html"),
    Row("POST", "/worker/join", "worker", worker_api.join),
    Row("POST", "/worker/heartbeat", "worker", worker_api.heartbeat),
    Row("POST", "/worker/claim", "worker", worker_api.claim),
    Row("POST", "/worker/ack", "worker", worker_api.ack),
    Row("POST", "/worker/nack", "worker", worker_api.nack),
    Row("POST", "/worker/snooze", "worker", worker_api.snooze),
    Row("POST", "/worker/return", "worker", worker_api.give_back),
    Row("POST", "/worker/record", "worker", records_api.record),
    Row("POST", "/worker/records", "worker", records_api.recorded),
    Row("POST", "/worker/leave", "worker", worker_api.leave),
)
