"""What the public fields of a document say, whoever wrote them: the job that it stands for."""

from typing import Any

import msgspec
from bson import Decimal128, ObjectId

from mulligan.core.backoff import JITTERS, Exponential
from mulligan.core.depth import check_depth
from mulligan.core.errors import InvalidError
from mulligan.core.job import first_token
from mulligan.core.lane import ANYWHERE, Lane, Priority, priority_of
from mulligan.core.names import check_name
from mulligan.core.retry import Retry, preset
from mulligan.stores.mongo.base import Doc
from mulligan.stores.mongo.documents import AWAITING, is_known, private_of, standing
from mulligan.stores.mongo.soundness import damage_in, is_count, of_another_key
from mulligan.stores.mongo.times import of_date

QUEUE, REGION = "default", ANYWHERE
MAX_RETRIES = 10
BASE, FACTOR, MAX, JITTER = 5.0, 2.0, 1800.0, "full"
STATUSES = ("pending", "processing", "done", "failed", "cancelled")


class MalformedError(Exception):
    """The document cannot be a job; the message is the reason that it is given."""


class NoTaskError(Exception):
    """The document names no task, and the collection has no default: it is not for mulligan."""


def private_fields(doc: Doc, default_task: str | None, now: int, number: int) -> Doc:
    """The private fields of the job that the document stands for, as its public ones have it.

    Those that mulligan wrote are kept, but for where it stands. Raises MalformedError, or
    NoTaskError where it is not known what to run.
    """
    known = is_known(doc)
    if known and (damage := damage_in(doc)):
        raise MalformedError(damage)
    private = private_of(doc) if known else first_fields(doc, default_task, now, number)
    attempts = count_of(doc, "attempts")
    due, delayed = due_from(doc, private, now, known=known)
    stand = standing(lane_for(private, attempts), due, number, delayed=delayed)
    if private.get("awaits"):
        stand["line"] = AWAITING
    if doc["status"] != "pending":
        stand.pop("line")
    return private | stand


def first_fields(doc: Doc, default_task: str | None, now: int, number: int) -> Doc:
    """The private fields of a document that mulligan has never seen."""
    if damage := of_another_key(doc):
        raise MalformedError(damage)
    check_name("_id", str(doc["_id"]))
    if not isinstance(doc.get("mulligan"), dict | None):
        raise MalformedError("mulligan is the name of private fields; use another name")
    task, body = body_of(doc, default_task)
    created = date_of(doc, "created_at")
    return {
        "queue": QUEUE,
        "region": REGION,
        "task": task,
        "priority": int(priority_of(0 if (said := doc.get("priority")) is None else said)),
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
    task = payload.get("task") if isinstance(payload, dict) else None
    task = default_task if task is None else task
    if task is None:
        raise NoTaskError
    task = check_name("payload.task", task)
    retry, given = retry_of(doc)
    # The id is its producer's, and may come again.
    said = ["id", "retry"] if given else ["id"]
    try:
        args, kwargs = call_of(payload)
        call = {"task": task, "args": args, "kwargs": kwargs, "retry": retry, "given": said}
        body = msgspec.json.encode(call, enc_hook=as_text)
    except InvalidError:
        raise
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise MalformedError(f"payload cannot be JSON: {error}") from error
    check_depth("an argument", body, around=2)
    return task, body


def call_of(payload: Any) -> tuple[list[Any], dict[str, Any]]:
    """The arguments: `args` and `kwargs` if there are any, else the payload as it is."""
    if payload is None:
        return [], {}
    if not isinstance(payload, dict):
        return [payload], {}
    if not ({"args", "kwargs"} & payload.keys()):
        if isinstance(payload.get("json"), str) and set(payload) == {"task", "json"}:
            check_depth("payload.json", payload["json"].encode(), around=2)
            return call_of(msgspec.json.decode(payload["json"]))
        return ([payload], {}) if payload.keys() - {"task"} else ([], {})
    args, kwargs = payload.get("args") or [], payload.get("kwargs") or {}
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise MalformedError("payload.args must be a list and payload.kwargs a document")
    return args, kwargs


def retry_of(doc: Doc) -> tuple[Retry, bool]:
    """The policy, and whether the document says it: if not, the task may say another one.

    `retry` is as everywhere, a preset or a policy in full. Of `backoff_policy`, what is missing
    means 5, 2.0, 1800, full, and ten retries without `max_retries`.
    """
    said = doc.get("retry")
    if isinstance(said, str):
        return preset(said), True
    if said is not None:
        try:
            return msgspec.convert(said, Retry), True
        except msgspec.ValidationError as error:
            raise MalformedError(f"retry is no policy: {error}") from error
    policy = doc.get("backoff_policy")
    given = policy is not None or doc.get("max_retries") is not None
    if policy is None:
        policy = {}
    if not isinstance(policy, dict):
        raise MalformedError("backoff_policy must be a document")
    jitter = policy.get("jitter", JITTER)
    most = number_of(policy, "max_sec", MAX)
    backoff = Exponential(
        min(number_of(policy, "base_sec", BASE), most),
        number_of(policy, "factor", FACTOR),
        most,
        jitter if jitter in list(JITTERS) else "none",
    )
    return Retry(count_of(doc, "max_retries", MAX_RETRIES), backoff), given


def number_of(policy: Doc, name: str, default: float) -> float:
    """A number of the policy."""
    value = policy.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MalformedError(f"backoff_policy.{name} {value!r:.80} must be a number")
    return float(value)


def count_of(doc: Doc, name: str, default: int = 0) -> int:
    """A whole number of the document; some drivers write every number as a float."""
    value = doc.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not is_count(value):
        raise MalformedError(f"{name} {value!r:.80} must be a whole number, 0 or more")
    return int(value)


def date_of(doc: Doc, name: str) -> int | None:
    """A date of the document in microseconds."""
    value = doc.get(name)
    try:
        return None if value is None else of_date(value)
    except TypeError as error:
        raise MalformedError(f"{name} {error}") from error


def as_text(value: Any) -> str:
    """Keys and decimals as text; anything else has no meaning in JSON."""
    if isinstance(value, ObjectId | Decimal128):
        return str(value)
    raise TypeError(f"a value of type {type(value).__name__}")
