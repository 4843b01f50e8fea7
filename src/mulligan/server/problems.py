"""Errors as RFC 9457 problem documents."""

import logging
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus

import msgspec
from msgspec import UNSET, Struct, UnsetType
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from mulligan.core.errors import (
    InvalidError,
    StoreError,
    UnknownJobError,
    UnknownLimitError,
    UnknownScheduleError,
)
from mulligan.core.redaction import Redactor, without_passwords
from mulligan.server.prefix import prefix_of

log = logging.getLogger("mulligan.server")

# kind: (status, title). A problem's type is an anchor on the page /api/docs.
KINDS: dict[str, tuple[int, str]] = {
    "not-json": (400, "The body is not JSON"),
    "no-token": (401, "A token is needed"),
    "not-signed-in": (401, "You are not signed in"),
    "not-allowed": (403, "Your role does not allow this"),
    "read-only": (403, "The server is read-only"),
    "cross-site": (403, "The request comes from another site"),
    "not-local": (403, "The request comes from another machine"),
    "unknown": (404, "There is no such thing"),
    "no-method": (405, "The route does not take this method"),
    "changed": (409, "The selection has changed"),
    "in-progress": (409, "The same request is under way"),
    "stale": (409, "The lease is no longer held"),
    "result-gate": (409, "The result must pass a gate of its app"),
    "forged": (409, "A stored value is not what was signed"),
    "too-large": (413, "The body is too large"),
    "not-json-type": (415, "The body is not sent as JSON"),
    "wrong-host": (421, "The host is not served here"),
    "invalid": (422, "A value breaks a rule"),
    "key-reused": (422, "The idempotency key belongs to another request"),
    "at-limit": (429, "A token has as much as it may have"),
    "defect": (500, "The server has a defect"),
    "store-away": (503, "The store cannot be reached"),
    "too-many": (503, "Too many listen"),
}
# A password in a driver's message: password=… or password='…'.
DRIVERS_PASSWORD = re.compile(
    r"(?i)(?<!\w)((?>\w*?(?:passw|secret|token))\w*+=)(?:'(?:[^'\\]|\\.)*+'?+\S*+|\S++)", re.DOTALL
)
redactor = Redactor()


class Problem(Struct, frozen=True):
    """A problem document; `jobs` are the ids that it is about, if any."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    jobs: list[str] | UnsetType = UNSET


class Refusal(Exception):  # noqa: N818 - an answer, not an error
    """Raised to refuse a request: a kind from the table, and the value, the rule and the remedy."""

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        jobs: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.jobs = jobs
        self.headers = headers or {}


def without_secrets(error: Exception) -> str:
    """The message of a store's error without secrets, for logs and answers."""
    return redactor.text(DRIVERS_PASSWORD.sub(r"\1***", without_passwords(str(error))))


async def answer_problem(request: Request, error: Exception) -> Response:
    """The problem document for whatever was raised."""
    refusal = as_refusal(request, error)
    status, title = KINDS[refusal.kind]
    problem = Problem(
        type=f"{prefix_of(request)}/api/docs#{refusal.kind}",
        title=title,
        status=status,
        detail=without_passwords(str(refusal)),
        instance=prefix_of(request) + request.url.path,
        jobs=list(refusal.jobs) or UNSET,
    )
    return Response(
        msgspec.json.encode(problem), status, refusal.headers, "application/problem+json"
    )


def as_refusal(request: Request, error: Exception) -> Refusal:
    """The refusal that an exception becomes; a bug shows no details."""
    match error:
        case Refusal():
            return error
        case HTTPException():
            return not_routed(request, error)
        case UnknownJobError() | UnknownScheduleError() | UnknownLimitError():
            return Refusal("unknown", str(error))
        case InvalidError():
            return Refusal("invalid", str(error))
        case StoreError() | OSError():
            reason = without_secrets(error)
            log.warning("%s %s: %s", request.method, request.url.path, reason)
            return Refusal("store-away", f"{reason}; try again in a moment")
        case _:  # the caller has logged it with its traceback
            return Refusal("defect", "see the server's log, and report it")


def not_routed(request: Request, error: HTTPException) -> Refusal:
    """The refusal of a path or a method that is not served."""
    if error.status_code != HTTPStatus.METHOD_NOT_ALLOWED:
        return Refusal("unknown", "no route has this path; /api/docs lists them all")
    allowed = (error.headers or {}).get("Allow", "")
    detail = f"{request.method} is not one of {allowed}"
    return Refusal("no-method", detail, headers=error.headers)
