"""The API and the dashboard as a part of another application, under a path of its own."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mulligan.app import Mulligan
from mulligan.core.errors import InvalidError, StoreError
from mulligan.server.application import Secured, make_routes
from mulligan.server.guard import Guard
from mulligan.server.principal import (
    KEY,
    Authenticate,
    MountGuard,
    PrincipalGuard,
    principal_of,
)
from mulligan.server.problems import Refusal, answer_problem
from mulligan.server.redaction import Redaction
from mulligan.server.service import Service
from mulligan.server.tokens import read_tokens

log = logging.getLogger("mulligan.server")
# Where the lifespan of the application around it leaves what it has opened.
STATE = "mulligan"
AROUND = "mulligan.around"
SIGN_IN = "sign in to the application around this dashboard"


class Opened:
    """An app that is open from the start of the application around it to its end."""

    def __init__(self, app: Mulligan) -> None:
        self.app = app
        self.stopping = asyncio.Event()
        self.dashboards: set[Dashboard] = set()
        # What wakes each stream of a job.
        self.job_streams: set[Callable[[], None]] = set()

    def stop(self) -> None:
        """End all streams, so that the web server can stop."""
        self.stopping.set()
        for tell in tuple(self.job_streams):
            tell()
        for dashboard in self.dashboards:
            dashboard.stop()

    async def close(self) -> None:
        """Close the dashboards that requests have opened."""
        for dashboard in tuple(self.dashboards):
            await dashboard.close()


class Running(Struct, frozen=True):
    """A service with an open store, its routes, and how to close it."""

    service: Service
    application: ASGIApp
    stack: AsyncExitStack


class Dashboard:
    """The dashboard and the API of an app, as an ASGI application to mount under a path.

    `authenticate` is called with each request and says who sends it: a `Principal`, None if nobody
    is signed in, or a response that is sent instead, such as a redirect to a login. Without it
    requests need a token of `token_file`; without both they must come from this machine. With
    `housekeep` this process does the chores of workers too, as `mulligan serve` does. The store is
    opened by the first request.
    """

    def __init__(
        self,
        app: Mulligan,
        *,
        authenticate: Authenticate | None = None,
        token_file: str | Path | None = None,
        read_only: bool = False,
        hosts: Iterable[str] = (),
        redact: Iterable[str] = (),
        housekeep: bool = False,
        streams: bool = True,
    ) -> None:
        if authenticate is not None and token_file is not None:
            raise InvalidError("give authenticate or token_file, and not both")
        if authenticate is not None and not callable(authenticate):
            raise InvalidError(f"authenticate {authenticate!r} must be a function of a request")
        self._app = app
        self._authenticate = authenticate
        self._guard = guard_of(authenticate, token_file, hosts, read_only=read_only)
        self._redact = tuple(redact)
        self._housekeep = housekeep
        self._streams = streams
        self._opening: asyncio.Task[Running] | None = None
        self._secured = Secured(self._answer)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            await self._secured({**scope, AROUND: scope}, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    def stop(self) -> None:
        """End all long polls and streams, so that the web server can stop."""
        if self._opening is not None and self._opening.done() and not self._opening.cancelled():
            self._opening.result().service.stop()

    async def close(self) -> None:
        """Close the store; a later request opens it again."""
        opening, self._opening = self._opening, None
        if opening is not None and opening.get_loop() is asyncio.get_running_loop():
            running = await opening
            running.service.stop()
            await running.stack.aclose()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            refused = await self._admit(request)
            application = refused or (await self._running(scope)).application
        except Exception as error:
            if not isinstance(error, Refusal | StoreError | OSError):
                log.exception("%s %s", request.method, request.url.path)
            application = await answer_problem(request, error)
        await application(scope, receive, send)

    async def _admit(self, request: Request) -> Response | None:
        """Note who sends the request, or give the response that is sent instead."""
        if self._authenticate is None:
            return None
        # As its own routes see it: with the whole path, and their names in url_for.
        around = Request(request.scope[AROUND], request.receive)
        answer = await principal_of(around, self._authenticate)
        if isinstance(answer, Response):
            # A program cannot sign in at a page: the dashboard's own requests get the reason.
            leads_away = "location" in answer.headers
            if leads_away and request.url.path.startswith(("/api/", "/worker/", "/metrics")):
                raise Refusal("not-signed-in", SIGN_IN)
            return answer
        if answer is None:
            raise Refusal("not-signed-in", SIGN_IN)
        request.scope[KEY] = answer
        return None

    async def _running(self, scope: Scope) -> Running:
        """The open service; the first request on a loop opens it."""
        loop = asyncio.get_running_loop()
        if self._opening is None or self._opening.get_loop() is not loop:
            self._opening = asyncio.ensure_future(self._open())
            opened = scope.get("state", {}).get(STATE)
            if isinstance(opened, Opened):
                opened.dashboards.add(self)
        opening = self._opening
        try:
            return await asyncio.shield(opening)
        except Exception:
            if self._opening is opening:
                self._opening = None  # the next request tries again
            raise

    async def _open(self) -> Running:
        async with AsyncExitStack() as stack:
            store = self._app.make_store()
            stack.push_async_callback(store.close)
            await store.open(read_only=self._guard.read_only)
            declares = bool(self._app.tasks)
            redaction = Redaction((*self._redact, *self._app.redact), self._app.tasks)
            service = Service(store, self._app, self._guard, declares=declares, redaction=redaction)
            service.hub.streams = service.job_hubs.streams = self._streams
            await stack.enter_async_context(service.running(chores=self._housekeep))
            kept = stack.pop_all()
        return Running(service, make_routes(service), kept)


def guard_of(
    authenticate: Authenticate | None,
    token_file: str | Path | None,
    hosts: Iterable[str],
    *,
    read_only: bool,
) -> Guard:
    """The guard that fits what was given."""
    if authenticate is not None:
        return PrincipalGuard(read_only=read_only)
    tokens = None if token_file is None else read_tokens(Path(token_file))
    return MountGuard(tokens, hosts=hosts, read_only=read_only)
