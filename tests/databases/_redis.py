from __future__ import annotations

import os
import shutil
import socket

from tests.databases import _debian, _packages
from tests.databases._server import LOOPBACK, Server, leash

# a server of another version, or of Valkey
PROGRAM = "MULLIGAN_TEST_REDIS_SERVER"


class RedisServer(Server):
    """Redis with an append-only file: what it has answered survives `kill`.

    With `fsync="everysec"`, the server's own default, that is not so: while the disk is busy it
    answers before it has handed a write to the kernel.
    """

    name = "redis"

    def __init__(self, *, fsync: str = "always") -> None:
        super().__init__()
        self.fsync = fsync
        self.program = ""
        self.further: dict[str, str] = {}  # options, by name

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}/0"

    def prepare(self) -> None:
        self.program = _program()
        (self.folder / "data").mkdir()

    def launch(self) -> None:
        options = {
            "bind": LOOPBACK,
            "port": str(self.port),
            "dir": str(self.folder / "data"),
            "appendonly": "yes",
            "appendfsync": self.fsync,
            "save": "",
            "daemonize": "no",
            **self.further,
        }
        words = [word for key, value in options.items() for word in (f"--{key}", value)]
        self.spawn_server(*words)

    def spawn_server(self, *words: str) -> None:
        """Start the program with these words."""
        self.spawn([*leash(), self.program, *words])

    def answers(self) -> bool:
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=1) as client:
                client.sendall(b"PING\r\n")
                return client.recv(16).startswith(b"+PONG")  # an error while it loads its file
        except OSError:
            return False


def _program() -> str:
    """The server that was chosen, the one on the PATH, Debian's, or PyPI's. Raises Unavailable."""
    if chosen := os.environ.get(PROGRAM):
        return chosen
    if found := shutil.which("redis-server"):
        return found
    if not _debian.root_on_debian():
        return str(_packages.redis_server())
    _debian.install("redis-server")
    return "redis-server"
