"""Who is woken, when, and what is found without."""

import asyncio
import os
import socket
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from mulligan.stores.postgres import listen
from mulligan.stores.postgres.connection import connect
from mulligan.stores.postgres.fields import packed_columns
from mulligan.stores.postgres.listen import received
from mulligan.stores.postgres.url import read_url
from tests.chaos.proxy import Proxy
from tests.contract.builders import ANN, BOB, claim, job, jobs, names
from tests.contract.waits import woken
from tests.store_kit import with_query
from tests.stores.postgres.kit import (
    SEE_WHO_WAITS,
    connected,
    end_backends,
    opened,
    schema_of,
    server_of,
    waited_for,
)


async def test_notify_is_sent_only_when_a_waiter_is_registered(store, url):
    with connected(url) as connection:
        connection.execute(f'LISTEN "{store._sleepers.channel}"'.encode())

        def woken_now() -> list[str]:
            return [each.payload for each in connection.notifies(timeout=0.05)]

        await store.enqueue(jobs("a"))
        assert woken_now() == []
        assert names(await claim(store, demand=2)) == ["a"]
        await store.enqueue([job("elsewhere", region="EU")])
        assert woken_now() == []
        await store.enqueue(jobs("b"))
        assert woken_now() == [ANN.id]
        await store.enqueue(jobs("c"))
        assert woken_now() == []


async def test_whoever_is_woken_for_a_job_need_not_wait_for_the_disk(store, url):
    with connected(url) as other:
        other.execute(SEE_WHO_WAITS)
        await store.enqueue(jobs("nobody is asleep"))
        await claim(store, demand=2)
        await store.enqueue(jobs("Ann is woken"))
        await store.enqueue(jobs("she is on her way"))
        seen = dict(other.execute("SELECT id, waits FROM seen").fetchall())
    waits = {"nobody is asleep": "on", "Ann is woken": "off", "she is on her way": "on"}
    assert seen == waits
    assert names(await claim(store, demand=9)) == ["Ann is woken", "she is on her way"]


async def test_a_job_that_somebody_was_woken_for_is_on_the_disk_when_it_is_stored(store, url):
    await store.enqueue(jobs("a"))
    await claim(store, demand=2)
    with connected(url) as other:
        other.execute("SET synchronous_commit = off")
        other.execute("UPDATE job SET trail = 'x' WHERE id = 'a'")
        [[end]] = other.execute("SELECT pg_current_wal_insert_lsn()").fetchall()
        [stored] = await store.enqueue(jobs("b"))
        assert stored.created
        flushed = other.execute("SELECT pg_current_wal_flush_lsn() >= %s::pg_lsn", (end,))
        assert flushed.fetchone() == (True,)


async def test_what_was_handed_out_survives_a_crash_though_its_producer_still_waited_for_the_disk(
    own_server,
):
    async with opened(own_server.url) as store:
        await claim(store, demand=1)
        soon = store._database.statements["accept_soon"], (None, *packed_columns(jobs("a")))
        await store._database.pool.run(*soon)
        [handed_out] = (await claim(store, demand=1)).claims
        own_server.kill()
        await asyncio.to_thread(own_server.start)
        stored = await store.get("a")
        assert stored is not None
        assert (stored.status, stored.token) == ("processing", handed_out.token)


async def test_without_listen_workers_poll(url, caplog):
    quiet = with_query(url, listen="off")
    with caplog.at_level("INFO", "mulligan.store"):
        async with opened(quiet) as store, opened(url) as other:
            await claim(store)
            sleeping = asyncio.create_task(woken(store, ANN))
            await asyncio.sleep(0)
            await other.enqueue(jobs("a"))
            assert await sleeping
            assert names(await claim(store)) == ["a"]
            assert store._sleepers._listener is None
    assert caplog.text.count("listen=off") == 1


async def test_a_job_that_nobody_came_for_is_found_by_another(store, url):
    for worker in (ANN, BOB):
        await claim(store, worker=worker)
    await store.enqueue(jobs("a"))  # wakes ann, who has died
    assert await woken(store, BOB)
    assert names(await claim(store, worker=BOB)) == ["a"]


async def test_a_worker_whose_listener_was_cut_off_is_woken_by_a_new_one(store, url, caplog):
    await claim(store)
    sleeping = asyncio.create_task(store.wait(ANN, 60))
    await asyncio.sleep(0)
    await store._sleepers._ready.wait()
    with connected(url) as other:
        end_backends(other, "query = %s", f'LISTEN "{store._sleepers.channel}"')
    await asyncio.wait([store._sleepers._listener])
    assert "wake-ups stopped" in caplog.text
    sleeping.cancel()
    await asyncio.wait([sleeping])  # a look of its own would take the next one's wake-up
    sleeping = asyncio.create_task(store.wait(ANN, 60))
    await store.enqueue(jobs("a"))
    await asyncio.wait_for(sleeping, 30)


class Lost:
    """A connection that is lost when it is read, whose number another one gets at once."""

    def __init__(self) -> None:
        ours, self.peer = socket.socketpair()
        self.other, self.far = socket.socketpair()
        self.number = ours.detach()
        self.pgconn = self
        self.peer.send(b"x")

    def fileno(self) -> int:
        return self.number

    def consume_input(self) -> None:
        os.close(self.number)
        asyncio.get_running_loop().call_soon(self.use_the_number_again)
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    def use_the_number_again(self) -> None:
        os.dup2(self.other.fileno(), self.number)
        asyncio.get_running_loop().add_reader(self.number, lambda: None)

    def add_notify_handler(self, _: object) -> None:
        pass

    def notifies(self) -> None:
        return None


async def test_a_listener_that_is_lost_leaves_the_reader_of_a_newer_connection_alone():
    lost: Any = Lost()
    with pytest.raises(psycopg.OperationalError):
        await received(lost, lambda _: None)
    assert asyncio.get_running_loop().remove_reader(lost.number)
    os.close(lost.number)
    for each in (lost.peer, lost.other, lost.far):
        each.close()


async def test_a_listener_on_a_network_that_went_silent_is_lost(url, monkeypatch):
    """Nobody ends its connection, and nothing is sent that an answer could be missed of."""
    monkeypatch.setattr(listen, "ASK_EVERY", 0.01)
    there, heard = urlsplit(server_of(url)), asyncio.Queue[str]()
    with Proxy(there.port or 5432) as proxy:
        through = there._replace(netloc=f"{there.username}@127.0.0.1:{proxy.port}").geturl()
        connection = await connect(read_url(through))
        await connection.execute(f'LISTEN "{schema_of(url)}"'.encode())
        receiving = asyncio.create_task(received(connection, heard.put_nowait))
        with connected(url) as other:
            for number in "123":
                await waited_for(lambda: last_asked(other, connection) == "SELECT 1")
                other.execute("SELECT pg_notify(%s, %s)", (schema_of(url), number))
                assert await heard.get() == number
        proxy.deaf = True
        connection.answer_within = 0.05
        connection._look()  # which else looks when the time is up that it was connected with
        with pytest.raises(psycopg.OperationalError, match=r"no answer within 0\.05 s"):
            await receiving
        assert connection.closed


def last_asked(other: psycopg.Connection, connection: psycopg.AsyncConnection) -> str:
    """The last statement of a connection, as the server has it."""
    process = connection.info.backend_pid
    found = other.execute("SELECT query FROM pg_stat_activity WHERE pid = %s", (process,))
    [query] = found.fetchone() or [""]
    return str(query)
