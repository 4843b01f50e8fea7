"""`--health-port`: `/healthz` and `/readyz` of a worker, or of a group of them.

A few lines of HTTP on the worker's own loop: that it answers is the sign of life. No web server
is needed for it, nothing is asked of the store, and nothing is written there.
"""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import click

from mulligan.core.errors import MulliganError

log = logging.getLogger("mulligan.worker")
Command = TypeVar("Command", bound=Callable[..., Any])
LONGEST_HEAD = 8192
HEAD_WITHIN = 5.0
# Connections that are open at a time, and that wait to be. One too many replaces the oldest.
MOST_CONNECTIONS = 32
BACKLOG = 16
PHRASES = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed",
           503: "Service Unavailable"}  # fmt: skip
READY = 200, {"status": "ready"}
# Why something is not as it should be; empty if it is.
Reason = Callable[[], str]


def health_options(command: Command) -> Command:
    """Give the command the options of the probes."""
    port = click.option("--health-port", type=click.IntRange(0, 65535), metavar="PORT",
                        help="Answer /healthz and /readyz here; 0 takes a free one.")  # fmt: skip
    host = click.option("--health-host", metavar="HOST", default="127.0.0.1", show_default=True,
                        help="The address that --health-port listens on.")  # fmt: skip
    return port(host(command))


def bound(host: str, port: int | None) -> socket.socket | None:
    """The socket that the options ask for, if they do; where it is is logged."""
    if port is None:
        return None
    listening = bind(host, port)
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    log.info("health: http://%s:%d/healthz and /readyz", shown, port)
    return listening


def bind(host: str, port: int) -> socket.socket:
    """The listening socket; refuses an address that is in use or not this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while ")[0]
        raise MulliganError(
            f"cannot listen on {host} port {port}: {reason};"
            " choose another --health-host or --health-port"
        ) from error


@asynccontextmanager
async def probes(
    listening: socket.socket | None, unready: Reason, unwell: Reason = lambda: ""
) -> AsyncIterator[None]:
    """Answer probes on the socket while the block runs; without one nothing is done."""
    if listening is None:
        yield
        return

    opened: dict[asyncio.StreamWriter, None] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(opened) >= MOST_CONNECTIONS:
            oldest = next(iter(opened))
            del opened[oldest]
            oldest.transport.abort()
        opened[writer] = None
        try:
            async with asyncio.timeout(HEAD_WITHIN):
                writer.write(response(*await answer(reader, unready, unwell)))
                await writer.drain()
            writer.close()
        except (OSError, TimeoutError):
            writer.transport.abort()
        finally:
            opened.pop(writer, None)

    server = await asyncio.start_server(serve, sock=listening, limit=LONGEST_HEAD, backlog=BACKLOG)
    try:
        yield
    finally:
        server.close()
        for each in list(opened):
            each.transport.abort()


async def answer(
    reader: asyncio.StreamReader, unready: Reason, unwell: Reason
) -> tuple[int, dict[str, str]]:
    """The status and the body for the request that comes in."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n", 1)[0].split(b" ")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
        return 400, {"status": "not a request"}
    path = target.partition(b"?")[0]
    if path not in (b"/healthz", b"/readyz"):
        return 404, {"status": "not found"}
    if method not in (b"GET", b"HEAD"):
        return 405, {"status": "not allowed"}
    not_ready = unready()
    if path == b"/readyz":
        return (503, {"status": "not ready", "reason": not_ready}) if not_ready else READY
    if reason := unwell():
        return 503, {"status": "not well", "reason": reason}
    return 200, {"status": "ok"} | ({"not_ready": not_ready} if not_ready else {})


def response(status: int, body: dict[str, str]) -> bytes:
    """The answer on the wire; a client that sent HEAD stops reading where the body begins."""
    content = json.dumps(body).encode()
    head = (
        f"HTTP/1.1 {status} {PHRASES[status]}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + content
