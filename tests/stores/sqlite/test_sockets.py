"""The sockets of sleepers: where they are, and which are left alone."""

import secrets
import socket
import time
from pathlib import Path

import pytest

from mulligan.stores.sqlite.sockets import folder_of
from tests.contract.builders import ANN, claim, jobs
from tests.store_kit import handle
from tests.stores.sqlite.kit import exists, rows, sockets_of, wakeup_folder


async def test_the_socket_of_a_dead_process_is_swept_away(store, path):
    folder = wakeup_folder(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stale:
        stale.bind(str(folder / "stale"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as alive:
        alive.bind(str(folder / "alive"))
        await claim(store)
    assert "stale" not in sockets_of(path)
    assert "alive" in sockets_of(path)


async def test_a_path_too_long_for_a_socket_has_its_sockets_elsewhere(tmp_path, clock, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/tmp")  # noqa: S108 - as most have
    long = tmp_path / ("long" * 30)
    long.mkdir()
    async with handle(f"sqlite:///{long}/jobs.db", clock) as store:
        await claim(store)
        [(address,)] = await rows(store, "SELECT socket FROM sleeper")
        assert address.startswith("/tmp/mulligan-")  # noqa: S108
    assert not exists(Path(address).parent)


async def listen_at(store, address):
    statement = "UPDATE sleeper SET socket = ? RETURNING asleep"
    return await store._runner.run(lambda tx: tx.db.execute(statement, (address,)).fetchall())


async def wake_at(url, address):
    """Have a job wake a sleeper whose row says that it listens here."""
    async with handle(url, time.time) as sleeping, handle(url, time.time) as store:
        await claim(sleeping, worker=ANN)
        assert await listen_at(store, address) == [(1,)]
        await store.enqueue(jobs(secrets.token_hex()))
        assert len((await claim(sleeping, worker=ANN)).claims) == 1


async def test_a_row_that_names_an_ordinary_file_does_not_delete_it(url, path, tmp_path):
    for folder in (tmp_path, wakeup_folder(path)):
        each = folder / "letter"
        each.parent.mkdir(exist_ok=True)
        each.write_text("dear")
        await wake_at(url, str(each))
        assert each.read_text() == "dear"


async def test_a_row_that_names_a_link_neither_follows_nor_deletes_it(url, path, tmp_path):
    link = wakeup_folder(path) / "link"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
        stranger.bind(str(tmp_path / "stranger"))
        stranger.settimeout(0)
        link.symlink_to(tmp_path / "stranger")
        await wake_at(url, str(link))
        with pytest.raises(BlockingIOError):
            stranger.recv(100)
    await wake_at(url, str(link))
    assert link.is_symlink()
    assert exists(tmp_path / "stranger")


@pytest.mark.parametrize(
    "way", ["{outside}", "{folder}/../stranger", "{folder}/deeper/../../stranger"]
)
async def test_a_socket_outside_the_folder_is_neither_sent_to_nor_deleted(url, path, tmp_path, way):
    outside, deeper = tmp_path / "stranger", wakeup_folder(path) / "deeper"
    deeper.mkdir()
    address = way.format(outside=outside, folder=wakeup_folder(path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
        stranger.bind(str(outside))
        stranger.settimeout(0)
        await wake_at(url, address)
        with pytest.raises(BlockingIOError):
            stranger.recv(100)
    await wake_at(url, address)
    assert exists(outside)


@pytest.mark.parametrize("address", ["", "/", ".", "{folder}/a\0b", "{folder}/absent", b"bytes", 5])
async def test_what_is_no_path_of_a_socket_holds_up_nothing(url, path, address):
    if isinstance(address, str):
        address = address.format(folder=wakeup_folder(path))
    await wake_at(url, address)


async def test_sockets_are_not_kept_behind_a_link(url, path, tmp_path, clock):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stale:
        stale.bind(str(elsewhere / "stale"))
    path.with_name("jobs.db-wakeup").symlink_to(elsewhere)
    async with handle(url, clock) as store:
        await claim(store)
        assert await rows(store, "SELECT socket FROM sleeper") == [(None,)]
        await listen_at(store, f"{path}-wakeup/stale")
        await store.enqueue(jobs("a"))
    assert [each.name for each in list_of(elsewhere)] == ["stale"]


async def test_sockets_in_the_temporary_folder_are_not_kept_behind_a_link(
    tmp_path, clock, monkeypatch
):
    temporary, elsewhere = tmp_path / "t", tmp_path / "e"
    temporary.mkdir()
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(temporary))
    path = tmp_path / ("long" * 30) / "jobs.db"
    path.parent.mkdir()
    folder_of(str(path)).symlink_to(elsewhere)
    async with handle(f"sqlite:///{path}", clock) as store:
        await claim(store)
        assert await rows(store, "SELECT socket FROM sleeper") == [(None,)]
    assert list_of(elsewhere) == []


def list_of(folder):
    return list(folder.iterdir())
