"""Notes: small values that are kept for a while."""

from pymongo import DeleteMany

from mulligan.stores.mongo.base import Base, rows
from mulligan.stores.mongo.colliding import write
from mulligan.stores.mongo.times import micros, seconds

# No text sorts after it.
LAST = "\U0010ffff"


async def note(base: Base, key: str, value: bytes | None, keep: float) -> None:
    """Keep the value under this key for so many seconds; None forgets it."""
    if value is None:
        await base.notes.delete_one({"_id": key})
        return
    until = micros(seconds(await base.now()) + keep)
    await base.notes.update_one(
        {"_id": key}, {"$set": {"value": value, "until": until}}, upsert=True
    )


async def notes(base: Base, prefix: str) -> dict[str, bytes]:
    """The values kept under keys that begin so, in their order."""
    query = {"_id": {"$gte": prefix, "$lt": prefix + LAST}, "until": {"$gt": await base.now()}}
    found = {doc["_id"]: doc["value"] for doc in await rows(base.notes.find(query))}
    return {key: found[key] for key in sorted(found) if key.startswith(prefix)}


async def forget(base: Base, now: int) -> None:
    """Delete what is past its time."""
    await write(base.notes, [DeleteMany({"until": {"$lte": now}})])
