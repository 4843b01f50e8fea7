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
# A server that dies half-way holds up the key for so long.
KEEP_UNANSWERED = 120.0
KEY_LIMIT = 255


class Kept(Struct, frozen=True):
    """A request by its fingerprint, and its answer once there is one.

    It is `unknown` what became of a request whose answer the store never gave.
    """

    request: bytes
    answer: bytes | None = None
    media_type: str = "application/json"
    unknown: bool = False


def fingerprint(method: str, path: str, body: bytes) -> bytes:
    """What a request asks for; the same key with another one is a mistake."""
    return hashlib.sha256(b"\0".join((method.encode(), path.encode(), body))).digest()


def job_id(key: str, request: bytes, place: int) -> str:
    """The id of a job of the request that names none: the same each time the request is sent."""
    return hashlib.sha256(b"%b %b %d" % (key.encode(), request, place)).hexdigest()[:32]


async def once(
    store: Store, key: str, request: bytes, work: Callable[[], Awaitable[Response]]
) -> Response:
    """Do the work, unless a request with the key has done it or is at it, on any server.

    Each request leaves a note of its own and then looks for others: of two that come at the same
    moment at most one goes on. What is refused leaves no note. Where the store gave no answer the
    note stays, and the same request may be sent again: the work must come to the same then.
    """
    if not (1 <= len(key) <= KEY_LIMIT and all("!" <= letter <= "~" for letter in key)):
        raise Refusal(
            "invalid",
            f"Idempotency-Key must have 1 to {KEY_LIMIT} characters of visible ASCII",
        )
    place = f"idempotency/{hashlib.sha256(key.encode()).hexdigest()}/"
    before = replayed((await store.notes(place)).values(), request)
    if before is not None:
        return before
    mine = place + secrets.token_hex(8)
    await store.note(mine, msgspec.msgpack.encode(Kept(request)), KEEP_UNANSWERED)
    try:
        response = await alone(store, place, mine, work)
    except (Refusal, InvalidError, UnknownJobError):  # nothing was done
        await store.note(mine, None, 0.0)
        raise
    except BaseException:
        await keep(store, mine, Kept(request, unknown=True))
        raise
    await keep(store, mine, Kept(request, bytes(response.body), response.media_type or ""))
    return response


async def alone(
    store: Store, place: str, mine: str, work: Callable[[], Awaitable[Response]]
) -> Response:
    """Do the work, unless another request is at it too, or has done it."""
    notes = await store.notes(place)
    if any(not read(note).unknown for name, note in notes.items() if name != mine):
        raise in_progress()
    return await work()


async def keep(store: Store, mine: str, kept: Kept) -> None:
    """Note what became of the request, for a day, where the store takes it."""
    try:
        await store.note(mine, msgspec.msgpack.encode(kept), KEEP)
    except (StoreError, OSError) as error:  # what there is to say of the work matters more
        log.warning("what became of an idempotency key could not be kept: %s", error)


def replayed(notes: Iterable[bytes], request: bytes) -> Response | None:
    """The answer that was given; None if there is none, and none is on its way.

    Refuses another request, and one whose twin is under way.
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
