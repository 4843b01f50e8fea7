"""A write that is sent twice happens once: the answer to a repeated key is the first answer."""

import hashlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable

import msgspec
from msgspec import Struct
from starlette.responses import Response

from mulligan.core.errors import InvalidError, StoreError, UnknownJobError
from mulligan.server.problems import Refusal
from mulligan.stores.contract import Store

log = logging.getLogger("mulligan.server")
KEEP = 86_400.0
# How long a key stays in use after its server died.
KEEP_UNANSWERED = 120.0
KEY_LIMIT = 255


class Kept(Struct, frozen=True):
    """The fingerprint of a request, and its answer once there is one.

    It is `unknown` if the store did not answer: the work may have been done.
    """

    request: bytes
    answer: bytes | None = None
    media_type: str = "application/json"
    unknown: bool = False


def fingerprint(principal: bytes, method: str, path: str, body: bytes) -> bytes:
    """A digest of who asks for what; the same key with another request is an error."""
    return hashlib.sha256(b"\0".join((principal, method.encode(), path.encode(), body))).digest()


def job_id(key: str, request: bytes, index: int) -> str:
    """An id for a new job of the request: the same each time that the request is sent."""
    return hashlib.sha256(b"%b %b %d" % (key.encode(), request, index)).hexdigest()[:32]


async def once(
    store: Store,
    principal: bytes,
    key: str,
    request: bytes,
    work: Callable[[], Awaitable[Response]],
) -> Response:
    """Do the work, unless a request with the key has done it or is doing it, on any server.

    A key belongs to who sends it: others may use the same one, and learn nothing of it.

    Each request writes a note of its own and then reads those of others, so that of two at the same
    time at most one goes on. A refused request leaves no note. If the store gave no answer, the
    note stays and the request may be sent again; its work must then have the same effect.
    """
    if not (1 <= len(key) <= KEY_LIMIT and all("!" <= letter <= "~" for letter in key)):
        raise Refusal(
            "invalid",
            f"Idempotency-Key must have 1 to {KEY_LIMIT} characters of visible ASCII",
        )
    owned = hashlib.sha256(principal + b"\0" + key.encode()).hexdigest()
    prefix = f"idempotency/{owned}/"
    before = replayed((await store.notes(prefix)).values(), request)
    if before is not None:
        return before
    mine = prefix + secrets.token_hex(8)
    await store.note(mine, msgspec.msgpack.encode(Kept(request)), KEEP_UNANSWERED)
    try:
        response = await alone(store, prefix, mine, work)
    except (Refusal, InvalidError, UnknownJobError):  # the work was not done
        await store.note(mine, None, 0.0)
        raise
    except BaseException:
        await keep(store, mine, Kept(request, unknown=True))
        raise
    await keep(store, mine, Kept(request, bytes(response.body), response.media_type or ""))
    return response


async def alone(
    store: Store, prefix: str, mine: str, work: Callable[[], Awaitable[Response]]
) -> Response:
    """Do the work, unless another request is doing it or has done it."""
    notes = await store.notes(prefix)
    if any(not read(note).unknown for name, note in notes.items() if name != mine):
        raise in_progress()
    return await work()


async def keep(store: Store, mine: str, kept: Kept) -> None:
    """Keep the answer for a day, if the store accepts it."""
    try:
        await store.note(mine, msgspec.msgpack.encode(kept), KEEP)
    except (StoreError, OSError) as error:  # the answer must reach the client all the same
        log.warning("what became of an idempotency key could not be kept: %s", error)


def replayed(notes: Iterable[bytes], request: bytes) -> Response | None:
    """The first answer; None if no request with the key was answered or is under way.

    Refuses a different request with the same key, and one whose twin is under way.
    """
    kept = [read(note) for note in notes]
    if any(each.request != request for each in kept):
        raise Refusal(
            "key-reused",
            "this Idempotency-Key came with another request; use a new key for a new request",
        )
    for each in kept:
        if each.answer is not None:
            headers = {"Idempotency-Replayed": "true"}
            return Response(each.answer, 200, headers, each.media_type)
    if not all(each.unknown for each in kept):
        raise in_progress()
    return None


read = msgspec.msgpack.Decoder(Kept).decode


def in_progress() -> Refusal:
    """The refusal of a request whose twin is under way."""
    return Refusal(
        "in-progress",
        "a request with this Idempotency-Key is under way; send it again in a moment",
        headers={"Retry-After": "1"},
    )
