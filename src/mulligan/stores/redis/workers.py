"""Workers: how scripts know one, its beats, and jobs that it reclaims."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from mulligan.core.answers import Beat
from mulligan.core.errors import InvalidError
from mulligan.core.job import Claim, Lease
from mulligan.core.outcome import Dead
from mulligan.core.validation import INVALID_RECORD, dead_record
from mulligan.core.worker import Worker
from mulligan.stores.redis.claim import NO_TOKEN
from mulligan.stores.redis.connection import Run, Value
from mulligan.stores.redis.fields import (
    JSON,
    claim_state,
    escape,
    float_text,
    home_of,
    lane_of,
    name_of,
    read_counts,
    token_texts,
)
from mulligan.stores.redis.operate import facts_of

# How many values shared/reclaimed.lua gives of each job.
RECLAIMED_WIDTH = 8


@lru_cache(maxsize=16)
def worker_values(worker: Worker) -> tuple[Value, ...]:
    """A worker as scripts know it."""
    for name, value in (("id", worker.id), ("region", worker.region)):
        if "\t" in value:
            raise InvalidError(f"worker {name} {value!r} has a tab; remove it")
    serves = ":".join(escape(name) for name in (worker.region, *worker.queues))
    return (worker.id, JSON.encode(worker), worker.region, serves, float_text(worker.lease))


async def beat(run: Run, worker: Worker, holding: Sequence[Lease]) -> tuple[Beat, list[Dead]]:
    """Keep the leases of a worker; with the ends of reclaimed jobs that cannot be read."""
    ids = [lease.job for lease in holding]
    tokens = token_texts(lease.token for lease in holding)
    packed, lost, forgotten, rows = await run(
        "beat", *worker_values(worker), len(ids), *ids, *tokens
    )
    reclaimed, invalid = reclaimed_of(rows)
    leases = [
        Lease(id_.decode(), int(token))
        for id_, token in zip(forgotten[::2], forgotten[1::2], strict=True)
    ]
    lost_leases = [holding[number] for number in lost]
    return Beat(lost_leases, facts_of(packed), leases, reclaimed), invalid


def reclaimed_of(answer: list[Any]) -> tuple[list[Claim], list[Dead]]:
    """What reclaim.lua gave, and the ends of jobs in it that cannot be read."""
    claims: list[Claim] = []
    invalid: list[Dead] = []
    for at in range(0, len(answer), RECLAIMED_WIDTH):
        row = answer[at : at + RECLAIMED_WIDTH]
        try:
            claims.append(read_reclaimed(row))
        except INVALID_RECORD as error:
            id_, worker, region = (row[number].decode() for number in (0, 5, 6))
            lease = Lease(id_, NO_TOKEN)
            invalid.append(dead_record(lease, region, worker, float(row[7]), error))
    return claims, invalid


def read_reclaimed(row: list[Any]) -> Claim:
    """One job that was reclaimed; raises what taking apart an invalid one does."""
    id_, name, text, counts, (due, *fields), worker, region, started = row
    lane = lane_of(name.decode())
    first_token, created_at, home, task, body = text.split(b"\t", 4)
    _, home_region, priority = home_of(home)
    used, retry_count, replay, snoozes = read_counts(counts)
    return Claim(
        id=id_.decode(),
        token=int(first_token) + used - 1,
        queue=lane.queue,
        task=name_of(task),
        body=body,
        region=home_region,
        priority=priority,
        scope=lane.scope,
        lane_priority=lane.priority,
        due=float(due or created_at),
        retry_count=retry_count,
        replay=replay,
        snoozes=snoozes,
        worker=worker.decode(),
        worker_region=region.decode(),
        started_at=float(started),
        **claim_state(fields),
    )
