"""A pooler in between."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mulligan.core.outcome import Done
from tests.contract.builders import ANN, BOB, again, claim, done, jobs
from tests.contract.waits import woken
from tests.databases import Unavailable, _debian
from tests.databases._server import LOOPBACK, accepts, free_port, until
from tests.stores.postgres.kit import opened


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
