"""How documents come in, and how keys that ended jobs still keep become free for them."""

from collections.abc import Collection, Sequence
from typing import Any

from pymongo import InsertOne, UpdateMany

from mulligan.stores.mongo.base import Base, Change, Doc, rows
from mulligan.stores.mongo.bells import news_of
from mulligan.stores.mongo.colliding import write
from mulligan.stores.mongo.outbox import Box, boxes_of, take_away
from mulligan.stores.mongo.unique import KEEPS, LET_GO, is_heir, key_of, keyless, keys_to_take


async def deliver(base: Base, boxes: Sequence[Box]) -> set[str]:
    """Enqueue what is in these boxes and then empty them; returns the ids that are news.

    A job that is there already, by its id or its unique key, is left as it is. Of an heir nobody
    has told yet, even if another has stored it.
    """
    if not boxes:
        return set()
    every = [job for box in boxes for job in box.jobs]
    created = await store_next(base, every)
    emptied = {
        "_id": {"$in": [box.parent for box in boxes]},
        "mulligan.outbox.stamp": {"$in": [box.stamp for box in boxes]},
    }
    await write(base.tasks, [UpdateMany(emptied, {"$unset": {"mulligan.outbox": "", **LET_GO}})])
    await take_away(base, boxes)
    return {doc["_id"] for doc in [*created, *filter(is_heir, every)]}


async def store_next(base: Base, docs: Sequence[Doc]) -> list[Doc]:
    """Insert next jobs that are not there yet; returns those.

    An heir is stored in any case: without the key if another program gave that away.
    """
    await base.know(each.line for each in news_of(docs))
    created = await insert_where_free(base, docs)
    new = {doc["_id"] for doc in created}
    heirs = [doc for doc in docs if is_heir(doc) and doc["_id"] not in new]
    if not heirs:
        return created
    there = await base.find_anywhere([doc["_id"] for doc in heirs])
    lost = [keyless(doc) for doc in heirs if doc["_id"] not in there]
    return created + await insert_new(base, lost)


# -- keys ----------------------------------------------------------------------------------


async def insert_where_free(base: Base, docs: Sequence[Doc]) -> list[Doc]:
    """Insert the documents that are not there yet and whose key no other job has."""
    created: list[Doc] = []
    left = list(docs)
    while left:
        created += await insert(base, left)
        new = {id(doc) for doc in created}
        refused = [doc for doc in left if id(doc) not in new]
        freed = await free(base, keys_to_take(refused))
        left = [doc for doc in refused if doc["mulligan"].get("keeps") in freed]
    return created


async def write_where_free(base: Base, changes: Sequence[Change]) -> set[Any]:
    """Write what still matches and whose key no other job has; returns the keys of that.

    Of changes that want the same key the first has the first chance.
    """
    first: list[Change] = []
    later: list[Change] = []
    keys: set[str] = set()
    for change in changes:
        key = change.update["$set"].get(KEEPS)
        (later if key in keys else first).append(change)
        keys |= {key} - {None}
    written = await base.apply(first)
    refused = [c for c in first if c.key not in written and KEEPS in c.update["$set"]]
    freed = await free(base, {change.update["$set"][KEEPS] for change in refused})
    left = [change for change in refused if change.update["$set"][KEEPS] in freed] + later
    return written | await write_where_free(base, left) if left else written


async def free(base: Base, keys: Collection[str]) -> set[str]:
    """Have ended jobs let go of these keys, after their heirs are stored; returns which had one.

    One has a key still if it was finished by another program, or its next jobs are on their way.
    """
    if not keys:
        return set()
    fields = {"status": 1, KEEPS: 1, "mulligan.token": 1, "mulligan.outbox": 1}
    query = {KEEPS: {"$in": list(keys)}, "status": {"$not": {"$gte": "p"}}}
    ended = await rows(base.tasks.find(query, fields))
    boxes = await boxes_of(base, ended)
    await store_next(base, [job for box in boxes for job in box.jobs if is_heir(job)])
    await base.apply([let_go(doc) for doc in ended])
    return {doc["mulligan"]["keeps"] for doc in ended}


def let_go(doc: Doc) -> Change:
    """The write by which an ended job lets go of its key, unless it was replayed meanwhile."""
    private = doc["mulligan"]
    match = {
        "status": doc.get("status"),
        "mulligan.outbox.stamp": (private.get("outbox") or {}).get("stamp"),
    }
    return Change(doc["_id"], match, {"$unset": LET_GO}, private["token"])


# -- inserts -------------------------------------------------------------------------------


async def insert(base: Base, docs: Sequence[Doc]) -> list[Doc]:
    """Insert the documents that are not there yet; returns those.

    A job that others of these gather at is there before any of them could arrive.
    """
    if base.address.move_dead:
        ids = [doc["_id"] for doc in docs]
        gone = {doc["_id"] for doc in await rows(base.dlq.find({"_id": {"$in": ids}}, {"_id": 1}))}
        docs = [doc for doc in docs if doc["_id"] not in gone]
    awaited = {doc["mulligan"].get("gather") for doc in docs}
    first = with_rivals([doc for doc in docs if doc["_id"] in awaited], docs)
    ahead = {id(doc) for doc in first}
    others = [doc for doc in docs if id(doc) not in ahead]
    return await insert_new(base, first) + await insert_new(base, others)


def with_rivals(some: Sequence[Doc], docs: Sequence[Doc]) -> list[Doc]:
    """These documents, and all that want an id or a unique key of theirs, in their order.

    They are inserted together, so that of those that want the same the first has it.
    """
    ids = {doc["_id"] for doc in some}
    keys = {key_of(doc) for doc in some} - {None}
    found = [doc for doc in docs if doc["_id"] in ids or key_of(doc) in keys]
    return found if len(found) == len(some) else with_rivals(found, docs)


async def insert_new(base: Base, docs: list[Doc]) -> list[Doc]:
    """Insert in one command what breaks no unique index; returns that."""
    if not docs:
        return []
    there = (await write(base.tasks, [InsertOne(doc) for doc in docs])).refused
    return [doc for at, doc in enumerate(docs) if at not in there]
