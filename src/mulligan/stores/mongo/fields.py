"""The table of fields as this store spells it: documents from jobs, and jobs from documents.

A field lies among the private ones under its own name, unless a line here says otherwise. So a
new plain field of `core/fields.py` is stored, claimed, shown and adopted without a line here.
"""

from operator import attrgetter, itemgetter
from typing import Any

import msgspec
from bson import Code
from msgspec import UNSET

from mulligan.core.fields import CLAIM, FIELDS, JOB, NEW_JOB
from mulligan.core.gather import results_of
from mulligan.core.job import Adopted, Claim, Job, NewJob, adopted_token
from mulligan.core.lines import line_of
from mulligan.stores.mongo.document import (
    ARRIVAL,
    Doc,
    awaiting,
    date,
    ended_of,
    failure_fields,
    held_by_us,
    is_time,
    key_name,
    micros,
    never_claimed,
    of_date,
    public_date,
    seconds,
    standing,
    untouched,
    updated_of,
)
from mulligan.stores.mongo.events import joining
from mulligan.stores.mongo.payload import public_of

# How many members of a gathering job have arrived, failed, and been cancelled.
Members = tuple[int, int, int]
# What a value is in a document that no other program has changed.
TYPES: dict[str, type] = {"text": str, "integer": int, "flag": bool, "bytes": bytes, "time": int}
# These lie in public fields: `_id`, `status`, `attempts` and `error`. A duration is never stored.
PUBLIC = ("id", "status", "retry_count", "last_failure_reason")
PRIVATE = tuple(f for f in FIELDS if f.name not in PUBLIC and f.kind != "seconds" and f.kept)

ENQUEUED = [field for field in PRIVATE if NEW_JOB in field.carriers]
# Fields of a new job that every document has, with their defaults, and those that only some say.
ALWAYS = tuple(field.name for field in ENQUEUED if not field.option)
DEFAULTS = {f.name: f.default for f in ENQUEUED if f.name in ALWAYS and f.default is not UNSET}
SAID = tuple(field.name for field in ENQUEUED if field.option and field.name != "awaits")
NOTHING_SAID = tuple(field.default for field in ENQUEUED if field.name in SAID)
always_of, said_of = attrgetter(*ALWAYS), attrgetter(*SAID)

CLAIM_DEFAULTS = {
    f.name: f.default
    for f in PRIVATE
    if CLAIM in f.carriers and f.default is not UNSET and f.name not in ALWAYS
}
values_of_claim = itemgetter(*Claim.__struct_fields__)
# Fields of a job that depend on more than what is stored under their name.
COMPUTED = (
    *("due", "worker", "worker_region", "started_at"),
    *("created_at", "waits_for", "ended_at", "awaits", "members_failed", "members_cancelled"),
)
PLAIN = tuple(f for f in PRIVATE if JOB in f.carriers and f.name not in COMPUTED)
# What an invalid document shows of the fields that every job has.
BLANK = {"text": "", "integer": 0, "bytes": b"", "time": 0.0}
EVERY = [each.name for each in msgspec.structs.fields(Job) if each.required]
BLANKS: Doc = {field.name: BLANK[field.kind] for field in FIELDS if field.name in EVERY}
# An adopted job stands anew: it has no worker and a new token, and it has not ended well.
NOT_ADOPTED = (
    *("scope", "lane_priority", "due", "sequence", "waits_for", "token", "worker", "worker_region"),
    *("ended_at", "result", "cancel_reason"),
)
ADOPTED = tuple(
    field
    for field in PRIVATE
    if JOB in field.carriers and NEW_JOB not in field.carriers and field.name not in NOT_ADOPTED
)
ENQUEUED_ANEW = [f.name for f in FIELDS if (NEW_JOB | JOB) in f.carriers and f.name != "awaits"]


# -- documents from jobs -------------------------------------------------------------------


def new_document(new: NewJob, now: int, sequence: int) -> Doc:
    """The document of a job that is enqueued now."""
    due = micros(seconds(now) + new.delay) if new.delay and not new.awaits else now
    at = date(now)
    line = line_of(new.lane, new.fairness_key, new.limits)
    private: Doc = {
        **dict(zip(ALWAYS, always_of(new), strict=True)),
        "priority": int(new.priority),
        "created_at": now,
        "updated_at": at,
        **never_claimed(sequence),
        **standing(new.lane, due, sequence, delayed=due > now, line=line),
        **options_of(new, now),
    }
    if line is not None and not new.awaits:
        private["unbooked"] = [joining(new.id, line, now).field]
    payload, policy = public_of(new.task, new.body)
    return {
        "_id": new.id,
        "payload": payload,
        "status": "pending",
        "created_at": at,
        "updated_at": at,
        "attempts": 0,
        "next_retry_at": public_date(private),
        "backoff_policy": policy,
        "error": None,
        "mulligan": private,
    }


def options_of(new: NewJob, now: int) -> Doc:
    """The private fields that most jobs do without."""
    fields: Doc = {}
    said = said_of(new)
    if said != NOTHING_SAID:
        each = zip(SAID, said, NOTHING_SAID, strict=True)
        fields = {name: value for name, value, default in each if value != default}
        if new.unique_key is not None:
            fields["unique_queue"] = new.key_queue
            fields["kept_key"] = key_name(new.key_queue, new.unique_key)
        if new.gather:
            fields["owes"] = ARRIVAL
    for name, length in (
        ("expires_at", new.expires),
        ("debounce_until", new.debounce_max),
        ("unique_until", new.unique_for),
    ):
        if length is not None:
            fields[name] = micros(seconds(now) + length)
    return fields | awaiting(new.awaits) if new.awaits else fields


