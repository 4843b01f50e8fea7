from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import psycopg

from tests.servers import _debian
from tests.servers._server import LOOPBACK, Server, Unavailable, leash

DEBIAN = Path("/usr/lib/postgresql")
USER = "postgres"


class PostgresServer(Server):
    """PostgreSQL with its durable defaults: what it has committed survives `kill`.

    It refuses to run as root, and is run as the user `postgres` then.
    """

    name = "postgres"
    stop_signal = signal.SIGQUIT  # at once: the data is about to be removed

    @property
    def url(self) -> str:
        return f"postgresql://{USER}@{LOOPBACK}:{self.port}/postgres"

    def prepare(self) -> None:
        if _programs() is None:
            _debian.install("postgresql")
        if os.geteuid() == 0:
            shutil.chown(self.folder, USER, USER)
        command = [*leash(user=_user()), str(_program("initdb")), "-D", str(self.folder / "data")]
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
        self.spawn([*leash(user=_user()), _program("postgres"), "-D", self.folder / "data", *words])

    def answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.Error:
            return False
        return True


def _user() -> str | None:
    return USER if os.geteuid() == 0 else None


def _program(name: str) -> Path:
    programs = _programs()
    if programs is None:
        raise Unavailable("no PostgreSQL server found after its installation")
    return programs / name


def _programs() -> Path | None:
    """The folder with the server's programs: Debian's newest, or the one on the PATH."""
    versions = [path for path in DEBIAN.glob("*/bin") if (path / "initdb").exists()]
    if versions:
        return max(versions, key=lambda path: float(path.parent.name))
    initdb = shutil.which("initdb")
    return Path(initdb).resolve().parent if initdb else None
