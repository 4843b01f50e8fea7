"""What other programs have overwritten: values of a wrong type, jobs that cannot be read."""

import logging
from collections.abc import Sequence

from mulligan.core.errors import StoreError
from mulligan.core.job import encode
from mulligan.core.outcome import Dead
from mulligan.stores.redis.connection import Run, Server

log = logging.getLogger("mulligan.store")
LOOK_AT = 1000


def is_wrong_type(error: StoreError) -> bool:
    """Whether a script failed because a key holds something else than mulligan keeps there."""
    return "WRONGTYPE" in str(error)


async def move_wrong_types(server: Server, now: str) -> bool:
    """Look at the keys of every job, and rename those of a wrong type; whether there were any.

    A job whose key was renamed goes on with what else is known of it. What the script had written
    before it failed, such as a failed attempt, may be there twice.
    """
    found: list[bytes] = []
    at, looked = 0, LOOK_AT
    while looked == LOOK_AT:
        looked, *names = await server.run("move_wrong_types", now, at, LOOK_AT)
        found += names
        at += looked
    for name in found:
        log.warning(
            "another program overwrote what was stored of a job: set aside as %s; find out which",
            name.decode(errors="replace"),
        )
    return bool(found)


async def fail_invalid(run: Run, invalid: Sequence[Dead], worker: str) -> None:
    """End jobs that the worker holds and cannot read, as dead letters."""
    values = [part for each in invalid for part in (each.lease.job, encode(each.failure))]
    await run("fail_invalid", worker, *values)
