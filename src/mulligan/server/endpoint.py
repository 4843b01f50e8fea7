"""Answers requests of one route: guard, read, decode, handle, encode."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, get_type_hints

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from mulligan.server.bodies import decode_body, decode_query, read_body
from mulligan.server.idempotency import fingerprint, job_id, once
from mulligan.server.service import Service
from mulligan.server.tokens import Role

log = logging.getLogger("mulligan.server")
encode = msgspec.json.Encoder().encode
JSON = "application/json"


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """A query without parameters."""


class Row(Struct, frozen=True):
    """A route; the signature of its handler gives the types, and its docstring the description.

    A handler gets the service and, if it has such parameters, those of the path, `query`, `body`,
    `request`, `principal` (whose token it is), and `id_of`, which derives ids of new jobs from
    their index where there is an Idempotency-Key. What it returns is encoded, unless it is a
    response already.
    """

    method: str
    path: str
    role: Role
    handler: Callable[..., Awaitable[Any]]
    media_type: str = JSON

    @property
    def hints(self) -> dict[str, Any]:
        """The types of the handler's parameters and of its answer."""
        return get_type_hints(self.handler, include_extras=True)

    @property
    def query(self) -> Any:
        """The type of its query."""
        return self.hints.get("query", Nothing)

    @property
    def body(self) -> Any:
        """The type of its body; None if it takes none."""
        return self.hints.get("body", Nothing) if self.writes else None

    @property
    def writes(self) -> bool:
        """Whether it may change anything."""
        return self.method == "POST"

    @property
    def keyed(self) -> bool:
        """Whether it uses an Idempotency-Key; workers need none, since they send tokens."""
        return self.role == "operate"


class Endpoint:
    """Answers the requests of one row."""

    def __init__(self, service: Service, row: Row) -> None:
        self._service = service
        self.row = row
        self._query = row.query
        self._body = msgspec.json.Decoder(row.body) if row.writes else None
        self._takes = inspect.signature(row.handler).parameters.keys()

    async def answer(self, request: Request) -> Response:
        """Answer the request; `answer_problem` turns what is raised into a problem document."""
        row = self.row
        principal = self._service.guard.admit(request, row.role)
        given: dict[str, Any] = {**request.path_params, "request": request, "id_of": None}
        given["principal"] = principal
        given["query"] = decode_query(self._query, request)
        raw = b""
        if self._body is not None:
            raw = await read_body(request, self._service.request_within)
            given["body"] = decode_body(self._body, raw or b"{}")
        key = request.headers.get("idempotency-key") if row.keyed else None
        if key is None:
            response = await self._handle(given)
            if row.role == "read" and not self._service.guard.may_operate(request):
                response.headers["Mulligan-Read-Only"] = "true"  # nothing to press in the dashboard
            return response
        asked = fingerprint(principal, row.method, request.url.path, raw)
        given["id_of"] = partial(job_id, key, asked)
        return await once(self._service.store, principal, key, asked, lambda: self._handle(given))

    async def _handle(self, given: Mapping[str, Any]) -> Response:
        row = self.row
        taken = {name: given[name] for name in self._takes if name != "service"}
        answer = await row.handler(self._service, **taken)
        if row.role == "operate":
            self._service.readings.forget()
            request = given["request"]
            name = self._service.guard.name_of(request)
            log.info("%s %s%s", row.method, request.url.path, f" by {name}" if name else "")
        if isinstance(answer, Response):
            return answer
        return Response(encode(answer), media_type=JSON)


class Endpoints:
    """All methods of one path."""

    def __init__(self, by_method: Mapping[str, Endpoint]) -> None:
        self.by_method = by_method

    async def answer(self, request: Request) -> Response:
        """Answer with the endpoint of the request's method."""
        return await self.by_method[request.method].answer(request)
