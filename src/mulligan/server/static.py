"""The dashboard's files, all from the package."""

import hashlib
from collections.abc import Iterator
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from mulligan.server.guard import Guard

MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
    "woff2": "font/woff2",
    "txt": "text/plain; charset=utf-8",
}


class File(Struct, frozen=True):
    """A file as it is sent."""

    content: bytes
    media_type: str
    etag: str


class Static:
    """Serves files that were read at the start; browsers cache them and revalidate."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._files = dict(packaged(files("mulligan.server") / "static", "/"))
        self._files["/"] = self._files["/index.html"]

    @property
    def paths(self) -> list[str]:
        """The paths that are served."""
        return list(self._files)

    async def answer(self, request: Request) -> Response:
        """The file of that path."""
        self._guard.admit_page(request)
        file = self._files[request.url.path]
        headers = {"ETag": file.etag, "Cache-Control": "no-cache"}
        if file.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(file.content, headers=headers, media_type=file.media_type)


def packaged(folder: Traversable, prefix: str) -> Iterator[tuple[str, File]]:
    """Every file under the folder whose kind is known, by its path."""
    for entry in folder.iterdir():
        path = prefix + entry.name
        if entry.is_dir():
            yield from packaged(entry, f"{path}/")
        elif (kind := MEDIA_TYPES.get(entry.name.rpartition(".")[2])) is not None:
            content = entry.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            yield path, File(content, kind, etag)
