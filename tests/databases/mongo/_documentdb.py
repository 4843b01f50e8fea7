from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psycopg

from tests.databases import _debian
from tests.databases._server import LOOPBACK, Server, Unavailable, accepts, free_port, leash
from tests.databases.mongo._mongod import pings

HERE = Path(__file__).parent
PROJECT = HERE.parents[2]
POSTGRES = "/usr/lib/postgresql/18/bin/postgres"

# The data folder is put into the installed system where only this process and its children see it,
# so that runs can share one installation and nothing stays mounted when they end.
IN_ITS_OWN_MOUNTS = """
set -e
mount --bind "$1" "$2/data"
mount -t tmpfs tmpfs "$2/dev/shm"
shift
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 chroot "$@"
"""


class DocumentDBServer(Server):
    """DocumentDB, a PostgreSQL extension compatible with MongoDB, behind `gateway`.

    No authentication, transactions of several documents or change streams. The first start
    installs it into a cache folder, which needs root on Debian and takes about two minutes.
    """

    name = "mongo"
    stop_signal = signal.SIGQUIT  # at once: the data is about to be removed

    def __init__(self) -> None:
        super().__init__()
        self.postgres_port = free_port()

    @property
    def url(self) -> str:
        return f"mongodb://{LOOPBACK}:{self.port}/?directConnection=true&retryWrites=false"

    def prepare(self) -> None:
        home = install()
        template, data = home / "root/template", self.folder / "data"
        subprocess.run(["cp", "-a", template, data], check=True)

    def launch(self) -> None:
        root = cache() / "root"
        self.spawn(
            [
                *("unshare", "--mount", "--propagation", "private"),
                *("sh", "-c", IN_ITS_OWN_MOUNTS, "sh", self.folder / "data", root),
                *(
                    *leash(user="postgres"),
                    POSTGRES,
                    "-D",
                    "/data/pg",
                    "-p",
                    str(self.postgres_port),
                ),
            ]
        )
        self.wait_until(self._postgres_answers)
        gateway = ["-m", "tests.databases.mongo.gateway", self._dsn, str(self.port)]
        self.spawn([*leash(), "env", "-C", PROJECT, sys.executable, *gateway])

    def answers(self) -> bool:
        return accepts(self.port) and pings(self.url)

    @property
    def _dsn(self) -> str:
        return f"host={LOOPBACK} port={self.postgres_port} user=postgres dbname=postgres"

    def _postgres_answers(self) -> bool:
        try:
            psycopg.connect(self._dsn, connect_timeout=2).close()
        except psycopg.Error:
            return False
        return True


def cache() -> Path:
    """Where DocumentDB is installed, for every checkout and run of this user."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "mulligan/documentdb"


def install() -> Path:
    """Install DocumentDB unless it is there, and return its home. Raises Unavailable.

    Of several runs at once, one installs and the others wait for it.
    """
    home = cache()
    if not _debian.root_on_debian():
        raise Unavailable(
            "install mongod, or set MULLIGAN_TEST_MONGO_URL"
            " (DocumentDB in its place is installed automatically only as root on Debian)"
        )
    with _debian.locked(home.with_suffix(".lock")):
        if not (home / "installed").exists():
            if shutil.which("debootstrap") is None:
                _debian.install("debootstrap")
            log = home.with_suffix(".log")
            print(
                f"installing DocumentDB (once, about two minutes; log: {log})",
                file=sys.stderr,
                flush=True,
            )
            with log.open("wb") as output:
                command = [HERE / "install", home]
                done = subprocess.run(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False
                )
            if done.returncode != 0:
                raise Unavailable(f"DocumentDB could not be installed: {log}")
    return home
