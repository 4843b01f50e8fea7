"""Reads a job of RQ's: a hash, whose `data` a JSON serializer wrote."""

import json
import zlib
from collections.abc import Mapping

from mulligan.contrib.bridge.message import (
    LONGEST,
    MOST_RETRIES,
    PICKLED,
    TOO_LONG,
    Left,
    Message,
    checked,
    unreadable,
)
from mulligan.core.errors import InvalidError
from mulligan.core.retry import Delays, Retry

CALLBACKS = ("success_callback_name", "failure_callback_name", "stopped_callback_name", "webhooks")
# How each protocol of pickle begins that Python has written since 2.3.
PICKLE = b"\x80"


def read_rq(
    key: str, id_: str, fields: Mapping[bytes, bytes], *, due: float | None, dependents: int
) -> Message | Left:
    """The call in a job; `Left` with the reason if it cannot be taken over.

    Other programs have written it, so that reading it may raise anything.
    """
    said = {name.decode(errors="replace"): value for name, value in fields.items()}
    if "data" not in said:
        return Left(id_, "", "its job is gone; RQ skips it too")
    data = expanded(said["data"])
    if len(data) > LONGEST:
        return Left(id_, name_of(said), TOO_LONG)
    if data.startswith(PICKLE):
        return Left(id_, name_of(said), PICKLED)
    try:
        task, instance, args, kwargs = json.loads(data)
        if reason := not_taken(said, dependents, instance):
            return Left(id_, str(task), reason)
        retry, retries = policy(said)
        return checked(
            Message(
                key,
                id_,
                raw=id_ if due is None else f"{id_} {due:.3f}",
                id=id_,
                task=str(task),
                args=list(args),
                kwargs=dict(kwargs),
                due=due,
                retries=retries,
                retry=retry,
            )
        )
    except Exception as error:  # noqa: BLE001 - see above
        return unreadable(id_, name_of(said), "its data cannot be read", error)


def expanded(data: bytes) -> bytes:
    """The data, expanded if it is compressed, up to one byte more than is read."""
    try:
        return zlib.decompressobj().decompress(data, LONGEST + 1)
    except zlib.error:
        return data


def name_of(said: Mapping[str, bytes]) -> str:
    """What RQ says of a job whose data is not read: the function, without its arguments."""
    return said.get("description", b"").decode(errors="replace").partition("(")[0]


def not_taken(said: Mapping[str, bytes], dependents: int, instance: object) -> str | None:
    """Why the job must be finished by RQ."""
    if instance is not None:
        return "it calls a method of an object; call a function"
    if dependents:
        return "other jobs depend on it; let RQ finish it"
    if any(said.get(name) for name in CALLBACKS):
        return "it has a callback; let RQ finish it"
    if said.get("repeats_left"):
        return "it repeats; make it a schedule"
    return None


def policy(said: Mapping[str, bytes]) -> tuple[Retry | None, int]:
    """The job's own retries with RQ's pauses, and how many it has had.

    RQ counts down. While more retries are left than there are pauses, the first one is taken.
    """
    left = int(said.get("retries_left") or 0)
    used = int(said.get("number_of_retries") or 0)
    if "retries_left" not in said:
        return None, used
    if left < 0 or used < 0 or left + used > MOST_RETRIES:
        raise InvalidError(f"retries {used} and {left} more must be 0 to {MOST_RETRIES} in all")
    pauses = json.loads(said.get("retry_intervals") or b"null") or [0]
    delays = [pauses[max(len(pauses) - n, 0)] for n in range(left, 0, -1)] or [0]
    # Its first retry here is the one after those that it has had.
    return Retry(used + left, backoff=Delays(tuple([delays[0]] * used + delays))), used
