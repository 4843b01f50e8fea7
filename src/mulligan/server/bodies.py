"""Reading what a request says, within limits."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request

from mulligan.app.arguments import DEPTH_LIMIT
from mulligan.server.problems import Refusal

BODY_LIMIT = 8 * 1024 * 1024
# How long a client may take to send a body.
READ_WITHIN = 30.0


async def read_body(request: Request) -> bytes:
    """The whole body; refused as soon as it is over the limit, or takes too long."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(READ_WITHIN):
            async for part in request.stream():
                size += len(part)
                if size > BODY_LIMIT:
                    raise Refusal(
                        "too-large",
                        f"the body has more than {BODY_LIMIT} bytes; send it in parts",
                        headers={"Connection": "close"},
                    )
                parts.append(part)
    except (TimeoutError, ClientDisconnect) as error:
        raise Refusal("not-json", f"the body did not arrive within {READ_WITHIN:g} s") from error
    return b"".join(parts)


def decode_body(decoder: "msgspec.json.Decoder[Any]", raw: bytes) -> Any:
    """The body in its declared shape."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise Refusal("invalid", f"the body does not fit: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refusal("not-json", f"the body is not JSON: {error}") from error
    except RecursionError as error:
        raise too_deep("the body") from error


def decode_query(kind: type[Any], request: Request) -> Any:
    """The query's parameters in their declared shape; each may be given once."""
    pairs = request.query_params.multi_items()
    given = dict(pairs)
    if len(given) != len(pairs):
        twice = next(name for name, _ in pairs if len(request.query_params.getlist(name)) > 1)
        raise Refusal("invalid", f"parameter {twice[:40]!r} is given twice; give it once")
    return convert_query(kind, given)


def convert_query(kind: type[Any], given: Mapping[str, str]) -> Any:
    """Text as the numbers and words that are declared."""
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refusal("invalid", f"the query does not fit: {error}") from error


def check_depth(what: str, raw: bytes) -> None:
    """Refuse JSON that is nested deeper than a task may be given."""
    if raw.count(b"[") + raw.count(b"{") <= DEPTH_LIMIT:
        return
    level = [msgspec.json.decode(raw)]
    for _ in range(DEPTH_LIMIT):
        level = [inner for outer in level for inner in inside(outer)]
    if any(isinstance(each, list | dict) for each in level):
        raise too_deep(what)


def inside(value: Any) -> Collection[Any]:
    """What an array or an object holds."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def too_deep(what: str) -> Refusal:
    """The refusal of what is nested too deeply."""
    return Refusal("invalid", f"{what} is nested more than {DEPTH_LIMIT} levels deep; flatten it")
