"""Reads a message of Celery's, as kombu writes it to Redis: protocol 2, with a JSON body."""

import json
from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from mulligan.contrib.bridge.message import (
    LONGEST,
    PICKLED,
    TOO_LONG,
    Left,
    Message,
    checked,
    unreadable,
)

JSON = "application/json"
PICKLES = ("application/x-python-serialize", "application/data")
# How kombu writes what JSON lacks: {"__type__": "decimal", "__value__": "1.5"}.
TYPES: dict[str, Callable[[Any], Any]] = {
    "datetime": datetime.fromisoformat,
    "date": lambda text: date.fromisoformat(text[:10]),
    "time": time.fromisoformat,
    "decimal": Decimal,
    "uuid": lambda parts: UUID(**parts) if isinstance(parts, dict) else UUID(parts),
    "bytes": str.encode,
    "base64": b64decode,
}
# What runs after a task in Celery, as its message says it, and in words.
FOLLOWERS = {
    "callbacks": "a link",
    "errbacks": "a link_error",
    "chain": "a chain",
    "chord": "a chord",
}


def read_celery(key: str, member: str, raw: str) -> Message | Left:
    """The call in a message; `Left` with the reason if it cannot be taken over."""
    return Left("", "", TOO_LONG) if len(raw) > LONGEST else read_bounded(key, member, raw)


def read_bounded(key: str, member: str, raw: str) -> Message | Left:
    """The call in a message that is not too long.

    Other programs have written it, so that reading it may raise anything.
    """
    try:
        envelope = json.loads(raw)
        if isinstance(envelope, list):  # as a worker of Celery's keeps what it has not finished
            envelope = envelope[0]
        headers = envelope["headers"]
        if not isinstance(headers, dict) or "task" not in headers:
            return Left("", "", "it is no message of protocol 2; Celery before 4.0 wrote it")
        id_, task = str(headers["id"]), str(headers["task"])
    except Exception:  # noqa: BLE001 - as said above
        return Left("", "", "it is no message of Celery's")
    try:
        if reason := not_taken(envelope):
            return Left(id_, task, reason)
        args, kwargs, after = read_body(envelope)
        follows = [words for name, words in FOLLOWERS.items() if (after or {}).get(name)]
        if follows:
            return Left(id_, task, f"it has {follows[0]}; let Celery finish it")
        limit = (headers.get("timelimit") or [None])[0]
        return checked(
            Message(
                key,
                member,
                raw,
                id_,
                task,
                list(args),
                dict(kwargs),
                due=moment(headers.get("eta")),
                expires_at=moment(headers.get("expires")),
                retries=int(headers.get("retries") or 0),
                timeout=None if limit is None else float(limit),
            )
        )
    except Exception as error:  # noqa: BLE001 - as said above
        return unreadable(id_, task, "its body cannot be read", error)


def not_taken(envelope: dict[str, Any]) -> str | None:
    """Why the body is none that may be read."""
    written = envelope.get("content-type")
    if written in PICKLES:
        return PICKLED
    if written != JSON:
        return f"its body is {written}; send it as JSON"
    if compression := envelope["headers"].get("compression"):
        return f"its body is compressed by {compression}; send it without"
    return None


def read_body(envelope: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Arguments, keyword arguments, and what follows."""
    body = envelope["body"]
    if envelope["properties"].get("body_encoding") == "base64":
        body = b64decode(body).decode(envelope.get("content-encoding") or "utf-8")
    args, kwargs, after = json.loads(body, object_hook=typed)
    return args, kwargs, after


def typed(value: dict[str, Any]) -> Any:
    """A value of a type that JSON lacks, or the object itself."""
    if value.keys() != {"__type__", "__value__"}:
        return value
    kind = value["__type__"]
    if kind not in TYPES:
        raise ValueError(f"an argument is of type {kind}, which is not known here")
    return TYPES[kind](value["__value__"])


def moment(text: str | None) -> float | None:
    """A time as Celery writes it; one without a time zone is UTC."""
    if not text:
        return None
    read = datetime.fromisoformat(text)
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
