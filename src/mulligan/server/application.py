"""The ASGI application: the route table, the dashboard's files, and headers on every answer."""

import re
from urllib.parse import quote, unquote

from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mulligan.core.errors import MulliganError
from mulligan.server.endpoint import Endpoint, Endpoints
from mulligan.server.health import Health
from mulligan.server.prefix import KEY, split
from mulligan.server.problems import Refusal, answer_problem
from mulligan.server.routes import ROUTES
from mulligan.server.service import Service
from mulligan.server.static import Static

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Segment(Convertor[str]):
    """One part of a path, percent-encoded: a name may contain a slash."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        """The decoded name."""
        return unquote(value)

    def to_string(self, value: str) -> str:
        """The name, percent-encoded."""
        return quote(value, safe="")


register_url_convertor("segment", Segment())


def make_application(service: Service) -> ASGIApp:
    """The application with all its routes and probes, and the headers on every answer."""
    return Secured(Health(make_routes(service), service))


def make_routes(service: Service) -> ASGIApp:
    """The routes alone, for a mount that adds the headers to its own answers too."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for row in ROUTES:
        by_path.setdefault(row.path, {})[row.method] = Endpoint(service, row)
    routes = [route(path, Endpoints(methods)) for path, methods in by_path.items()]
    static = Static(service.guard)
    routes += [Route(path, static.answer) for path in static.paths]
    raised = (HTTPException, Refusal, MulliganError, OSError, Exception)
    handlers = dict.fromkeys(raised, answer_problem)
    application = Starlette(routes=routes, exception_handlers=handlers)
    application.router.redirect_slashes = False
    return application


def route(path: str, endpoints: Endpoints) -> Route:
    """A path of the route table, with its methods."""
    made = Route(re.sub(r"{(\w+)}", r"{\1:segment}", path), endpoints.answer)
    made.methods = set(endpoints.by_method)
    return made


class Secured:
    """Adds the security headers to every answer, and routes by the raw path below the prefix."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def send_secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        prefix, path = split(scope)
        inner = {**scope, KEY: prefix, "path": path, "root_path": ""}
        if path:
            await self._application(inner, receive, send_secured)
        else:  # relative links lead below the prefix only from a path that ends with a slash
            await RedirectResponse(f"{prefix}/")(inner, receive, send_secured)