def adopted_document(each: Adopted, now: int, number: int) -> Doc:
    """The document of a job that comes from another store, as it stands there."""
    job = each.job
    doc = new_document(NewJob(**{n: getattr(job, n) for n in ENQUEUED_ANEW}), now, number)
    due = micros(seconds(now) + (job.due - seconds(now)))
    private = doc["mulligan"]
    line = line_of(job.lane, job.fairness_key, job.limits)
    private |= standing(job.lane, due, number, delayed=due > now, line=line)
    if job.awaits:
        arrived = len(results_of(each.arrived))
        private |= awaiting(job.awaits + arrived, arrived)
    elif each.arrived:
        private["awaits"] = 0
    private["token"] = private["uncommitted"] = adopted_token(number, job.token)
    for field in ADOPTED:
        value = getattr(job, field.name)
        if value != field.default:
            private[field.name] = micros(value) if field.kind == "time" else value
    doc |= {
        "attempts": job.retry_count,
        "created_at": date(micros(job.created_at)),
        "next_retry_at": public_date(private),
    }
    entries = [failure_fields(entry, micros(entry.ended_at or 0.0)) for entry in each.history]
    if entries:
        doc["error"] = entries[-1][0]
        private["history"] = [entry for _, entry in entries]
    if job.status == "failed":
        doc |= {"status": "failed", "next_retry_at": None}
        private["ended_at"] = now if job.ended_at is None else micros(job.ended_at)
        private.pop("kept_key", None)
        private.pop("unbooked", None)
    return doc


# -- jobs from documents -------------------------------------------------------------------


def claim_of(doc: Doc) -> Claim:
    """The claim that the document stands for."""
    private = doc["mulligan"]
    values = {
        **CLAIM_DEFAULTS,
        **private,
        "id": str(doc["_id"]),
        "due": seconds(private["due"]),
        "retry_count": int(doc.get("attempts") or 0),
        "worker": private.get("worker") or "",
        "worker_region": private.get("worker_region") or private["region"],
        "started_at": seconds(private.get("started_at") or 0),
    }
    return Claim(*values_of_claim(values))


def whole_job(doc: Doc, members: Members | None, waits_for: str | None = None) -> Job:
    """The job as readers see it; raises what reading an invalid document does.

    `members` are how many have arrived at it, and how many of all have failed or were cancelled,
    while it awaits some; `waits_for` is the limit that its line waits for.
    """
    private = doc["mulligan"]
    if members is None:
        members = (0, *(private.get(f"members_{how}", 0) for how in ("failed", "cancelled")))
    arrived, failed, cancelled = members
    processing = doc["status"] == "processing"
    ours = held_by_us(doc)
    started = private.get("started_at") if ours or not processing else updated_of(doc)
    ended_at = ended_of(doc)
    return Job(
        id=str(doc["_id"]),
        status=doc["status"],
        due=seconds(due_of(doc)),
        retry_count=int(doc.get("attempts") or 0),
        created_at=seconds(finer(private.get("created_at"), doc.get("created_at"))),
        waits_for=waits_for,
        worker=private.get("worker") if ours else None,
        worker_region=private.get("worker_region") if ours or not processing else None,
        started_at=seconds(started) if is_time(started) else None,
        ended_at=seconds(ended_at) if is_time(ended_at) else None,
        last_failure_reason=failure_of(doc),
        awaits=max(0, private.get("awaits", 0) - arrived),
        members_failed=failed,
        members_cancelled=cancelled,
        **plain_fields(private),
    )


def plain_fields(private: Doc) -> Doc:
    """The fields of a job that are what is stored under their name.

    A value of another type was put there by another program, and is left out where a job may do
    without the field.
    """
    found: Doc = {}
    for field in PLAIN:
        value = private.get(field.name)
        if type(value) is Code:  # a text that cannot be sent as one
            value = str(value)
        if field.default is UNSET or field.name in ALWAYS:
            found[field.name] = value if value is not None else private[field.name]
            continue
        if field.kind == "time":
            if is_time(value):
                found[field.name] = seconds(value)
        elif isinstance(value, TYPES[field.kind]):
            found[field.name] = value
    return found


def invalid_job(doc: Doc, reason: str) -> Job:
    """All that can be shown of a job whose document is invalid."""
    shown = {"id": str(doc["_id"]), "status": doc["status"]}
    return Job(**(BLANKS | shown), last_failure_reason=failure_of(doc) or reason)


def due_of(doc: Doc) -> int:
    """When a job falls due; where another program changed the date, the date is right."""
    private = doc["mulligan"]
    at = doc.get("next_retry_at")
    if doc["status"] != "pending" or untouched(doc) or at is None:
        return int(private["due"])
    return of_date(at)


def failure_of(doc: Doc) -> str | None:
    """The last failure in words, with its type where mulligan wrote it."""
    error = doc.get("error")
    if not isinstance(error, dict) or (message := error.get("message")) is None:
        return None
    kind = error.get("type")
    return f"{kind}: {message}" if kind and isinstance(kind, str) else str(message)


def finer(private: Any, public: Any) -> int:
    """The private microseconds, unless the public date has moved away from them."""
    if private is not None and (public is None or date(private) == public):
        return int(private)
    return of_date(public)
