"""Keys of jobs that another program overwrote: set aside, so that the queue goes on."""

import logging

from mulligan.core.errors import StoreError
from mulligan.stores.redis.server import Server

log = logging.getLogger("mulligan.store")
LOOK_AT = 1000


def is_of_other_kind(error: StoreError) -> bool:
    """Whether a script failed because a key holds something else than mulligan keeps there."""
    return "WRONGTYPE" in str(error)


async def set_aside(server: Server, now: str) -> bool:
    """Look at the keys of every job; whether there was such a one.

    What it held is kept under another name. Its job goes on with what else is known of it; what
    the script had written before it failed, such as a failed attempt, may be there twice.
    """
    found: list[bytes] = []
    at, looked = 0, LOOK_AT
    while looked == LOOK_AT:
        looked, *names = await server.run("set_aside", now, at, LOOK_AT)
        found += names
        at += looked
    for name in found:
        log.warning(
            "another program overwrote what was stored of a job: set aside as %s; find out which",
            name.decode(errors="replace"),
        )
    return bool(found)
