"""The guard: which requests are allowed. It checks each before anything of it is read."""

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.requests import Request

from mulligan.server.problems import Refusal
from mulligan.server.tokens import Role, Tokens, digest

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
UNSAFE_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Guard:
    """With tokens, a request needs one whose role fits. Without, it must come from this machine.

    Without tokens the Host must be an allowed one too. Otherwise the pages of a site whose name
    resolves to this machine could send requests.
    """

    # What somebody does who wants others to be served, writes to be allowed, or another host.
    OPEN = "start it with --token-file to serve others"
    WRITES = "this server was started with --read-only; ask one that was not"
    HOST = "name it with --allow-host"

    def __init__(
        self, tokens: Tokens | None, *, hosts: Iterable[str] = (), read_only: bool = False
    ) -> None:
        self._tokens = tokens
        self._hosts = LOCAL_NAMES | {bare_host(host) for host in hosts}
        self.read_only = read_only

    def admit(self, request: Request, role: Role) -> bytes:
        """Allow the request and return its principal, or refuse it with the reason.

        Without tokens all requests have the same principal.
        """
        principal, by_token = self._identify(request, role)
        if request.method not in UNSAFE_METHODS:
            return principal
        if self.read_only:
            raise Refusal("read-only", self.WRITES)
        if not by_token:
            check_same_site(request)
        return principal

    def admit_page(self, request: Request) -> None:
        """Allow a request for the dashboard's files, which hold no data."""
        if self._tokens is None:
            self._check_local(request)

    def may_operate(self, request: Request) -> bool:
        """Whether the sender of the request may change anything."""
        if self._tokens is None or self.read_only:
            return not self.read_only
        return "operate" in self._tokens.roles_of(bearer_token(request) or "")

    def name_of(self, request: Request) -> str | None:  # noqa: ARG002 - principals have names
        """Who asks, for the log; tokens have no names."""
        return None

    def _identify(self, request: Request, role: Role) -> tuple[bytes, bool]:
        """The principal, and whether a token says so, which no browser sends by itself."""
        token = bearer_token(request)
        if self._tokens is None:
            self._check_local(request)
            return b"", False
        self._check_role(token, role)
        return (b"", False) if token is None else (digest(token), True)

    def _check_role(self, token: str | None, role: Role) -> None:
        assert self._tokens is not None  # noqa: S101 - asked only where there are tokens
        how = {"WWW-Authenticate": "Bearer"}
        if token is None:
            raise Refusal("no-token", "send: Authorization: Bearer TOKEN", headers=how)
        roles = self._tokens.roles_of(token)
        if not roles:
            raise Refusal(
                "no-token", "the token is not in the token file of this server", headers=how
            )
        if role not in roles:
            raise Refusal(
                "not-allowed",
                f"the token is for {' and '.join(sorted(roles))}; this needs one for {role}",
            )

    def _check_local(self, request: Request) -> None:
        client = request.client.host if request.client else ""
        if not is_loopback(client):
            raise Refusal(
                "not-local",
                f"{client or 'an unknown address'} is not this machine, and the server has no"
                f" tokens; {self.OPEN}",
            )
        host = bare_host(request.headers.get("host", ""))
        if host not in self._hosts:
            raise Refusal(
                "wrong-host",
                f"host {host[:80]!r} is not one of {', '.join(sorted(self._hosts))}; {self.HOST}",
            )


def bearer_token(request: Request) -> str | None:
    """The token of the request."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def check_same_site(request: Request) -> None:
    """Refuse a write that a browser sent for a page of another site."""
    site = request.headers.get("sec-fetch-site", "none")
    if site not in ("same-origin", "none"):
        raise Refusal(
            "cross-site", f"Sec-Fetch-Site {site[:20]!r} must be same-origin; use this site's page"
        )
    origin = request.headers.get("origin")
    ours = request.headers.get("host", "").lower()
    # A proxy may have changed the Host; no page can have changed what the browser says of it.
    if origin is not None and site != "same-origin" and urlsplit(origin.lower()).netloc != ours:
        raise Refusal(
            "cross-site", f"Origin {origin[:80]!r} must be that of this server, {ours[:80]}"
        )
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(
            "not-json-type",
            f"Content-Type {kind[:40]!r} must be application/json for a write without a token",
        )


def bare_host(host: str) -> str:
    """The name or address of a Host header, without port and brackets."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0] if host.count(":") == 1 else host


def is_loopback(address: str) -> bool:
    """Whether the address is this machine's own."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address == "localhost"
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_loopback
