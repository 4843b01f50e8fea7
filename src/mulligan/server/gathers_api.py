"""The routes of gathers: many jobs as one."""

from mulligan.app.gather_handle import GatherView, cancel_gather, gather_view, replay_gather
from mulligan.server.service import Service
from mulligan.server.shapes.gathers import CancelGather, FailedMember, Gather, GatherChanged


async def gather(service: Service, job: str) -> Gather:
    """The gather that the job gathers, or is a member of."""
    return shape(service, await gather_view(service.store, job))


async def cancel_all(service: Service, job: str, body: CancelGather) -> GatherChanged:
    """End the gathering job and all members that have not ended."""
    view = await gather_view(service.store, job)
    return await changed(service, view, await cancel_gather(service.store, view, body.reason))


async def replay_failed(service: Service, job: str) -> GatherChanged:
    """Replay the members that failed while they are awaited, or the gathering job if it failed."""
    view = await gather_view(service.store, job)
    return await changed(service, view, await replay_gather(service.store, view))


async def changed(service: Service, view: GatherView, count: int) -> GatherChanged:
    """What was changed, and the gather as it is now."""
    return GatherChanged(count, shape(service, await gather_view(service.store, view.job.id)))


def shape(service: Service, view: GatherView) -> Gather:
    """The gather as it is answered."""
    job, progress = view.job, view.progress
    return Gather(
        job.id,
        job.task,
        job.status,
        job.return_exceptions,
        progress.members,
        progress.done,
        progress.failed,
        progress.cancelled,
        progress.open,
        [
            FailedMember(
                index,
                failure.job,
                failure.type,
                service.redaction.text(failure.reason),
                failure.attempts,
            )
            for index, failure in view.failures
        ],
    )
