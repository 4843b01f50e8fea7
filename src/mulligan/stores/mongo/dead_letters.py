"""Dead letters in a collection of their own, as `move_dead` of the URL asks.

A letter is copied before it is removed, and the copy among the tasks is the true one: a crash
between leaves two copies of which readers see one, and the repair finishes the move.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pymongo import DeleteOne, ReplaceOne
from pymongo.errors import DuplicateKeyError

from mulligan.stores.mongo.bulk_write import Change, write
from mulligan.stores.mongo.connection import Connection, rows
from mulligan.stores.mongo.document import (
    ARRIVAL,
    TO_COPY,
    TO_WRITE,
    Doc,
)
from mulligan.stores.mongo.enqueue import (
    free_keys,
    keys_to_take,
)


async def move_dead(connection: Connection, keys: Sequence[Any]) -> int:
    """Move these failed jobs from the tasks to the dead letters."""
    query = {
        "_id": {"$in": list(keys)},
        "status": "failed",
        "mulligan.outbox": None,
        "mulligan.owes": {"$ne": ARRIVAL},
        # A throttled one holds its key, which only those among the tasks can.
        "mulligan.unique_until": {"$not": {"$gt": await connection.now()}},
    }
    letters = await rows(connection.tasks.with_options(TO_COPY).find(query))
    if not letters:
        return 0
    copies = [ReplaceOne({"_id": {"$eq": doc["_id"]}}, doc, upsert=True) for doc in letters]
    await write(connection.dlq, copies)
    same = [
        DeleteOne(
            {
                "_id": {"$eq": doc["_id"]},
                "status": "failed",
                "updated_at": {"$eq": doc.get("updated_at")},
            }
        )
        for doc in letters
    ]
    if (await write(connection.tasks, same)).documents < len(letters):
        ids = {"_id": {"$in": [doc["_id"] for doc in letters]}}
        left = [doc["_id"] for doc in await rows(connection.tasks.find(ids, {"_id": 1}))]
        await drop_copies(connection, [doc for doc in letters if doc["_id"] in left])
    return len(letters)


async def drop_copies(connection: Connection, letters: Iterable[Doc]) -> None:
    """Delete what a move has copied of letters that were replayed from among the tasks."""
    stale = [{"_id": {"$eq": doc["_id"]}, "status": "failed", **fence(doc)} for doc in letters]
    if stale:
        await write(connection.dlq, [DeleteOne(each) for each in stale])


def fence(doc: Doc) -> Doc:
    """The copy of just this letter: not of one that the job became when it died once more."""
    private = doc.get("mulligan")
    return {"mulligan.token": private.get("token") if isinstance(private, Mapping) else None}


async def bring_back(connection: Connection, change: Change) -> bool:
    """Replay a letter: change it where it lies, then move it; False if its key is taken."""
    dlq = connection.dlq.with_options(TO_WRITE)
    before = await dlq.find_one_and_update(change.query, change.update)
    if before is None:
        return False
    letter = await dlq.find_one({"_id": change.key})
    if letter is None or await return_letter(connection, letter):
        return letter is not None
    await dlq.replace_one({"_id": change.key}, before)
    return False


async def return_letter(connection: Connection, letter: Doc) -> bool:
    """Put a replayed letter among the tasks; False if another job has its unique key."""
    try:
        await connection.tasks.insert_one(letter)
    except DuplicateKeyError:
        if await connection.tasks.find_one({"_id": letter["_id"]}, {"_id": 1}) is None:
            freed = await free_keys(connection, keys_to_take([letter]))
            return bool(freed) and await return_letter(connection, letter)
    await connection.dlq.delete_one({"_id": letter["_id"], "status": "pending"})
    return True
