"""A pooler in between."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from mulligan.core.outcome import Done
from tests.contract.builders import ANN, BOB, again, claim, done, jobs
from tests.contract.waits import woken
from tests.databases import Unavailable, _debian
from tests.databases._server import LOOPBACK, accepts, free_port, until
from tests.stores.postgres.kit import opened, server_of, use_everything

SESSIONS = 4
# Settings that PgBouncer keeps for each of its clients, and sets anew for the next one.
KEPT = ("application_name", "client_encoding", "DateStyle", "standard_conforming_strings")
LEFT_BEHIND = """
SELECT name || ' = ' || setting FROM pg_settings WHERE source = 'session' AND name <> ALL (%s)
UNION ALL SELECT 'prepared ' || name FROM pg_prepared_statements
UNION ALL SELECT 'listens to ' || channel FROM pg_listening_channels() AS channel
UNION ALL SELECT 'locks ' || objid FROM pg_locks
          WHERE locktype = 'advisory' AND pid = pg_backend_pid()
"""


@pytest.fixture
def bouncer(url, tmp_path) -> Iterator[str]:
    """The store's URL through PgBouncer in transaction mode."""
    if shutil.which("pgbouncer") is None:
        try:
            _debian.install("pgbouncer")
        except Unavailable as reason:
            pytest.skip(f"PgBouncer: {reason}")
    port, there = free_port(), urlsplit(url)
    settings = tmp_path / "pgbouncer.ini"
    users = tmp_path / "users.txt"
    users.write_text(f'"{there.username}" ""\n')
    settings.write_text(
        "[databases]\n"
        f"* = host={there.hostname} port={there.port}\n"
        "[pgbouncer]\n"
        f"listen_addr = {LOOPBACK}\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = trust\nauth_file = {users}\npool_mode = transaction\n"
        "ignore_startup_parameters = extra_float_digits,options\n"
        f"default_pool_size = {SESSIONS}\n"
    )
    for path in (tmp_path, *tmp_path.parents):
        if path.is_relative_to(Path("/tmp")) and path != Path("/tmp"):  # noqa: S108
            path.chmod(0o755)
    command = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--init-groups"]
    program = ["pgbouncer", str(settings)]
    with subprocess.Popen([*command, *program], stderr=subprocess.DEVNULL) as process:
        try:
            assert until(lambda: accepts(port), 10), "pgbouncer did not start"
            yield there._replace(netloc=f"{there.username}@{LOOPBACK}:{port}").geturl()
        finally:
            process.terminate()


async def test_behind_a_pooler_in_transaction_mode_everything_but_listen_works(bouncer, caplog):
    with caplog.at_level("WARNING", "mulligan.store"):
        async with opened(bouncer) as store, opened(bouncer) as other:
            for turn in range(12):  # more often than it takes to prepare a statement
                await store.enqueue(jobs(f"a{turn}", f"b{turn}"))
                both = (await claim(store, demand=2)).claims
                assert len(both) == 2
                assert await store.commit([done(both[0]), again(both[1])]) == ["written"] * 2
                rest = (await claim(other, demand=1, worker=BOB)).claims
                assert await other.commit([Done(each.lease) for each in rest]) == ["written"]
            await claim(store)
            sleeping = asyncio.create_task(woken(store, ANN))
            await asyncio.sleep(0)
            await other.enqueue(jobs("last"))
            assert await sleeping
            assert any("pooler" in sentence for _, sentence, _ in await store.doctor())
    assert caplog.text.count("a connection pooler") == 2, "said once by each store"


async def test_nothing_is_left_on_the_sessions_of_a_pooler(bouncer):
    await use_everything(bouncer)
    with ExitStack() as open_:
        for _ in range(SESSIONS):
            other = open_.enter_context(psycopg.connect(server_of(bouncer)))
            other.prepare_threshold = None
            assert other.execute(LEFT_BEHIND, (list(KEPT),)).fetchall() == []


@pytest.mark.usefixtures("seen_as_pooler")
async def test_nothing_is_left_on_a_session_that_may_be_a_poolers(url, monkeypatch):
    left: list[object] = []
    close = psycopg.AsyncConnection.close

    async def look_and_close(connection: psycopg.AsyncConnection) -> None:
        if not connection.closed:
            assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
            found = await connection.execute(LEFT_BEHIND, ([],), prepare=False)
            left.append(await found.fetchall())
        await close(connection)

    monkeypatch.setattr(psycopg.AsyncConnection, "close", look_and_close)
    await use_everything(url)
    assert len(left) > 4
    assert [each for each in left if each] == []


async def test_a_quiet_pooler_is_recognized_without_listening(bouncer, monkeypatch):
    def refuse(*_: object) -> None:
        pytest.fail("a session of the pooler was made to listen")

    monkeypatch.setattr("mulligan.stores.postgres.wakeup.Sleepers.test", refuse)
    async with opened(bouncer) as store:
        assert store._database.pool.pooled
