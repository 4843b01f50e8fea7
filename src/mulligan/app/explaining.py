"""Gathers from a store what `explain` needs."""

from mulligan.core.errors import UnknownJobError
from mulligan.core.explain import Surroundings, explain
from mulligan.core.job import Job
from mulligan.core.worker import Worker
from mulligan.stores.contract import Store


async def explain_job(store: Store, job_id: str) -> str:
    """One sentence on why the job is where it is."""
    job = await store.get(job_id)
    if job is None:
        raise UnknownJobError(f"no job {job_id!r} is stored; ended ones are deleted after a while")
    stats = await store.stats()
    able = [view for view in stats.workers if view.live and may_take(view.worker, job)]
    ahead = await store.ahead(job_id) if job.status == "pending" else 0
    return explain(job, Surroundings(stats.now, ahead, await store.facts(), len(able)))


def may_take(worker: Worker, job: Job) -> bool:
    """Whether the worker serves the lane that the job stands in."""
    serves = {None: True, "retries": job.lane.is_retry, "fresh": not job.lane.is_retry}
    here = job.lane.is_global or worker.region == job.scope
    return job.queue in worker.queues and here and serves[worker.only]
