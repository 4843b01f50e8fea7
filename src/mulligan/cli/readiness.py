"""A group of workers is ready, in the words of systemd, when each of them is."""

import asyncio
import os
import socket
from collections.abc import Iterable

from mulligan.supervisor.liveness import notify

READY = "READY=1"
LONGEST = 4096


class Readiness:
    """Hears from each worker by a socket of its own; the last one's word is passed on.

    Nothing is opened where nobody asks: without NOTIFY_SOCKET.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._waits_for = set(names)
        self._sockets: dict[str, socket.socket] = {}

    def open(self) -> None:
        """Listen, if somebody wants to know."""
        if not os.environ.get("NOTIFY_SOCKET"):
            return
        loop = asyncio.get_running_loop()
        for name in self._waits_for:
            # An address that the kernel chooses, without a file: whoever sets the variable has one.
            heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            heard.setblocking(False)  # noqa: FBT003 - the standard library's
            heard.bind("")
            self._sockets[name] = heard
            loop.add_reader(heard.fileno(), self._hear, name)

    def variables(self, name: str) -> dict[str, str]:
        """What the member's environment needs."""
        heard = self._sockets.get(name)
        return {} if heard is None else {"NOTIFY_SOCKET": f"@{heard.getsockname()[1:].decode()}"}

    def close(self) -> None:
        """Listen no more."""
        loop = asyncio.get_running_loop()
        for heard in self._sockets.values():
            loop.remove_reader(heard.fileno())
            heard.close()
        self._sockets.clear()

    def _hear(self, name: str) -> None:
        said = self._sockets[name].recv(LONGEST).decode(errors="replace")
        if READY in said.split("\n") and name in self._waits_for:
            self._waits_for.discard(name)
            if not self._waits_for:
                notify(READY)
