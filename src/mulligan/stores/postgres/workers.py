"""Workers: their beats, how they leave, and the jobs that are reclaimed from dead ones."""

from collections.abc import Sequence

import msgspec

from mulligan.core.answers import Beat
from mulligan.core.job import Claim, Lease
from mulligan.core.worker import Worker
from mulligan.stores.postgres import fields
from mulligan.stores.postgres.arrays import numbers, texts
from mulligan.stores.postgres.database import Database
from mulligan.stores.postgres.operate import RECENT, read_facts


async def beat(database: Database, worker: Worker, holding: Sequence[Lease]) -> Beat:
    """Keep all leases of the worker for another lease time."""
    [[lost, ids, tokens, *facts]] = await database.call(
        "beat",
        recent=RECENT,
        self=worker_json(worker),
        ids=texts([lease.job for lease in holding]),
        tokens=numbers([lease.token for lease in holding]),
    )
    unknown = [Lease(*pair) for pair in zip(ids or (), tokens or (), strict=True)]
    reclaimed_now = {each.lease: each for each in await reclaimed(database, unknown)}
    return Beat(
        [holding[ordinal - 1] for ordinal in lost or ()],
        read_facts(facts),
        [lease for lease in unknown if lease not in reclaimed_now],
        [reclaimed_now[lease] for lease in unknown if lease in reclaimed_now],
    )


async def reclaimed(database: Database, leases: Sequence[Lease]) -> list[Claim]:
    """Those of the worker's unknown leases that came from a reclaim."""
    if not leases:
        return []
    rows = await database.call("reclaimed", ids=texts([lease.job for lease in leases]))
    return [fields.claim(row) for row in rows]


async def reclaim(database: Database, limit: int, worker: Worker) -> list[Claim]:
    """Claim jobs whose worker stopped beating or is unknown, with a new token."""
    rows = await database.call_counting("reclaim", self=worker_json(worker), most=limit)
    return [fields.claim(row) for row in rows]


def worker_json(worker: Worker) -> str:
    """The worker as it presents itself."""
    return msgspec.json.encode(worker).decode()
