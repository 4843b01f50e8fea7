"""The indexes, each for one question that is asked often."""

from typing import Any

from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.errors import OperationFailure

from mulligan.stores.mongo.base import Collection

TRIES = 5


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

INDEXES = (
    index("status_created", "status", "created_at"),
    index("next_retry", "next_retry_at"),
    index("status_updated", "status", "updated_at"),
    index("line", "status", "mulligan.line", "mulligan.due", "mulligan.sequence"),
    index("place", "-mulligan.place"),
    index(
        "unique_key",
        "mulligan.queue",
        "mulligan.unique_key",
        unique=True,
        partialFilterExpression=UNENDED,
    ),
    index("concurrency_key", "mulligan.key", "status", **only_with("mulligan.key")),
    index("outbox", "mulligan.outbox.stamp", **only_with("mulligan.outbox.stamp")),
    index("expires", "mulligan.expires", **only_with("mulligan.expires")),
)
DEAD_INDEXES = (index("place", "-mulligan.place"),)


async def ensure(collection: Collection, wanted: tuple[IndexModel, ...]) -> None:
    """Create what is missing; another process may be doing the same."""
    for left in reversed(range(TRIES)):
        there = await names(collection)
        missing = [each for each in wanted if each.document["name"] not in there]
        if not missing:
            return
        try:
            await collection.create_indexes(missing)
        except OperationFailure:
            if not left:
                raise


async def names(collection: Collection) -> set[str]:
    """The names of the indexes that are there."""
    try:
        return {str(each["name"]) async for each in await collection.list_indexes()}
    except OperationFailure:  # the collection does not exist yet
        return set()
