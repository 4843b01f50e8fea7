from __future__ import annotations

import shutil
import socket

from tests.servers import _debian
from tests.servers._server import LOOPBACK, Server, leash


class RedisServer(Server):
    """Redis with an append-only file: what it has answered survives `kill`.

    With `fsync="everysec"`, the server's own default, that is not so: while the disk is busy it
    answers before it has handed a write to the kernel.
    """

    name = "redis"

    def __init__(self, *, fsync: str = "always") -> None:
        super().__init__()
        self.fsync = fsync
        self.further: dict[str, str] = {}  # options, by name

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}/0"

    def prepare(self) -> None:
        if shutil.which("redis-server") is None:
            _debian.install("redis-server")
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
        self.spawn([*leash(), "redis-server", *words])

    def answers(self) -> bool:
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=1) as client:
                client.sendall(b"PING\r\n")
                return client.recv(16).startswith(b"+PONG")  # an error while it loads its file
        except OSError:
            return False
