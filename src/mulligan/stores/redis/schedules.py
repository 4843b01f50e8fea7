"""Schedules: a record each, and the ticks that are placed and withdrawn with it."""

from mulligan.core.reschedule import Reschedule
from mulligan.core.settings import check_batch
from mulligan.stores.redis.connection import Run
from mulligan.stores.redis.enqueue import runs_values
from mulligan.stores.redis.fields import untabbed


async def reschedule(run: Run, change: Reschedule) -> bool:
    """Replace the record if it is still the one before, with its ticks."""
    check_batch(len(change.place))
    answer = await run(
        "reschedule",
        change.name,
        change.before or b"",
        change.after or b"",
        int(change.edit),
        len(change.withdraw),
        *map(untabbed, change.withdraw),
        *runs_values(change.place),
    )
    return bool(answer == 1)


def schedules_of(entries: list[bytes]) -> dict[str, bytes]:
    """The records by name, in their order."""
    found = zip(entries[::2], entries[1::2], strict=True)
    return dict(sorted((name.decode(), record) for name, record in found))
