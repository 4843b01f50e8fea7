"""What happens when the server goes away, is full, or takes no writes."""

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
import uvloop
from redis.asyncio import Connection, Redis

from mulligan.core.counts import Count
from mulligan.core.errors import StoreError, StoreUnavailableError
from mulligan.core.health import CLOSED, Breaker
from mulligan.core.record import Record, Recording
from mulligan.stores.redis import RedisStore
from mulligan.stores.redis.errors import AnswerError, explain
from mulligan.stores.redis.url import read_url
from tests.contract.builders import (
    ANN,
    FRESH,
    again,
    begin,
    claim,
    done,
    job,
    jobs,
    names,
    start,
)
from tests.databases._server import LOOPBACK
from tests.store_kit import with_query
from tests.stores.redis.kit import AWAY, opened


async def test_a_restart_keeps_everything_and_the_store_object_goes_on(own_server):
    async with opened(own_server.url) as store:
        first, second = await begin(store, *jobs("a", "b"))
        await store.commit([again(first, 3600.0)])
        await store.enqueue([job("c"), job("later", delay=60.0)])
        before = (await store.stats()).lanes
        own_server.kill()
        with pytest.raises(StoreUnavailableError, match=r"127\.0\.0\.1"):
            await store.enqueue(jobs("d"))
        own_server.start()
        assert (await store.stats()).lanes == before
        assert await store.commit([done(second)]) == ["written"]
        assert len(await store.history("a")) == 1
        assert names(await claim(store, demand=9)) == ["c"]


async def test_a_worker_that_waits_is_told_when_the_server_goes(own_server):
    async with opened(own_server.url) as store:
        await claim(store)
        sleeper = asyncio.create_task(store.wait(ANN, 60.0))
        async with Redis.from_url(own_server.url) as client:
            while not (await client.info("clients"))["blocked_clients"]:  # noqa: ASYNC110
                await asyncio.sleep(0)
        own_server.kill()
        with pytest.raises(StoreUnavailableError):
            await sleeper


async def test_a_connection_that_the_server_closed_while_it_was_idle_is_not_used_again(own_server):
    async with opened(own_server.url) as store, Redis.from_url(own_server.url) as other:
        await store.enqueue(jobs("a"))
        assert await other.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert names(await claim(store)) == ["a"]


async def test_connections_are_used_again_and_no_more_are_made(own_server):
    async with opened(own_server.url) as store, Redis.from_url(own_server.url) as other:
        await store.enqueue(jobs("a"))
        before = (await other.info("stats"))["total_connections_received"]
        for number in range(20):
            await store.enqueue(jobs(f"b{number}"))
        assert (await other.info("stats"))["total_connections_received"] == before


async def test_an_answer_that_comes_too_late_is_not_taken_for_that_of_a_later_command(own_server):
    async with opened(own_server.url) as store, Redis.from_url(own_server.url) as other:
        within = store._server._answer_timeout
        await other.client_pause(60_000, all=False)
        store._server._answer_timeout = 0.01
        with pytest.raises(StoreUnavailableError, match="did not answer in time"):
            await store.enqueue(jobs("a"))
        store._server._answer_timeout = within
        await other.client_unpause()
        assert await store.depth(FRESH, 10) in (0, 1)
        assert (await store.facts()).paused == frozenset()


async def test_a_server_that_talks_nonsense_counts_as_away(own_server):
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"LIB-VER")  # the driver presents itself
        writer.write(b"+OK\r\n" * 2)
        await reader.readuntil(b"INFO")
        writer.write(b"nonsense\r\n")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        store = RedisStore(f"redis://127.0.0.1:{port}/0")
        with pytest.raises(StoreUnavailableError, match="cannot be reached"):
            await store.open()
        await store.close()


