"""`/healthz` and `/readyz` of a server: for probes, which have no token and change nothing."""

import asyncio
import hashlib
from pathlib import Path

import httpx
import pytest

from mulligan.core.errors import StoreUnavailableError
from mulligan.server import health
from mulligan.server.health import Health
from mulligan.server.tokens import Tokens
from tests.server.process import server

PROBES = ("/healthz", "/readyz")


@pytest.mark.parametrize("path", PROBES)
async def test_a_probe_needs_neither_a_token_nor_our_host_nor_this_machine(serve, path):
    guarded = serve(tokens=Tokens({}), client=("10.0.0.9", 5), headers={"Host": "10.1.2.3:8420"})
    answer = await guarded.get(path)
    assert answer.status_code == 200
    assert set(answer.json()) == {"status"}, "nothing about jobs"
    assert (await guarded.head(path)).status_code == 200
    assert (await guarded.get("/api/status")).status_code == 401
    assert (await guarded.post(path)).status_code == 405


async def test_a_server_is_not_ready_while_the_store_is_away_but_well(serve, store, monkeypatch):
    client = serve()

    async def away() -> None:
        raise StoreUnavailableError("gone")

    monkeypatch.setattr(store, "facts", away)
    answer = await client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"status": "not ready", "reason": "the store does not answer"}
    assert (await client.get("/healthz")).status_code == 200


async def test_a_store_that_does_not_answer_in_time_is_away(serve, store, monkeypatch):
    monkeypatch.setattr(health, "ANSWERS_WITHIN", 0.01)
    client = serve()

    async def never() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(store, "facts", never)
    assert (await client.get("/readyz")).status_code == 503


async def test_a_server_that_stops_is_not_ready(client):
    client.service.stop()
    answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["reason"]) == (503, "stopping")
    assert (await client.get("/healthz")).status_code == 200


async def test_however_many_probes_there_are_the_store_is_asked_once_a_second(client, store):
    now, asked = 100.0, 0

    class Counting:
        async def facts(self) -> None:
            nonlocal asked
            asked += 1

    class Service:
        store = Counting()
        stopping = asyncio.Event()

    async def nobody(*_: object) -> None: ...

    probed = Health(nobody, Service(), lambda: now)  # type: ignore[arg-type]
    await asyncio.gather(*(probed._unready() for _ in range(50)))
    assert asked == 1
    now += health.KEPT
    await probed._unready()
    assert asked == 2


def contents(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.glob("jobs.db*"))
        if not path.name.endswith("-shm")  # where SQLite notes who reads
    }


@pytest.mark.slow
def test_probes_write_nothing(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    with server("--store", url) as (address, _):
        assert httpx.get(f"{address}/readyz").status_code == 200
    with server("--store", url, "--read-only") as (address, _):
        before = contents(tmp_path)
        assert "jobs.db" in before
        for _ in range(10):
            for path in PROBES:
                assert httpx.get(address + path).status_code == 200
        assert contents(tmp_path) == before
