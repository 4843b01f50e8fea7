"""Who sends a request to a mounted server, as the application around it says."""

import hashlib
from collections.abc import Awaitable, Callable, Iterable

from msgspec import Struct
from msgspec.structs import force_setattr
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from mulligan.core.errors import InvalidError
from mulligan.server.guard import Guard
from mulligan.server.problems import Refusal
from mulligan.server.tokens import ROLES, Role

KEY = "mulligan.principal"
FORBIDDEN = 403


class Principal(Struct, frozen=True):
    """Somebody who signed in elsewhere: a name for the log, and roles as those of tokens.

    `read` sees; `operate` also changes, and sees what `read` sees; `worker` is for workers that
    speak HTTP.
    """

    name: str
    roles: Iterable[str] = ("read",)

    def __post_init__(self) -> None:
        if not self.name or not isinstance(self.name, str):
            raise InvalidError(f"name {self.name!r} of a principal must be text, and not empty")
        given = [self.roles] if isinstance(self.roles, str) else list(self.roles)
        for role in given:
            if role not in ROLES:
                raise InvalidError(
                    f"role {role!r} of principal {self.name!r} is not one of {', '.join(ROLES)}"
                )
        implied = {"read"} if "operate" in given else set()
        force_setattr(self, "roles", frozenset(given) | implied)


Answer = Principal | Response | None
Authenticate = Callable[[Request], Answer | Awaitable[Answer]]


async def principal_of(request: Request, authenticate: Authenticate) -> Answer:
    """What the application says of the request; a plain function runs in a thread."""
    try:
        said = await run_in_threadpool(authenticate, request)
        answer = await said if isinstance(said, Awaitable) else said
    except HTTPException as error:
        return refused(error)
    if answer is None or isinstance(answer, Principal | Response):
        return answer
    raise TypeError(
        f"authenticate returned a {type(answer).__name__}; it must return a Principal, None if"
        " nobody is signed in, or a response that is sent instead"
    )


def refused(error: HTTPException) -> Response:
    """The answer to a request that the application refuses by raising, as its routes do."""
    location = (error.headers or {}).get("Location")
    if location is not None:
        return Response(status_code=error.status_code, headers={"Location": location})
    kind = "not-allowed" if error.status_code == FORBIDDEN else "not-signed-in"
    raise Refusal(kind, str(error.detail)) from error


class PrincipalGuard(Guard):
    """Allows what the roles of the principal allow; the mount has asked who it is."""

    WRITES = "this dashboard was mounted with read_only=True"

    def __init__(self, *, read_only: bool = False) -> None:
        super().__init__(None, read_only=read_only)

    def admit_page(self, request: Request) -> None:
        """Nothing is left to check: the mount lets nobody in who is not signed in."""

    def may_operate(self, request: Request) -> bool:
        """Whether the sender of the request may change anything."""
        return "operate" in self._principal(request).roles and not self.read_only

    def name_of(self, request: Request) -> str | None:
        """The principal's name, for the log."""
        name = self._principal(request).name
        return "".join(each if each.isprintable() else "?" for each in name)

    def _identify(self, request: Request, role: Role) -> tuple[bytes, bool]:
        principal = self._principal(request)
        if role not in principal.roles:
            has = " and ".join(sorted(principal.roles)) or "nothing"
            raise Refusal("not-allowed", f"{principal.name} is allowed to {has}; this needs {role}")
        # A browser sends a cookie by itself, so that pages of other sites are looked for.
        return hashlib.sha256(b"principal " + principal.name.encode()).digest(), False

    def _principal(self, request: Request) -> Principal:
        principal: Principal = request.scope[KEY]
        return principal


class MountGuard(Guard):
    """The guard of a mounted server that has tokens, or none."""

    OPEN = "give authenticate= or token_file= to serve others"
    WRITES = "this dashboard was mounted with read_only=True"
    HOST = "give authenticate= or token_file=, or name it in hosts="
