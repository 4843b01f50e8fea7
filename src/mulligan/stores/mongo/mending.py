"""What another program has put where an outcome adds to a list or to a number."""

from collections.abc import Iterator, Sequence

from pymongo import UpdateMany

from mulligan.stores.mongo.base import Base, Change
from mulligan.stores.mongo.colliding import write

# What an operator can add to, as the server calls it.
KINDS = {"$push": "array", "$inc": "number"}


async def mend(base: Base, changes: Sequence[Change]) -> bool:
    """Set aside what these changes cannot add to, as `FIELD_damaged`; whether there was any.

    The server refuses such a change whenever it is sent, and its worker would send it for ever.
    """
    keys = [change.key for change in changes]
    writes = [
        UpdateMany(
            {"_id": {"$in": keys}, field: {"$exists": True, "$not": {"$type": kind}}},
            {"$rename": {field: f"{field}_damaged"}},
        )
        for field, kind in sorted(set(added_to(changes)))
    ]
    return bool(writes) and (await write(base.tasks, writes)).documents > 0


def added_to(changes: Sequence[Change]) -> Iterator[tuple[str, str]]:
    """The fields that these add to, each with the kind that it must be of."""
    for change in changes:
        for operator, kind in KINDS.items():
            for field in change.update.get(operator, ()):
                yield field, kind
