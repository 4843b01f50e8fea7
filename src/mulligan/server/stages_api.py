"""The route that shows a chain by any of its jobs."""

from mulligan.app.stages import StageView, family
from mulligan.core.job import Job
from mulligan.server.jobs_api import stored
from mulligan.server.service import Service
from mulligan.server.shapes.stages import StageJob, StageRow, Stages


async def stages(service: Service, job: str) -> Stages:
    """Every stage of the chain that the job belongs to; none if it is in no chain."""
    found = await family(service.store, await stored(service.store, job))
    return Stages([row(service, stage) for stage in found])


def row(service: Service, stage: StageView) -> StageRow:
    """A stage with its jobs."""
    jobs = [line(service, stage, job) for job in stage.jobs]
    return StageRow(stage.number, stage.name, stage.members, jobs)


def line(service: Service, stage: StageView, job: Job) -> StageJob:
    """A job in short."""
    called = stage.input_of(job)
    args, kwargs = service.redaction.call(job.task, called.args, called.kwargs)
    reason = job.last_failure_reason
    said = None if reason is None else service.redaction.text(reason)
    return StageJob(job.id, job.status, args, kwargs, job.retry_count, job.awaits, said)
