"""Where a command reads the state of a running system: its store, or a server's API."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from msgspec import to_builtins

from mulligan.app.explain import explain_job
from mulligan.app.hour import last_hour
from mulligan.app.overview import measure, metrics_document, overview
from mulligan.cli.find_app import find_app, given, opened, tell_away
from mulligan.cli.records import read_records
from mulligan.cli.show import job_json
from mulligan.core.errors import InvalidError, StoreUnavailableError
from mulligan.core.record import SHOWN_LIMIT, Records, shown
from mulligan.stores import redact
from mulligan.stores.contract import Store

VARIABLE = "MULLIGAN_TOKEN"
ANSWER_WITHIN = 15.0
NOT_FOUND = 404


class Target(Protocol):
    """A running system; a store and a server of it show the same."""

    async def overview(self) -> dict[str, Any]:
        """Everything at one instant."""
        ...

    async def metrics(self) -> dict[str, Any]:
        """Every metric by name."""
        ...

    async def tasks(self) -> list[dict[str, Any]]:
        """Every task that has run, with its last hour."""
        ...

    async def job(self, job: str) -> dict[str, Any] | None:
        """One job with its explanation; None if none is stored."""
        ...

    async def records(self, job: str) -> Records:
        """What the job has recorded."""
        ...


class StoreTarget:
    """A system, read from its store."""

    def __init__(self, store: Store, app: str) -> None:
        self._store = store
        self._app = app

    async def overview(self) -> dict[str, Any]:
        """Everything at one instant."""
        return await overview(self._store, self._app)

    async def metrics(self) -> dict[str, Any]:
        """Every metric by name."""
        return metrics_document(await measure(self._store))

    async def tasks(self) -> list[dict[str, Any]]:
        """Every task that has run, with its last hour."""
        found: list[dict[str, Any]] = to_builtins((await last_hour(self._store)).tasks())
        return found

    async def job(self, job: str) -> dict[str, Any] | None:
        """One job with its explanation."""
        found = await self._store.get(job)
        if found is None:
            return None
        history = await self._store.history(job)
        sentence = await explain_job(self._store, job, self._app)
        return job_json(found, history) | {"explanation": sentence}

    async def records(self, job: str) -> Records:
        """What the job has recorded."""
        return shown(await self._store.records(job, SHOWN_LIMIT))


class ServerTarget:
    """A system, read through a server's API."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._shown = redact(self._url)

    async def overview(self) -> dict[str, Any]:
        """Everything at one instant."""
        return await self._known("/api/overview", "queues")

    async def metrics(self) -> dict[str, Any]:
        """Every metric by name."""
        found: dict[str, Any] = (await self._known("/api/metrics", "metrics"))["metrics"]
        return found

    async def tasks(self) -> list[dict[str, Any]]:
        """Every task that has run, with its last hour."""
        found: list[dict[str, Any]] = (await self._known("/api/hour/tasks", "tasks"))["tasks"]
        return found

    async def job(self, job: str) -> dict[str, Any] | None:
        """One job with its explanation."""
        path = f"/api/jobs/{quote(job, safe='')}"
        found = await self._get(path)
        if found is None:
            return None
        return found | (await self._get(f"{path}/explain") or {})

    async def records(self, job: str) -> Records:
        """What the job has recorded; a server of an older release does not say."""
        return read_records(await self._get(f"/api/jobs/{quote(job, safe='')}/records") or {})

    async def _known(self, path: str, field: str) -> dict[str, Any]:
        """A document that every mulligan server has."""
        found = await self._get(path)
        if not isinstance(found, dict) or field not in found:
            raise StoreUnavailableError(f"{self._shown} is no mulligan server")
        return found

    async def _get(self, path: str) -> dict[str, Any] | None:
        return await asyncio.to_thread(self._ask, path)

    def _ask(self, path: str) -> dict[str, Any] | None:
        headers = {"Accept": "application/json"}
        request = Request(self._url + path, headers=headers)  # noqa: S310 - http or https, checked
        token = os.environ.get(VARIABLE)
        if token:
            # Not sent to where a redirect leads, which may be another's host.
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        try:
            with urlopen(request, timeout=ANSWER_WITHIN) as answer:  # noqa: S310 - as above
                document: dict[str, Any] = json.loads(answer.read())
                return document
        except HTTPError as error:
            with error:
                if error.code == NOT_FOUND:
                    return None
                raise StoreUnavailableError(f"{self._shown} answered {refusal(error)}") from error
        except (URLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise StoreUnavailableError(
                f"{self._shown} cannot be reached: {reason}; check that `mulligan serve` runs there"
            ) from error


def refusal(error: HTTPError) -> str:
    """Why a server refused."""
    if error.code in (401, 403):
        return f"{error.code}: set {VARIABLE} to a token with the role read"
    try:
        return f"{error.code}: {json.loads(error.read())['detail']}"
    except (ValueError, KeyError, TypeError, OSError):
        return str(error.code)


@asynccontextmanager
async def target_of(named: str | None, app: str | None, store: str | None) -> AsyncIterator[Target]:
    """The target that a command names: an app, a store, or a server by its http URL."""
    url = named if named and is_server(named) else store
    if url and is_server(url) and (named == url or given("store") or not (named or app)):
        if named and named != url:
            raise InvalidError(f"app {named!r} and server {redact(url)!r}: give one of them")
        yield ServerTarget(url)
        return
    found = find_app(named, app, store, looks=True)
    async with opened(found) as open_store:
        yield StoreTarget(open_store, found.called)
        tell_away(open_store)


def is_server(url: str) -> bool:
    """Whether it is the URL of a server."""
    return url.startswith(("http://", "https://"))
