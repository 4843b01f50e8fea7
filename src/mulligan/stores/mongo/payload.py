"""Bodies as other programs read and write them: `payload` and the policy beside it.

A body that mulligan made is shown as a payload; the payload of another program becomes a body.
"""

from functools import lru_cache
from typing import Any

import msgspec
from bson import Decimal128, ObjectId
from msgspec import Raw, Struct

from mulligan.core.checks import check_depth, check_name
from mulligan.core.checks import seconds as plain_seconds
from mulligan.core.errors import UNREADABLE, InvalidError
from mulligan.core.nearest import nearest
from mulligan.core.retry import JITTERS, Delays, Exponential, Retry, preset
from mulligan.core.written_retry import read_retry
from mulligan.stores.mongo.document import Doc

DEEPEST = 60
INT64 = 2**63
# What a document means that does not say it.
MAX_RETRIES = 10
BASE, FACTOR, MAX, JITTER = 5.0, 2.0, 1800.0, "full"
POLICY_FIELDS = ("base_sec", "factor", "max_sec", "jitter")


class Shown(Struct):
    """The parts of a body that the public fields repeat."""

    args: Any = []
    kwargs: Any = {}
    retry: Raw = Raw(b"{}")


decode_shown = msgspec.json.Decoder(Shown).decode
decode_retry = msgspec.json.Decoder(Retry).decode


def public_of(task: str, body: bytes) -> tuple[Doc, Doc]:
    """The payload and the backoff policy as other programs read them."""
    try:
        shown = decode_shown(body)
    except UNREADABLE:
        return {"task": task}, policy_document(b"{}")
    if storable(shown.args) and storable(shown.kwargs):
        payload = {"task": task, "args": shown.args, "kwargs": shown.kwargs}
    else:
        text = msgspec.json.encode({"args": shown.args, "kwargs": shown.kwargs}).decode()
        payload = {"task": task, "json": text}
    return payload, dict(policy_document(bytes(shown.retry)))


def storable(value: object, depth: int = 0) -> bool:
    """Whether every MongoDB keeps the value as it is: no operators, dots or huge numbers."""
    if depth > DEEPEST:
        return False
    if isinstance(value, dict):
        return all(
            not (key.startswith("$") or "." in key or "\0" in key) and storable(each, depth + 1)
            for key, each in value.items()
        )
    if isinstance(value, list):
        return all(storable(each, depth + 1) for each in value)
    return not isinstance(value, int) or -INT64 <= value < INT64


@lru_cache(maxsize=512)
def policy_document(retry: bytes) -> Doc:
    """The policy in the four public words; of lists and sessions, their first curve."""
    try:
        backoff = decode_retry(retry).backoff
    except UNREADABLE:
        backoff = Retry().backoff
    if isinstance(backoff, Delays):
        first, last = plain_seconds(backoff.seconds[0]), plain_seconds(backoff.seconds[-1])
        return {"base_sec": first, "factor": 1.0, "max_sec": last, "jitter": "none"}
    return {
        "base_sec": plain_seconds(backoff.base),
        "factor": float(backoff.factor),
        "max_sec": None if backoff.max is None else plain_seconds(backoff.max),
        "jitter": backoff.jitter,
    }


class MalformedError(Exception):
    """The document cannot be a job; the message is the reason that it is given."""


class NoTaskError(Exception):
    """The document names no task, and the collection has no default: it is not for mulligan."""


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
        return read_retry(said), True
    policy = doc.get("backoff_policy")
    given = policy is not None or doc.get("max_retries") is not None
    if policy is None:
        policy = {}
    if not isinstance(policy, dict):
        raise MalformedError("backoff_policy must be a document")
    for name in policy:
        if name not in POLICY_FIELDS:
            fields = nearest(name, POLICY_FIELDS) or f"; it has {', '.join(POLICY_FIELDS)}"
            raise MalformedError(f"backoff_policy has no {name!r:.80}{fields}")
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


def is_count(value: Any) -> bool:
    """Whether it counts something; some drivers write every number as a float."""
    return isinstance(value, int | float) and 0 <= value < INT64 - 1 and value == int(value)


def as_text(value: Any) -> str:
    """Keys and decimals as text; anything else has no meaning in JSON."""
    if isinstance(value, ObjectId | Decimal128):
        return str(value)
    raise TypeError(f"a value of type {type(value).__name__}")
