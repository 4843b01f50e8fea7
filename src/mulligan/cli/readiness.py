"""A group of workers is ready, in the words of systemd, when each of them is."""

import asyncio
import os
import socket
import tempfile
from collections.abc import Iterable

from mulligan.cli import signs

READY = "READY=1"
STARTING, GONE = "not ready: starting", "not ready: not running"
LONGEST = 4096
LONGEST_FOLDER = 80
# How long a worker may be silent before its group is unwell, if systemd does not say.
SILENCE = 30.0


class Readiness:
    """Has a socket for each worker to report to; reports READY=1 once the last of them has.

    Nothing is opened where nobody asks: without NOTIFY_SOCKET, and without a port for probes.
    """

    def __init__(self, names: Iterable[str], *, asked: bool = False) -> None:
        self._waits_for = set(names)
        self._asked = asked or bool(os.environ.get("NOTIFY_SOCKET"))
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._sockets: dict[str, socket.socket] = {}
        self._silence = signs.watchdog_seconds() or SILENCE
        self._status = dict.fromkeys(self._waits_for, STARTING)
        self._heard: dict[str, float] = {}  # by each that has said WATCHDOG

    def open(self) -> None:
        """Listen, if somebody wants to know."""
        if not self._asked:
            return
        loop = asyncio.get_running_loop()
        # Sockets in a folder of our own: no other user may send to them.
        self._folder = tempfile.TemporaryDirectory(prefix="mulligan-", dir=folder_for_sockets())
        for number, name in enumerate(sorted(self._waits_for)):
            receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            receiver.setblocking(False)  # noqa: FBT003 - the standard library's
            receiver.bind(f"{self._folder.name}/{number}")
            self._sockets[name] = receiver
            loop.add_reader(receiver.fileno(), self._receive, name)

    def starts(self, name: str) -> dict[str, str]:
        """The worker is started; what its environment needs."""
        receiver = self._sockets.get(name)
        if receiver is None:
            return {}
        self._status[name] = STARTING
        self._heard.pop(name, None)
        return {
            "NOTIFY_SOCKET": receiver.getsockname(),
            "WATCHDOG_USEC": str(int(self._silence * 1e6)),
        }

    def ended(self, name: str) -> None:
        """The worker has ended."""
        if name in self._status:
            self._status[name] = GONE
            self._heard.pop(name, None)

    def unready(self) -> str:
        """Why the group is not ready; empty if each worker is."""
        for name, status in sorted(self._status.items()):
            if status != signs.READY:
                return f"{name} is {status}"
        return ""

    def unwell(self) -> str:
        """Which worker hangs; empty if none does."""
        return "".join(f"{name} hangs" for name in self.silent()[:1])

    def silent(self) -> list[str]:
        """The workers that have said nothing for so long that they must hang."""
        now = asyncio.get_running_loop().time()
        return sorted(name for name, at in self._heard.items() if now - at > self._silence)

    def close(self) -> None:
        """Listen no more."""
        loop = asyncio.get_running_loop()
        for receiver in self._sockets.values():
            loop.remove_reader(receiver.fileno())
            receiver.close()
        self._sockets.clear()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _receive(self, name: str) -> None:
        said = self._sockets[name].recv(LONGEST).decode(errors="replace").split("\n")
        for word in said:
            if word == "WATCHDOG=1":
                self._heard[name] = asyncio.get_running_loop().time()
            elif word.startswith("STATUS="):
                self._status[name] = word.removeprefix("STATUS=")
        if READY in said and name in self._waits_for:
            self._waits_for.discard(name)
            if not self._waits_for:
                signs.report(READY)


def folder_for_sockets() -> str:
    """Where to make the folder: the path of a socket has 107 characters at most."""
    usual = tempfile.gettempdir()
    return usual if len(usual) <= LONGEST_FOLDER else "/tmp"  # noqa: S108 - a folder in it is ours
