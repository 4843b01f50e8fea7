"""What an operator does to documents that mulligan has not taken in, or can no longer read."""

from pymongo.errors import DuplicateKeyError

from mulligan.core.job import ENDED
from mulligan.stores.mongo.base import Base, Doc
from mulligan.stores.mongo.codec import TO_WRITE
from mulligan.stores.mongo.documents import is_known
from mulligan.stores.mongo.soundness import damage_in
from mulligan.stores.mongo.times import date


def is_plain(doc: Doc) -> bool:
    """Whether the document has no private fields that mulligan could use."""
    return not is_known(doc) or damage_in(doc) is not None


async def replay(base: Base, doc: Doc, now: int) -> bool:
    """Make a failed document pending again; a worker will read it anew."""
    fields: Doc = {"status": "pending", "updated_at": date(now), "attempts": 0}
    fields["next_retry_at"] = None
    query = {"_id": {"$eq": doc["_id"]}, "status": "failed"}
    if (await base.tasks.update_one(query, {"$set": fields})).modified_count:
        return True
    dlq = base.dlq.with_options(TO_WRITE)
    letter = await dlq.find_one(query) if base.address.move_dead else None
    if letter is None:
        return False
    try:
        await base.tasks.insert_one(letter | fields)
    except DuplicateKeyError:
        return False
    await dlq.delete_one(query)
    return True


async def cancel(base: Base, doc: Doc, reason: str, now: int) -> bool:
    """End a document that is pending, or that another program holds."""
    fields: Doc = {"status": "cancelled", "updated_at": date(now)}
    if isinstance(doc.get("mulligan", {}), dict):
        fields["mulligan.cancel_reason"] = reason
    query = {"_id": {"$eq": doc["_id"]}, "status": doc["status"]}
    return bool((await base.tasks.update_one(query, {"$set": fields})).modified_count)


async def purge(base: Base, doc: Doc) -> bool:
    """Delete a document that has ended."""
    query = {"_id": {"$eq": doc["_id"]}, "status": {"$in": sorted(ENDED)}}
    replies = [await place.delete_one(query) for place in base.places]
    return any(reply.deleted_count for reply in replies)
