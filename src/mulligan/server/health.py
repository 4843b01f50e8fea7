"""`/healthz` and `/readyz`, for what restarts servers and sends them requests.

They need no token and no host of ours, since probes have neither; so they tell nothing about jobs,
write nothing, and ask the store at most once a second, however many ask them.
"""

import asyncio
import time
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mulligan.core.errors import StoreError
from mulligan.server.service import Service

HEALTHZ, READYZ = "/healthz", "/readyz"
# However many probes there are, the store is asked at most this often.
KEPT = 1.0
# A store that takes longer is as good as away.
ANSWERS_WITHIN = 3.0


class Health:
    """The application, with the two probes before it."""

    def __init__(
        self, inner: ASGIApp, service: Service, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._inner = inner
        self._service = service
        self._monotonic = monotonic
        self._asking = asyncio.Lock()
        self._asked = -KEPT
        self._reason = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a probe, or pass the request on."""
        if scope["type"] != "http" or scope["path"] not in (HEALTHZ, READYZ):
            await self._inner(scope, receive, send)
            return
        answer = await self._answer(Request(scope, receive))
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return JSONResponse({"status": "not allowed"}, 405, headers={"Allow": "GET, HEAD"})
        if request.url.path == HEALTHZ:
            return JSONResponse({"status": "ok"})
        if reason := await self._unready():
            return JSONResponse({"status": "not ready", "reason": reason}, 503)
        return JSONResponse({"status": "ready"})

    async def _unready(self) -> str:
        """Why no requests should be sent here; empty if they may be."""
        if self._service.stopping.is_set():
            return "stopping"
        async with self._asking:
            if self._monotonic() - self._asked >= KEPT:
                self._reason = await self._ask()
                self._asked = self._monotonic()
            return self._reason

    async def _ask(self) -> str:
        try:
            async with asyncio.timeout(ANSWERS_WITHIN):
                await self._service.store.facts()
        except (StoreError, OSError, TimeoutError):
            return "the store does not answer"
        return ""
