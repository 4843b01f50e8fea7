"""Reads from a store what `explain` needs."""

from collections.abc import Sequence
from typing import cast

from mulligan.app.shard_away import unless_away
from mulligan.app.stored_limits import limits_named
from mulligan.core.checks import clean
from mulligan.core.errors import unknown_job
from mulligan.core.explain import Surroundings, explain
from mulligan.core.known_tasks import (
    KNOWS,
    nobody_knows,
    read_registrations,
    read_unknown,
    unknown_note,
)
from mulligan.core.limits import costs_of
from mulligan.core.long_attempts import LONG_ATTEMPTS, all_stuck, read_long_attempts
from mulligan.core.settings import AN_APP
from mulligan.core.shards import in_shard
from mulligan.core.unserved import may_take
from mulligan.stores.contract import HasShards, Store


async def explain_job(store: Store, job_id: str, app: str = AN_APP) -> str:
    """One sentence on why the job is where it is; `app` is the app's name in commands."""
    job = await store.get(job_id)
    if job is None:
        raise unknown_job(job_id)
    stats, facts = await store.stats(), await store.facts()
    live = [view.worker for view in stats.workers if view.live]
    able = [each.id for each in live if may_take(each, job.lane, facts)]
    pending = job.status == "pending"
    ahead = await store.ahead(job_id) if pending else 0
    unknown = await unknown_task(store, job.task, stats.now) if pending else None
    named = [name for name, _ in costs_of(job.limits)] if pending else []
    limits = await limits_named(store, named) if named else {}
    stuck = await all_slots_wait(store, able) if pending and job.due <= stats.now else None
    around = Surroundings(
        stats.now, ahead, facts, len(able), app, unknown=unknown, limits=limits, stuck=stuck
    )
    said = explain(job, around)
    if not stats.shards:
        return said
    shard = await cast("HasShards", store).shard_of(job_id)
    return said if shard is None else f"{in_shard(shard, stats.shards)} {said}"


async def all_slots_wait(store: Store, workers: Sequence[str]) -> str | None:
    """A clause if all slots of these workers wait for the results of other jobs; else None."""
    notes = await unless_away(store.notes(LONG_ATTEMPTS), {}) if workers else {}
    return all_stuck(workers, read_long_attempts(notes))


async def unknown_task(store: Store, task: str, now: float) -> str | None:
    """A sentence if no live worker knows the task, and who knew it last; else None."""
    for met in read_unknown(await unless_away(store.notes(unknown_note(task)), {})):
        if met.task == clean(task):
            return nobody_knows(met, read_registrations(await store.notes(KNOWS)), now)
    return None
