"""Reads bodies and queries of requests, within limits."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request

from mulligan.core.checks import ENVELOPE, check_depth
from mulligan.core.written_retry import misfit_of_call
from mulligan.server.problems import Refusal

BODY_LIMIT = 8 * 1024 * 1024
# How long the head of a request may take to arrive, and its body.
REQUEST_WITHIN = 30.0


async def read_body(request: Request, within: float) -> bytes:
    """The whole body; refused as soon as it is over the limit, or takes too long."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(within):
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
        raise Refusal("not-json", f"the body did not arrive within {within:g} s") from error
    return b"".join(parts)


def decode_body(decoder: "msgspec.json.Decoder[Any]", raw: bytes) -> Any:
    """The body as the declared type."""
    check_depth("the body", raw, around=ENVELOPE)
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        words = misfit_of_call(error, decoder.type)
        raise Refusal("invalid", f"the body does not fit: {words}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refusal("not-json", f"the body is not JSON: {error}") from error


def decode_query(kind: type[Any], request: Request) -> Any:
    """The query as the declared type; each parameter may be given once."""
    pairs = request.query_params.multi_items()
    given = dict(pairs)
    if len(given) != len(pairs):
        twice = next(name for name, _ in pairs if len(request.query_params.getlist(name)) > 1)
        raise Refusal("invalid", f"parameter {twice[:40]!r} is given twice; give it once")
    return convert_query(kind, given)


def convert_query(kind: type[Any], given: Mapping[str, str]) -> Any:
    """The parameters, which are text, as the declared types."""
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refusal("invalid", f"the query does not fit: {error}") from error
