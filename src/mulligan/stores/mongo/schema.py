"""The layout of the documents, and the indexes, each for one question that is often asked."""

from collections.abc import Mapping, Sequence
from typing import Any

from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.errors import NetworkTimeout, OperationFailure

from mulligan.core.errors import StoreError
from mulligan.stores.mongo.connection import DEFAULT_TASK, Collection, Connection, rows
from mulligan.stores.mongo.document import KEPT_KEY, Doc
from mulligan.stores.mongo.inbox import STRAY
from mulligan.stores.mongo.page import IN_A_LIST

TRIES = 5
LAYOUT = 1


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
    index("odd_number", "-status", partialFilterExpression={"mulligan.number": IN_A_LIST}),
)
# No two of a collection are on the same fields: before MongoDB 5 filters do not tell them apart.
INDEXES = (
    # The names that MongoDB gives by itself: a program that creates the same ones finds them there.
    index("status_1_created_at_1", "status", "created_at"),
    index("next_retry_at_1", "next_retry_at"),
    index("status_1_updated_at_1", "status", "updated_at"),
    index(
        "pending",
        "mulligan.lane",
        "mulligan.due",
        "mulligan.sequence",
        partialFilterExpression={"status": "pending"},
    ),
    index("strays", "next_retry_at", "status", partialFilterExpression=STRAY),
    index("number", "-mulligan.number"),
    index(
        "unique_key",
        "mulligan.unique_queue",
        "mulligan.unique_key",
        unique=True,
        partialFilterExpression=UNENDED,
    ),
    index("kept_key", KEPT_KEY, unique=True, **only_with(KEPT_KEY)),
    index("unbooked", "mulligan.unbooked.id", **only_with("mulligan.unbooked.id")),
    index("outbox", "mulligan.outbox.stamp", **only_with("mulligan.outbox.stamp")),
    index("owes", "mulligan.owes", "status", **only_with("mulligan.owes")),
    index("expires", "mulligan.expires_at", **only_with("mulligan.expires_at")),
    index("keep", "mulligan.keep_until", **only_with("mulligan.keep_until")),
    *ODD,
)
DEAD_INDEXES = (
    index("number", "-mulligan.number"),
    index("owes", "mulligan.owes", "status", **only_with("mulligan.owes")),
    *ODD,
)
LINE_INDEXES = (
    index("later", "lane", "stage", "due", "sequence", **only_with("stage")),
    index("ready", "lane", "stage", "key", "due", "sequence", **only_with("stage")),
    index(
        "waiting",
        *("waits_for", "lane", "turn", "due", "sequence"),
        partialFilterExpression={"waits_for": {"$gt": ""}},
    ),
    index("turns", "turns", "round", "ready", "turn", "due", "sequence", **only_with("turns")),
    index("alarms", "alarm_lane", "at", **only_with("alarm_lane")),
    index("states", "state", **only_with("state")),
    index("limits", "limit_name", **only_with("limit_name")),
    index("gone", "gone", **only_with("gone")),
)
ARRIVAL_INDEXES = (index("of", "of", "index"),)
RECORD_INDEXES = (index("of", "of", "token", "number"),)
COUNT_INDEXES = (index("start", "start", **only_with("start")),)


async def check_layout(connection: Connection, *, read_only: bool = False) -> dict[str, Doc]:
    """Refuse documents of another layout; mark the collection with this one where it is new.

    Who only reads marks nothing. Returns what is stored of layout, facts and default task.
    """
    query = {"_id": {"$in": ["layout", "facts", DEFAULT_TASK]}}
    stored = {doc["_id"]: doc for doc in await rows(connection.meta.find(query))}
    if "layout" not in stored:
        if not read_only:
            said = {"$setOnInsert": {"version": LAYOUT}}
            await connection.meta.update_one({"_id": "layout"}, said, upsert=True)
    elif (version := stored["layout"].get("version")) != LAYOUT:
        raise StoreError(
            f"{connection.url.where} has documents of layout {version!r}, and this release knows"
            f" {LAYOUT}; use the same release of mulligan everywhere, or another database"
        )
    return stored


def wanted(connection: Connection) -> list[tuple[Collection, tuple[IndexModel, ...]]]:
    """The indexes of each collection that has some."""
    dead = [(connection.dlq, DEAD_INDEXES)] if connection.url.move_dead else []
    others = [
        (connection.lines, LINE_INDEXES),
        (connection.arrivals, ARRIVAL_INDEXES),
        (connection.records, RECORD_INDEXES),
        (connection.counts, COUNT_INDEXES),
    ]
    return [(connection.tasks, INDEXES), *dead, *others]


async def ensure(collection: Collection, indexes: tuple[IndexModel, ...]) -> None:
    """Create the indexes that are missing; another process may be doing the same.

    For a large collection the server may take longer than an answer may: it is asked until it has.
    """
    left = TRIES
    while missing := missing_from(there := await indexes_of(collection), indexes):
        taken = {each["name"] for each in there}
        try:
            await collection.create_indexes([with_free_name(each, taken) for each in missing])
            break
        except NetworkTimeout:
            continue
        except OperationFailure:
            left -= 1
            if not left:
                raise


def with_free_name(wanted: IndexModel, taken: set[str]) -> IndexModel:
    """The index, under a longer name where another program has an index of this name."""
    document = wanted.document
    if document["name"] not in taken:
        return wanted
    options = {name: value for name, value in document.items() if name not in ("name", "key")}
    return IndexModel(document["key"], name=f"mulligan_{document['name']}", **options)


def missing_from(there: Sequence[Doc], indexes: tuple[IndexModel, ...]) -> list[IndexModel]:
    """Return the indexes that are not among these, whoever created those and named them."""
    present = [identity(each) for each in there]
    return [each for each in indexes if identity(each.document) not in present]


def identity(index: Mapping[str, Any]) -> tuple[list[tuple[str, Any]], bool, Any]:
    """Return what an index answers and forbids: its fields, its uniqueness and its filter."""
    fields = list(index["key"].items())
    return fields, bool(index.get("unique")), index.get("partialFilterExpression")


async def indexes_of(collection: Collection) -> list[Doc]:
    """Return the indexes that the collection has."""
    try:
        return [dict(each) async for each in await collection.list_indexes()]
    except OperationFailure:  # the collection does not exist yet
        return []
