"""Documents as a worker claims them and as readers see them."""

from typing import Any

from mulligan.core.damage import DAMAGE
from mulligan.core.job import Claim, Job
from mulligan.stores.mongo.base import Doc
from mulligan.stores.mongo.documents import untouched
from mulligan.stores.mongo.soundness import damage_in
from mulligan.stores.mongo.times import date, of_date, seconds


def due_of(doc: Doc) -> int:
    """When a job falls due; where another program changed the date, the date is right."""
    private = doc["mulligan"]
    at = doc.get("next_retry_at")
    if doc["status"] != "pending" or untouched(doc) or at is None:
        return int(private["due"])
    return of_date(at)


def claim_of(doc: Doc) -> Claim:
    """The claim that the document stands for."""
    private = doc["mulligan"]
    return Claim(
        str(doc["_id"]),
        private["token"],
        private["queue"],
        private["task"],
        private["body"],
        private["region"],
        private["priority"],
        private["scope"],
        private["lane_priority"],
        seconds(private["due"]),
        int(doc.get("attempts") or 0),
        private["replay"],
        private["snoozes"],
        private.get("worker") or "",
        private.get("worker_region") or private["region"],
        seconds(private.get("started") or 0),
        private.get("trail", ""),
    )


def job_of(doc: Doc, arrived: int = 0) -> Job:
    """The job as readers see it, when so many have arrived at it.

    A damaged one is shown as far as it goes: that it is there, and how it ended.
    """
    try:
        damage = damage_in(doc)
        if damage is None:
            return whole_job(doc, arrived)
    except DAMAGE as error:
        damage = str(error)
    return Job(
        str(doc["_id"]), "", "", "", 0, doc["status"], "", 0, 0.0, 0, 0, 0, 0, 0, 0.0, b"",
        last_failure_reason=f"what is stored of the job cannot be read ({damage})",
    )  # fmt: skip


def whole_job(doc: Doc, arrived: int) -> Job:
    """The job as readers see it; raises what taking apart a damaged document does."""
    private = doc["mulligan"]
    error = doc.get("error")
    return Job(
        id=str(doc["_id"]),
        queue=private["queue"],
        task=private["task"],
        region=private["region"],
        priority=private["priority"],
        status=doc["status"],
        scope=private["scope"],
        lane_priority=private["lane_priority"],
        due=seconds(due_of(doc)),
        sequence=private["sequence"],
        token=private["token"],
        retry_count=int(doc.get("attempts") or 0),
        replay=private["replay"],
        snoozes=private["snoozes"],
        created_at=seconds(finer(private.get("created"), doc.get("created_at"))),
        body=private["body"],
        unique_key=private.get("unique_key"),
        concurrency_key=private.get("key"),
        concurrency_limit=private.get("key_limit", 1),
        held=doc["status"] == "pending" and bool(private.get("held")),
        expires_at=or_none(private.get("expires")),
        worker=private.get("worker") if doc["status"] == "processing" else None,
        worker_region=private.get("worker_region"),
        started_at=or_none(private.get("started")),
        last_retry_at=or_none(private.get("last_retry")),
        ended_at=or_none(ended_of(doc)),
        result=private.get("result"),
        last_failure_reason=str(error["message"]) if isinstance(error, dict) else None,
        cancel_reason=private.get("cancel_reason"),
        trail=private.get("trail", ""),
        unique_in=private.get("unique_in"),
        awaits=max(0, private.get("awaits", 0) - arrived),
        gather=private.get("gather"),
        place=private.get("gather_place", 0),
    )


def ended_of(doc: Doc) -> int | None:
    """When it ended; by `updated_at` where another program ended it."""
    if doc["status"] in ("pending", "processing"):
        return None
    ended = doc["mulligan"].get("ended")
    if ended is None and doc.get("updated_at") is not None:
        return of_date(doc["updated_at"])
    return None if ended is None else int(ended)


def finer(private: int | None, public: Any) -> int:
    """The private microseconds, unless the public date has moved away from them."""
    if private is not None and (public is None or date(private) == public):
        return private
    return of_date(public)


def or_none(at: int | None) -> float | None:
    """Microseconds as seconds, where there are any."""
    return None if at is None else seconds(at)
