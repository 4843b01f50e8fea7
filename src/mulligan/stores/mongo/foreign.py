"""Documents that other programs insert or put back: how they become jobs, or are set aside."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from bson import Decimal128, ObjectId

from mulligan.core.backoff import JITTERS, Exponential
from mulligan.core.errors import InvalidError
from mulligan.core.job import encode, first_token
from mulligan.core.lane import ANYWHERE, Lane, Priority
from mulligan.core.names import check_name
from mulligan.core.retry import Retry
from mulligan.stores.mongo.base import Base, Change, Doc, rows
from mulligan.stores.mongo.documents import AWAITING, NEVER, NEXT_TOKEN, standing
from mulligan.stores.mongo.soundness import damage_in
from mulligan.stores.mongo.times import date, of_date

QUEUE = REGION = "default"
MAX_RETRIES = 10
BASE, FACTOR, MAX, JITTER = 5.0, 2.0, 1800.0, "full"
STATUSES = ("pending", "processing", "done", "failed", "cancelled")
STRAY = {"status": "pending", "mulligan.line": None}
# A page of strays: a claim that meets more takes in the others with the next one.
STRAYS = 500


class MalformedError(Exception):
    """The document cannot be a job; the message is the reason that it is given."""


async def strays(base: Base) -> list[Doc]:
    """Pending documents that stand in no lane: inserted or put back by another program."""
    return await rows(base.tasks.find(STRAY).limit(STRAYS))


async def take_in(base: Base, docs: Sequence[Doc], now: int) -> list[tuple[str, int]]:
    """Give each document its place; returns (line, due) of those that now stand in a lane.

    A document that cannot be a job becomes a dead letter with the reason, and holds up nothing.
    """
    if not docs:
        return []
    ordered = sorted(docs, key=lambda doc: (str(doc.get("created_at")), str(doc["_id"])))
    number = await base.numbers(len(ordered))
    changes, joined = [], {}
    for at, doc in enumerate(ordered, number):
        try:
            fields = private_fields(doc, base.address.default_task, now, at)
        except (MalformedError, InvalidError) as reason:
            changes.append(set_aside(doc, str(reason), now, at))
            continue
        stand = fields.get("mulligan") or {k[9:]: v for k, v in fields.items()}
        if doc["status"] == "pending" and stand["line"] != AWAITING:
            joined[doc["_id"]] = (stand["line"], stand["due"])
        changes.append(Change(doc["_id"], as_read(doc), {"$set": fields}))
    await base.know(line for line, _ in joined.values())
    written = await base.apply(changes)
    return [where for key, where in joined.items() if key in written]


def as_read(doc: Doc) -> Doc:
    """What must still hold when a document that was read is written."""
    before = doc.get("mulligan")
    return {
        "status": doc.get("status"),
        "next_retry_at": doc.get("next_retry_at"),
        "mulligan.token": before.get("token") if isinstance(before, dict) else None,
    }


def private_fields(doc: Doc, default_task: str | None, now: int, number: int) -> Doc:
    """The private fields that the document lacks or that another program has outdated."""
    before = doc.get("mulligan")
    known = isinstance(before, dict) and "body" in before
    if known and (damage := damage_in(doc)):
        raise MalformedError(damage)
    private: Doc = (
        before
        if known and isinstance(before, dict)
        else first_fields(doc, default_task, now, number)
    )
    attempts = count_of(doc, "attempts")
    due, delayed = due_from(doc, private, now, known=known)
    stand = standing(lane_for(private, attempts), due, number, delayed=delayed)
    if private.get("awaits"):
        stand["line"] = AWAITING
    if doc["status"] != "pending":
        stand.pop("line")
    if not known:
        fields: Doc = {"mulligan": private | stand}
    else:
        fields = {f"mulligan.{name}": value for name, value in stand.items()}
        # It may have been ours when the other program put it back: that lease is over.
        fields["mulligan.worker"] = None
        fields |= {name: private.get(name[9:], 0) + 1 for name in NEXT_TOKEN}
        if private.get("awaits"):
            fields["next_retry_at"] = NEVER
    for name, value in (("attempts", 0), ("next_retry_at", None), ("error", None)):
        if name not in doc:
            fields[name] = value
    for name in ("created_at", "updated_at"):
        if doc.get(name) is None:
            fields[name] = date(private.get("created", now))
    return fields


def first_fields(doc: Doc, default_task: str | None, now: int, number: int) -> Doc:
    """The private fields of a document that mulligan has never seen."""
    if not isinstance(doc["_id"], str | ObjectId):
        raise MalformedError(f"_id is a {type(doc['_id']).__name__}; use text or an ObjectId")
    if doc.get("status") not in STATUSES:
        raise MalformedError(f"status {doc.get('status')!r} is not one of {', '.join(STATUSES)}")
    task, body = body_of(doc, default_task)
    created = date_of(doc, "created_at")
    return {
        "queue": QUEUE,
        "region": REGION,
        "task": task,
        "priority": 0,
        "body": body,
        "place": number,
        "created": min(created, now) if created is not None else now,
        "token": first_token(number),
        "since": first_token(number),
        "replay": 0,
        "snoozes": 0,
        "worker": None,
        "permits": [],
    }


def due_from(doc: Doc, private: Doc, now: int, *, known: bool) -> tuple[int, bool]:
    """When the document falls due: by its date, or by its age where it has none."""
    at = date_of(doc, "next_retry_at")
    if at is not None:
        return at, True
    if not known:
        return int(private["created"]), False
    returned = date_of(doc, "updated_at")
    return (now if returned is None else min(returned, now)), False


def lane_for(private: Doc, attempts: int) -> Lane:
    """Fresh work stands in its region's line; what has failed is anyone's."""
    if not attempts:
        return Lane(private["queue"], private["region"], private["priority"])
    urgent = private["priority"] == Priority.URGENT
    return Lane(private["queue"], ANYWHERE, Priority.URGENT_RETRY if urgent else Priority.RETRY)


def body_of(doc: Doc, default_task: str | None) -> tuple[str, bytes]:
    """The task and the body that the payload and the policy stand for."""
    payload = doc.get("payload")
    task = payload.get("task", default_task) if isinstance(payload, dict) else default_task
    if task is None:
        raise MalformedError(
            "payload.task is missing, and the store has no default task; give ?default_task="
        )
    task = check_name("payload.task", task)
    args, kwargs = call_of(payload)
    body = {"task": task, "args": args, "kwargs": kwargs, "retry": retry_of(doc)}
    try:
        return task, msgspec.json.encode(body, enc_hook=as_text)
    except (TypeError, ValueError, RecursionError) as error:
        raise MalformedError(f"payload cannot be JSON: {error}") from error


def call_of(payload: Any) -> tuple[list[Any], dict[str, Any]]:
    """The arguments: `args` and `kwargs` if there are any, else the payload as it is."""
    if payload is None:
        return [], {}
    if not isinstance(payload, dict):
        return [payload], {}
    if not ({"args", "kwargs"} & payload.keys()):
        if isinstance(payload.get("json"), str) and set(payload) == {"task", "json"}:
            return call_of(msgspec.json.decode(payload["json"]))
        return ([payload], {}) if payload.keys() - {"task"} else ([], {})
    args, kwargs = payload.get("args") or [], payload.get("kwargs") or {}
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise MalformedError("payload.args must be a list and payload.kwargs a document")
    return args, kwargs


def retry_of(doc: Doc) -> Retry:
    """The policy: what is missing means 5, 2.0, 1800, full and ten retries."""
    policy = doc.get("backoff_policy")
    if policy is None:
        policy = {}
    if not isinstance(policy, dict):
        raise MalformedError("backoff_policy must be a document")
    jitter = policy.get("jitter", JITTER)
    most = number_of(policy, "max_sec", MAX)
    return Retry(
        count_of(doc, "max_retries", MAX_RETRIES),
        Exponential(
            min(number_of(policy, "base_sec", BASE), most),
            number_of(policy, "factor", FACTOR),
            most,
            jitter if jitter in JITTERS else "none",
        ),
    )


def number_of(policy: Doc, name: str, default: float) -> float:
    """A number of the policy."""
    value = policy.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MalformedError(f"backoff_policy.{name} {value!r} must be a number")
    return float(value)


def count_of(doc: Doc, name: str, default: int = 0) -> int:
    """A whole number of the document; some drivers write every number as a float."""
    value = doc.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise MalformedError(f"{name} {value!r} must be a whole number")
    if value < 0:
        raise MalformedError(f"{name} {value!r} must be 0 or more")
    return int(value)


def date_of(doc: Doc, name: str) -> int | None:
    """A date of the document in microseconds."""
    value = doc.get(name)
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise MalformedError(f"{name} {value!r} must be a date")
    return of_date(value)


def as_text(value: Any) -> str:
    """Keys and decimals as text; anything else has no meaning in JSON."""
    if isinstance(value, ObjectId | Decimal128):
        return str(value)
    raise TypeError(f"a value of type {type(value).__name__}")


def set_aside(doc: Doc, reason: str, now: int, number: int) -> Change:
    """Make the document a dead letter that says what is wrong with it."""
    private: Doc = {
        "queue": QUEUE,
        "region": REGION,
        "task": "",
        "priority": 0,
        "body": encode({"task": "", "args": [], "kwargs": {}}),
        "place": number,
        "created": now,
        "token": first_token(number),
        "since": first_token(number),
        "replay": 0,
        "snoozes": 0,
        "worker": None,
        "permits": [],
        "ended": now,
        **standing(Lane(QUEUE, REGION, 0), now, number, delayed=False),
        "malformed": True,
    }
    error = {"message": f"malformed: {reason}", "code": "malformed", "at": date(now)}
    fields = {
        "status": "failed",
        "updated_at": date(now),
        "created_at": date(now),
        "attempts": 0,
        "next_retry_at": None,
        "error": {**error, "type": "MalformedError"},
        "mulligan": private,
    }
    return Change(doc["_id"], {"status": doc.get("status")}, {"$set": fields})
