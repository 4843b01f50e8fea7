"""A mounted dashboard for programs without an event loop of their own, such as Flask's."""

import asyncio
import os
import threading
from collections.abc import Mapping
from typing import Any, BinaryIO, cast
from urllib.parse import quote, unquote

from msgspec import Struct
from starlette.types import Message, Scope

from mulligan.server.bodies import BODY_LIMIT
from mulligan.server.mount import Dashboard
from mulligan.server.principal import KEY, Principal

CLOSE_WITHIN = 5.0


class WsgiAnswer(Struct, frozen=True):
    """A whole answer: events are not streamed, since each stream would hold a thread."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Bridge:
    """Answers requests of WSGI by a dashboard, which runs in a thread with a loop of its own.

    The thread starts with the first request, and again in a process that was forked since.
    """

    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard = dashboard
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0
        self._thread = threading.Thread()

    def answer(
        self, environ: Mapping[str, Any], prefix: str, principal: Principal | None
    ) -> WsgiAnswer:
        """Answer the request, which is below the prefix and was sent by the principal."""
        scope = {**scope_of(environ, prefix), KEY: principal}
        answering = self._answer(scope, body_of(environ))
        return asyncio.run_coroutine_threadsafe(answering, self._started()).result()

    def close(self) -> None:
        """Close the dashboard, and end the thread; a later request starts them again."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None and self._pid == os.getpid():
            asyncio.run_coroutine_threadsafe(self._dashboard.close(), loop).result(CLOSE_WITHIN)
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join(CLOSE_WITHIN)
            loop.close()

    async def _answer(self, scope: Scope, body: bytes) -> WsgiAnswer:
        status, headers, parts = 0, list[tuple[str, str]](), list[bytes]()
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if messages:
                return messages.pop()
            await asyncio.Event().wait()  # nobody tells us that a client has gone
            raise AssertionError

        async def send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                pairs = message.get("headers", ())
                headers.extend((k.decode("latin-1"), v.decode("latin-1")) for k, v in pairs)
            elif message["type"] == "http.response.body":
                parts.append(message.get("body", b""))

        await self._dashboard(scope, receive, send)
        return WsgiAnswer(status, headers, b"".join(parts))

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                run = self._loop.run_forever
                self._thread = threading.Thread(target=run, name="mulligan-dashboard", daemon=True)
                self._thread.start()
            return self._loop


def scope_of(environ: Mapping[str, Any], prefix: str) -> Scope:
    """The request as ASGI has it; `prefix` is the path of the dashboard, SCRIPT_NAME included."""
    script, below = text(environ, "SCRIPT_NAME"), text(environ, "PATH_INFO")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": environ.get("SERVER_PROTOCOL", "HTTP/1.1").partition("/")[2],
        "method": environ["REQUEST_METHOD"],
        "scheme": environ.get("wsgi.url_scheme", "http"),
        "path": script + below,
        "raw_path": raw_path(environ, script, below).encode("ascii", "replace"),
        "root_path": prefix,
        "query_string": environ.get("QUERY_STRING", "").encode("latin-1"),
        "headers": headers_of(environ),
        "client": (environ.get("REMOTE_ADDR", ""), int(environ.get("REMOTE_PORT") or 0)),
        "server": (environ.get("SERVER_NAME", ""), int(environ.get("SERVER_PORT") or 0)),
    }


def raw_path(environ: Mapping[str, Any], script: str, below: str) -> str:
    """The path as the client sent it, where the server tells: a name may contain %2F."""
    sent = str(environ.get("REQUEST_URI") or environ.get("RAW_URI") or "").partition("?")[0]
    if unquote(sent) == script + below:
        return sent
    return quote(script) + sent if unquote(sent) == below else quote(script + below)


def headers_of(environ: Mapping[str, Any]) -> list[tuple[bytes, bytes]]:
    """The headers of the request."""
    named = {name[5:]: value for name, value in environ.items() if name.startswith("HTTP_")}
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(name):
            named[name] = environ[name]
    return [
        (name.replace("_", "-").lower().encode("latin-1"), str(value).encode("latin-1"))
        for name, value in named.items()
    ]


def body_of(environ: Mapping[str, Any]) -> bytes:
    """The body of the request, up to what is just too much."""
    most = BODY_LIMIT + 1
    if environ.get("CONTENT_LENGTH"):
        most = min(most, int(environ["CONTENT_LENGTH"]))
    elif not environ.get("wsgi.input_terminated"):
        return b""
    stream = cast("BinaryIO", environ["wsgi.input"])
    return stream.read(most)


def text(environ: Mapping[str, Any], name: str) -> str:
    """A path of WSGI, which is bytes in latin-1."""
    return str(environ.get(name, "")).encode("latin-1").decode("utf-8", "replace")