RESET = struct.pack("ii", 1, 0)
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request) -> Callable[[Coroutine[Any, Any, None]], None]:
    """Runs a coroutine on a loop of its kind: uvloop raises RuntimeError for some lost writes."""

    def run_it(work: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(work)

    return run_it


async def closed_by_the_peer(writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(30):
        with suppress(OSError):
            await writer.wait_closed()


def test_a_server_that_accepts_and_resets_counts_as_away(run, monkeypatch):
    greet = Connection.on_connect_check_health

    async def greet_once_reset(driver: Connection, **options: Any) -> None:
        assert driver._writer is not None
        await closed_by_the_peer(driver._writer)
        await greet(driver, **options)

    async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = writer.get_extra_info("socket")
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        writer.transport.abort()

    async def enqueue() -> None:
        async with await asyncio.start_server(reset, LOOPBACK, 0) as door:
            store = RedisStore(f"redis://{LOOPBACK}:{door.sockets[0].getsockname()[1]}/0")
            with pytest.raises(StoreUnavailableError, match="cannot be reached"):
                await store.enqueue(jobs("a"))
            await store.close()

    monkeypatch.setattr(Connection, "on_connect_check_health", greet_once_reset)
    run(enqueue())


@pytest.mark.parametrize("end", ["close", "reset"])
def test_a_connection_that_ended_while_the_driver_had_it_is_lost_at_once(
    run, monkeypatch, own_server, end
):
    url = own_server.url

    async def ended(driver: Connection) -> None:
        assert driver._reader is not None
        assert driver._writer is not None
        if end == "reset":
            driver._writer.transport.abort()
            await closed_by_the_peer(driver._writer)
            return
        async with Redis.from_url(url) as other:
            await other.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        async with asyncio.timeout(30):
            await driver._reader.read()

    async def ask() -> None:
        store = RedisStore(url)
        connection = store._server.connection

        async def connection_that_ended() -> Connection:
            made = await connection()
            assert isinstance(made, Connection)
            await ended(made)
            return made

        monkeypatch.setattr(store._server, "connection", connection_that_ended)
        # No answer timeout may be what ends this wait.
        monkeypatch.setattr(store._server, "_answer_timeout", None)
        async with asyncio.timeout(30):
            with pytest.raises(StoreUnavailableError, match="cannot be reached"):
                await store.stats()
        await store.close()

    run(ask())


class Mute:
    """A transport whose peer is gone without a word."""

    def __init__(self, transport: Any) -> None:
        self.abort, self.is_closing = transport.abort, transport.is_closing

    def write(self, _: bytes) -> None:
        """Nothing comes back."""


async def test_connections_of_before_an_outage_are_found_out_together(own_server):
    async with opened(own_server.url) as store:
        server = store._server
        await asyncio.gather(*[store.stats() for _ in range(20)])
        assert len(server._idle) == 20
        for wire in server._idle:
            wire._transport = Mute(wire._transport)  # type: ignore[assignment]
        server._answer_timeout = 0.01
        with pytest.raises(StoreUnavailableError, match="did not answer in time"):
            await store.enqueue(jobs("a"))
        server._answer_timeout = 30.0
        async with asyncio.timeout(20):
            assert (await store.enqueue(jobs("a")))[0].created


def test_a_transport_that_refuses_a_write_is_a_lost_connection(run, own_server, monkeypatch):
    async def ask() -> None:
        async with opened(own_server.url) as store:
            wire = store._server._free_wire()
            assert wire is not None

            class Refusing:
                def __getattr__(self, name: str) -> Any:
                    return getattr(transport, name)

                def write(self, _: bytes) -> None:
                    raise RuntimeError("Cannot call write() after write_eof()")

            transport, wire._transport = wire._transport, Refusing()  # type: ignore[assignment]
            store._server._idle.append(wire)
            with pytest.raises(StoreUnavailableError, match="cannot be reached"):
                await store.enqueue(jobs("a"))
            assert (await store.enqueue(jobs("a")))[0].created

    run(ask())


async def test_a_flush_of_the_servers_scripts_is_not_noticed(store, client):
    await store.enqueue(jobs("a"))
    await client.script_flush()
    first = await start(store)
    await client.script_flush()
    assert await store.commit([done(first)]) == ["written"]


async def test_a_full_server_refuses_new_jobs_whole_and_lets_work_finish(own_server):
    async with opened(own_server.url) as store, Redis.from_url(own_server.url) as client:
        await store.enqueue(jobs("a", "b", "c"))
        first = await start(store)
        size = await client.dbsize()
        await client.config_set("maxmemory", 1)
        with pytest.raises(StoreError, match="out of memory and took none of this batch"):
            await store.enqueue([job("d"), job("e", unique_key="u", delay=5.0)])
        assert await client.dbsize() == size
        assert await store.get("d") is None
        notes = (Record("step", 1, b"1", "charge"), Record("log", 2, b'"charged"'))
        assert await store.record([Recording(first.lease, notes)]) == ["recorded"]
        assert await store.commit([done(first, None, job("next"))]) == ["written"]
        second = await start(store)
        assert await store.commit([again(second)]) == ["written"]
        assert await store.cancel(["c"], "enough") == [True]
        assert (await store.beat(ANN, [])).lost == []
        assert await store.count([Count("default", "US", "failed", 1)])
        assert await store.switch("default", "US", CLOSED, Breaker(open=True))
        with pytest.raises(StoreError, match="out of memory"):
            await store.note("a", b"1", 60.0)
        await store.note("a", None, 0.0)
        assert await store.prune(-1.0, 10) == 2
        await client.config_set("maxmemory", 0)
        assert (await store.enqueue(jobs("d")))[0].created


WRITES_REFUSED = {
    "a replica": (("REPLICAOF", LOOPBACK, "1"), "is a replica that takes no writes"),
    "too few replicas": (("CONFIG", "SET", "min-replicas-to-write", "1"), "NOREPLICAS"),
}


@pytest.mark.parametrize(("words", "said"), WRITES_REFUSED.values(), ids=WRITES_REFUSED)
async def test_a_server_that_takes_no_writes_counts_as_away(own_server, words, said):
    async with opened(own_server.url) as store, Redis.from_url(own_server.url) as client:
        await store.enqueue(jobs("a"))
        await client.execute_command(*words)
        with pytest.raises(StoreUnavailableError, match=said):
            await store.enqueue(jobs("b"))


@pytest.mark.parametrize(
    ("said", "kind", "sentence"),
    [
        ("OOM command not allowed when used memory > 'maxmemory'.", StoreError, "out of memory"),
        ("READONLY You can't write against a read only replica.", StoreUnavailableError, "replica"),
        ("NOREPLICAS Not enough good replicas to write.", StoreUnavailableError, "now: NOREP"),
        ("WRONGTYPE Operation against a key", StoreError, "refused: WRONGTYPE"),
    ],
)
def test_an_error_within_a_script_of_an_older_server_means_the_same(said, kind, sentence):
    script = "Error running script (call to f_5da5948c): @user_script:1: @user_script: 1: -"
    error = explain(AnswerError(script + said), read_url(AWAY))
    assert type(error) is kind
    assert sentence in str(error)


async def test_errors_show_no_credentials():
    store = RedisStore(AWAY)
    with pytest.raises(StoreUnavailableError) as caught:
        await store.open()
    assert "hunter2" not in str(caught.value)
    assert "redis at 127.0.0.1:1 cannot be reached" in str(caught.value)
    await store.close()


async def test_a_wrong_password_is_named_without_showing_it(own_server):
    wrong = own_server.url.replace("redis://", "redis://me:hunter2@")
    store = RedisStore(wrong)
    with pytest.raises(StoreError, match="refused the user or password") as caught:
        await store.open()
    assert "hunter2" not in str(caught.value)
    await store.close()


async def test_a_write_that_too_few_replicas_acknowledged_is_reported(url):
    async with opened(with_query(url, wait_replicas="1", wait_timeout="0.01")) as store:
        with pytest.raises(StoreUnavailableError, match=r"0 of 1 replicas .* again is safe"):
            await store.enqueue(jobs("a"))
        assert await store.get("a") is not None
