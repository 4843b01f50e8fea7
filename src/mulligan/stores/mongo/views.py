"""Documents as a worker claims them and as readers see them."""

from datetime import datetime
from typing import Any

from mulligan.core.damage import DAMAGE
from mulligan.core.job import Claim, Job
from mulligan.stores.mongo.base import Doc
from mulligan.stores.mongo.documents import held_by_us, is_known, private_of, untouched
from mulligan.stores.mongo.foreign import MalformedError, NoTaskError, private_fields
from mulligan.stores.mongo.soundness import damage_in
from mulligan.stores.mongo.times import date, is_time, of_date, seconds


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


def job_of(doc: Doc, default_task: str | None, now: int, arrived: int = 0) -> Job:
    """The job as readers see it, when so many have arrived at it.

    One that mulligan has never seen is shown as it will be when a worker takes it in. One that is
    damaged or malformed is shown as far as it goes: that it is there, and how it ended.
    """
    try:
        damage = damage_in(doc) if is_known(doc) else None
        if damage is None:
            return whole_job(as_taken_in(doc, default_task, now), arrived)
    except NoTaskError:
        damage = "payload.task is missing, and there is no default task"
    except (*DAMAGE, MalformedError) as error:
        damage = str(error)
    said = f"what is stored of the job cannot be read ({damage})"
    return Job(
        str(doc["_id"]), "", "", "", 0, doc["status"], "", 0, 0.0, 0, 0, 0, 0, 0, 0.0, b"",
        last_failure_reason=failure_of(doc) or said,
    )  # fmt: skip


def as_taken_in(doc: Doc, default_task: str | None, now: int) -> Doc:
    """The document with the private fields that mulligan would give it."""
    if is_known(doc):
        return doc
    private = private_fields(doc, default_task, now, 0)
    return doc | {"mulligan": private_of(doc) | private}


def failure_of(doc: Doc) -> str | None:
    """The last failure in words; its type is known if it is one of mulligan's own."""
    error = doc.get("error")
    if not isinstance(error, dict) or (message := error.get("message")) is None:
        return None
    kind = text_or_none(error.get("type"))
    return f"{kind}: {message}" if kind else str(message)


def whole_job(doc: Doc, arrived: int) -> Job:
    """The job as readers see it; raises what taking apart a damaged document does."""
    private = doc["mulligan"]
    processing = doc["status"] == "processing"
    ours = held_by_us(doc)
    started = private.get("started") if ours or not processing else updated_of(doc)
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
        expires_at=time_or_none(private.get("expires")),
        worker=private.get("worker") if ours else None,
        worker_region=private.get("worker_region") if ours or not processing else None,
        started_at=time_or_none(started),
        last_retry_at=time_or_none(private.get("last_retry")),
        ended_at=time_or_none(ended_of(doc)),
        result=bytes_or_none(private.get("result")),
        last_failure_reason=failure_of(doc),
        cancel_reason=text_or_none(private.get("cancel_reason")),
        trail=private.get("trail") or "",
        unique_in=text_or_none(private.get("unique_in")),
        awaits=max(0, private.get("awaits", 0) - arrived),
        gather=private.get("gather"),
        gather_index=private.get("gather_index", 0),
    )


def updated_of(doc: Doc) -> int | None:
    """When somebody last changed the document, as far as it says."""
    updated = doc.get("updated_at")
    return of_date(updated) if isinstance(updated, datetime) else None


def ended_of(doc: Doc) -> int | None:
    """When it ended; by `updated_at` where another program ended it."""
    if doc["status"] in ("pending", "processing"):
        return None
    ended = private_of(doc).get("ended")
    return ended if is_time(ended) else updated_of(doc)


def finer(private: int | None, public: Any) -> int:
    """The private microseconds, unless the public date has moved away from them."""
    if private is not None and (public is None or date(private) == public):
        return private
    return of_date(public)


def time_or_none(value: Any) -> float | None:
    """Microseconds as seconds, unless another program has put something else there."""
    return seconds(value) if is_time(value) else None


def bytes_or_none(value: Any) -> bytes | None:
    """A result, unless another program has put something else there."""
    return value if isinstance(value, bytes) else None


def text_or_none(value: Any) -> str | None:
    """A text, unless another program has put something else there."""
    return value if isinstance(value, str) else None


def place_of(doc: Doc) -> int:
    """The job's number; the first of all where another program has put something else."""
    place = private_of(doc).get("place")
    return place if isinstance(place, int) else 0
