"""A write that is sent twice happens once: the answer to a repeated key is the first answer."""

import hashlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable

import msgspec
from msgspec import Struct
from starlette.responses import Response

from mulligan.core.errors import StoreError
from mulligan.server.problems import Refusal
from mulligan.stores.contract import Store

log = logging.getLogger("mulligan.server")
KEEP = 86_400.0
# A server that dies half-way holds up the key for so long.
KEEP_UNANSWERED = 120.0
KEY_LIMIT = 255


class Kept(Struct, frozen=True):
    """A request by its fingerprint, and its answer once there is one."""

    request: bytes
    answer: bytes | None = None
    media_type: str = "application/json"


def fingerprint(method: str, path: str, body: bytes) -> bytes:
    """What a request asks for; the same key with another one is a mistake."""
    return hashlib.sha256(b"\0".join((method.encode(), path.encode(), body))).digest()


async def once(
    store: Store, key: str, request: bytes, work: Callable[[], Awaitable[Response]]
) -> Response:
    """Do the work, unless a request with the key has done it or is at it, on any server.

    Each request leaves a note of its own and then looks for others: of two that come at the same
    moment at most one goes on. What is refused leaves no note.
    """
    if not (1 <= len(key) <= KEY_LIMIT and all("!" <= letter <= "~" for letter in key)):
        raise Refusal(
            "invalid",
            f"Idempotency-Key must have 1 to {KEY_LIMIT} characters of visible ASCII",
        )
    place = f"idempotency/{hashlib.sha256(key.encode()).hexdigest()}/"
    notes = await store.notes(place)
    if notes:
        return replayed(notes.values(), request)
    mine = place + secrets.token_hex(8)
    await store.note(mine, msgspec.msgpack.encode(Kept(request)), KEEP_UNANSWERED)
    try:
        response = await alone(store, place, work)
    except BaseException:
        await store.note(mine, None, 0.0)
        raise
    kept = Kept(request, bytes(response.body), response.media_type or "")
    try:
        await store.note(mine, msgspec.msgpack.encode(kept), KEEP)
    except (StoreError, OSError) as error:  # the work is done; saying so matters more
        log.warning("the answer to an idempotency key could not be kept: %s", error)
    return response


async def alone(store: Store, place: str, work: Callable[[], Awaitable[Response]]) -> Response:
    """Do the work, unless another request is at it too."""
    if len(await store.notes(place)) > 1:
        raise in_progress()
    return await work()


def replayed(notes: Iterable[bytes], request: bytes) -> Response:
    """The answer that was given; refuses another request, and one that has no answer yet."""
    kept = [msgspec.msgpack.decode(note, type=Kept) for note in notes]
    answered = next((each for each in kept if each.answer is not None), kept[0])
    if answered.request != request:
        raise Refusal(
            "key-reused",
            "this Idempotency-Key came with another request; use a new key for a new request",
        )
    if answered.answer is None:
        raise in_progress()
    headers = {"Idempotency-Replayed": "true"}
    return Response(answered.answer, 200, headers, answered.media_type)


def in_progress() -> Refusal:
    """The refusal of a request whose twin is under way."""
    return Refusal(
        "in-progress",
        "a request with this Idempotency-Key is under way; send it again in a moment",
        headers={"Retry-After": "1"},
    )
