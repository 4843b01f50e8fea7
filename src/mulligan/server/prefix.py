"""The prefix: the part of each path that belongs to the application around a mounted server."""

from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.types import Scope

KEY = "mulligan.prefix"


def split(scope: Scope) -> tuple[str, str]:
    """The prefix and the path below it, both percent-encoded as the client sent them.

    Some servers leave `root_path` in the path, as ASGI has it, and some take it out.
    """
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    path = raw.decode("ascii", "replace")
    root: str = scope.get("root_path", "").rstrip("/")
    if not root:
        return "", path
    segments = path.split("/")
    prefix = "/".join(segments[: root.count("/") + 1])
    if unquote(prefix) == root:
        return prefix, path[len(prefix) :]
    return quote(root), path


def prefix_of(request: Request) -> str:
    """The prefix of a server that is mounted, and otherwise nothing."""
    prefix: str = request.scope.get(KEY, "")
    return prefix
