"""The layout of the documents, and the indexes, each for one question that is asked often."""

from contextlib import suppress
from typing import Any

from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.errors import OperationFailure

from mulligan.core.errors import StoreError
from mulligan.stores.mongo.base import DEFAULT_TASK, Base, Collection, Doc, enter, rows
from mulligan.stores.mongo.inbox import STRAY
from mulligan.stores.mongo.page import IN_A_LIST
from mulligan.stores.mongo.unique import KEEPS

TRIES = 5
LAYOUT = 2


def index(name: str, *fields: str, **options: Any) -> IndexModel:
    """An index over these fields, ascending; a field written `-field` descends."""
    keys = [(f.lstrip("-"), DESCENDING if f.startswith("-") else ASCENDING) for f in fields]
    return IndexModel(keys, name=name, **options)


def only_with(field: str) -> dict[str, object]:
    """Index only the documents that have the field."""
    return {"partialFilterExpression": {field: {"$exists": True}}}


# `pending` and `processing` sort after "p", every other status before: a partial index may not
# say $in before MongoDB 6.
UNENDED = {"mulligan.unique_key": {"$exists": True}, "status": {"$gte": "p"}}

# Documents in which the server would find a number inside of a list; they are listed by key.
ODD = (
    index("odd", "status", partialFilterExpression={"mulligan": IN_A_LIST}),
    index("odd_place", "-status", partialFilterExpression={"mulligan.place": IN_A_LIST}),
)
# No two of a collection are on the same fields: before MongoDB 5 filters do not tell them apart.
INDEXES = (
    index("status_created", "status", "created_at"),
    index("next_retry", "next_retry_at"),
    index("status_updated", "status", "updated_at"),
    index(
        "pending",
        "mulligan.line",
        "mulligan.due",
        "mulligan.sequence",
        partialFilterExpression={"status": "pending"},
    ),
    index("strays", "next_retry_at", "status", partialFilterExpression=STRAY),
    index("place", "-mulligan.place"),
    index(
        "unique_key",
        "mulligan.unique_queue",
        "mulligan.unique_key",
        unique=True,
        partialFilterExpression=UNENDED,
    ),
    index("kept_key", KEEPS, unique=True, **only_with(KEEPS)),
    index("concurrency_key", "mulligan.key", "status", **only_with("mulligan.key")),
    index("outbox", "mulligan.outbox.stamp", **only_with("mulligan.outbox.stamp")),
    index("owes", "mulligan.owes", "status", **only_with("mulligan.owes")),
    index("expires", "mulligan.expires", **only_with("mulligan.expires")),
    *ODD,
)
# What earlier versions had; to keep it up to date would only cost time.
OBSOLETE = ("line",)
DEAD_INDEXES = (
    index("place", "-mulligan.place"),
    index("owes", "mulligan.owes", "status", **only_with("mulligan.owes")),
    *ODD,
)
ARRIVAL_INDEXES = (index("of", "of", "place"),)
COUNT_INDEXES = (index("start", "start", **only_with("start")),)


async def check_layout(base: Base, where: str, *, read_only: bool = False) -> dict[str, Doc]:
    """Bring the documents into the present layout; refuse those of a newer release.

    Who only reads changes nothing: it can read the earlier layout too. Returns what is stored of
    layout, facts and default task, as it was found.
    """
    query = {"_id": {"$in": ["layout", "facts", DEFAULT_TASK]}}
    stored = {doc["_id"]: doc for doc in await rows(base.meta.find(query))}
    known = stored.get("layout", {"version": 1})
    if known.get("version") not in range(1, LAYOUT + 1):
        raise StoreError(
            f"{where} has documents of layout {known.get('version')!r}, and this release knows"
            f" {LAYOUT}; use the newest mulligan everywhere, or another database"
        )
    if read_only:
        return stored
    if known["version"] < LAYOUT:
        said = {"$max": {"version": LAYOUT}}
        await base.meta.update_one({"_id": "layout"}, said, upsert=True)
    await part_lanes(base, stored.get("facts", {}))
    return stored


async def part_lanes(base: Base, facts: Doc) -> None:
    """Give each lane a document of its own: in layout 1 one list held all, for claims to read.

    A process that still runs on that layout may have added some since: its list only grows.
    """
    while lines := facts.get("lines"):
        await enter(base.meta, lines)
        as_read = {"_id": "facts", "lines": {"$size": len(lines)}}
        await base.meta.update_one(as_read, {"$unset": {"lines": ""}})
        facts = await base.facts_document()


def wanted(base: Base) -> list[tuple[Collection, tuple[IndexModel, ...]]]:
    """The indexes of each collection that has some."""
    dead = [(base.dlq, DEAD_INDEXES)] if base.address.move_dead else []
    others = [(base.arrivals, ARRIVAL_INDEXES), (base.counts, COUNT_INDEXES)]
    return [(base.tasks, INDEXES), *dead, *others]


async def ensure(collection: Collection, indexes: tuple[IndexModel, ...]) -> None:
    """Create what is missing and drop what is obsolete; another process may be doing the same."""
    for left in reversed(range(TRIES)):
        there = await names_of(collection)
        try:
            if missing := not_among(there, indexes):
                await collection.create_indexes(missing)
            break
        except OperationFailure:
            if not left:
                raise
    for name in there.intersection(OBSOLETE):
        with suppress(OperationFailure):
            await collection.drop_index(name)


async def missing_from(collection: Collection, indexes: tuple[IndexModel, ...]) -> list[IndexModel]:
    """Those of the indexes that the collection lacks."""
    return not_among(await names_of(collection), indexes)


def not_among(there: set[str], indexes: tuple[IndexModel, ...]) -> list[IndexModel]:
    """Those of the indexes that are not there."""
    return [each for each in indexes if each.document["name"] not in there]


async def names_of(collection: Collection) -> set[str]:
    """The names of the indexes that the collection has."""
    try:
        return {str(each["name"]) async for each in await collection.list_indexes()}
    except OperationFailure:  # the collection does not exist yet
        return set()
