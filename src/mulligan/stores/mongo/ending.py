"""How a job ends, whoever ends it."""

from mulligan.stores.mongo.base import Change, Doc
from mulligan.stores.mongo.documents import NEXT_TOKEN
from mulligan.stores.mongo.times import date
from mulligan.stores.mongo.unique import LET_GO


def ended(status: str, now: int, reason: str | None = None) -> Doc:
    """The fields of a job that has ended."""
    fields: Doc = {
        "status": status,
        "updated_at": date(now),
        "next_retry_at": None,
        "mulligan.ended": now,
        "mulligan.worker": None,
        "mulligan.held": False,
        "mulligan.permits": [],
    }
    if reason is not None:
        fields["mulligan.cancel_reason"] = reason
    return fields


def cancelled(doc: Doc, reason: str, now: int) -> Change:
    """The write that ends a job that has not ended; its token is spent."""
    match = {"status": doc["status"]}
    fields = ended("cancelled", now, reason)
    update = {"$set": fields, "$inc": NEXT_TOKEN, "$unset": LET_GO}
    return Change(doc["_id"], match, update, doc["mulligan"]["token"])
