"""A server over an empty store in memory, asked without a network."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from mulligan import Mulligan
from mulligan.core.settings import Settings
from mulligan.server.application import make_application
from mulligan.server.guard import Guard
from mulligan.server.redaction import Redaction
from mulligan.server.service import Service
from mulligan.server.tokens import Tokens
from mulligan.stores.memory import MemoryStore

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def store(clock) -> MemoryStore:
    """The store that the servers of a test share."""
    return MemoryStore(clock=clock)


class Client(httpx.AsyncClient):
    """A client of one server, and the server's inside."""

    def __init__(self, service: Service, client: tuple[str, int], headers: dict[str, str]) -> None:
        self.service = service
        super().__init__(
            transport=httpx.ASGITransport(make_application(service), client=client),
            base_url="http://localhost:8420",
            headers=JSON | headers,
        )


@pytest.fixture
async def serve(store) -> AsyncIterator[Callable[..., Client]]:
    """Makes a server over the store, and gives a client of it."""
    made: list[Client] = []

    def make(
        *,
        app: Mulligan | None = None,
        tokens: Tokens | None = None,
        read_only: bool = False,
        hosts: tuple[str, ...] = (),
        redact: tuple[str, ...] = (),
        client: tuple[str, int] = ("127.0.0.1", 50_000),
        settings: Settings | None = None,
        headers: dict[str, str] | None = None,
    ) -> Client:
        guard = Guard(tokens, hosts=hosts, read_only=read_only)
        known = app or Mulligan("memory://", settings=settings)
        redaction = Redaction(redact, known.tasks)
        service = Service(store, known, guard, declares=app is not None, redaction=redaction)
        made.append(Client(service, client, headers or {}))
        return made[-1]

    yield make
    for each in made:
        await each.aclose()


@pytest.fixture
def client(serve) -> Client:
    """A client of a server without an app or tokens."""
    made: Client = serve()
    return made


async def good(asked: Any) -> Any:
    """The answer to a request that must succeed."""
    answer = await asked
    assert answer.status_code == 200, answer.text
    return answer.json()


async def refused(asked: Any, status: int, *words: str) -> Any:
    """The problem document of a request that must be refused."""
    answer = await asked
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert set(problem) >= {"type", "title", "status", "detail", "instance"}
    for word in words:
        assert word in problem["detail"], problem["detail"]
    return problem
