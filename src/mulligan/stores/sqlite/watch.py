"""Who waits for jobs to end: a socket in the folder of wake-ups, for all callers of a store object.

Its name says what it is for, so that whoever ends jobs finds it there, and nothing is stored. While
there is none, telling costs one look at the folder.
"""

import os
import secrets
import socket
import struct
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from mulligan.stores.sqlite.sockets import DEAD, folder_of, is_socket, make_folder, sweep
from mulligan.stores.sqlite.url import SqliteUrl
from mulligan.stores.watches import Tell, Watch, Watches

SUFFIX = ".ended"
# For how many seconds the socket outlives the last wait: another one often follows.
LINGER = 10.0
# So many numbers of jobs are in one datagram.
TOGETHER = 400
NUMBER = struct.Struct("<q")
# A folder that changed this shortly ago may change again at what is the same time to the system.
SETTLED = 0.1


class Watchers:
    """Tells the callers of this store object, and those of others, when their jobs have ended.

    Jobs are known by their numbers here.
    """

    def __init__(self, url: SqliteUrl) -> None:
        # Who only reads makes nothing beside the file either.
        self.read_only = False
        self._url = url
        self._pid = os.getpid()
        self._watches: Watches[int] = Watches()
        self._lock = threading.Lock()
        self._receiving: socket.socket | None = None
        self._path: str | None = None
        self._sending: socket.socket | None = None
        # The sockets of others, and when the folder had last changed as they were listed.
        self._others: list[str] = []
        self._listed = -1

    # -- waiting -------------------------------------------------------------------------------

    def watch(self, number: int, tell: Tell) -> Watch:
        """Have `tell` called when the job of this number ends."""
        self._check_process()
        self._watches.add(number, tell)
        is_told = self._url.in_memory or self._receives()
        return Watch(partial(self._watches.remove, number, tell), is_told=is_told)

    def _receives(self) -> bool:
        """Whether there is a socket, made now if there is none, that a thread reads."""
        if self.read_only or not hasattr(socket, "AF_UNIX"):
            return False
        with self._lock:
            if self._receiving is None:
                with suppress(OSError):
                    self._receiving = self._bind(make_folder(self._url.path))
                    threading.Thread(
                        target=self._receive,
                        args=(self._receiving, str(self._path)),
                        name="mulligan-results",
                        daemon=True,
                    ).start()
            return self._receiving is not None

    def _bind(self, folder: Path) -> socket.socket:
        sweep(folder)
        self._path = str(folder / f"{os.getpid()}-{secrets.token_hex(2)}{SUFFIX}")
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            receiver.bind(self._path)
        except OSError:
            receiver.close()
            raise
        receiver.settimeout(LINGER)
        return receiver

    def _receive(self, receiver: socket.socket, path: str) -> None:
        """Tell callers until the socket is given up, or nobody has waited for a while."""
        while self._receiving is receiver:
            try:
                self._watches.tell(n for (n,) in NUMBER.iter_unpack(receiver.recv(65_536)))
            except TimeoutError:
                with self._lock:
                    if not self._watches and self._receiving is receiver:
                        self._receiving = None
            except (OSError, struct.error):
                self._watches.tell_all()
        remove(path)
        receiver.close()

    # -- telling -------------------------------------------------------------------------------

    def tell(self, numbers: Sequence[int]) -> None:
        """Jobs have ended: tell callers here, and send it to those of other processes."""
        self._watches.tell(numbers)
        if self._url.in_memory:
            return
        self._check_process()
        for path in self._waiting():
            if path != self._path:
                self._send(path, numbers)

    def _waiting(self) -> list[str]:
        """The sockets of those who wait for jobs to end."""
        folder = folder_of(self._url.path)
        try:
            changed = folder.stat().st_mtime_ns
        except OSError:
            return []
        if changed != self._listed:
            with suppress(OSError):
                self._others = [str(each) for each in folder.glob(f"*{SUFFIX}")]
            is_settled = time.time_ns() - changed > SETTLED * 1e9
            self._listed = changed if is_settled else -1
        return self._others

    def _send(self, path: str, numbers: Sequence[int]) -> None:
        if not is_socket(path):
            return
        if self._sending is None:
            self._sending = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._sending.settimeout(0)
        try:
            for first in range(0, len(numbers), TOGETHER):
                some = numbers[first : first + TOGETHER]
                self._sending.sendto(b"".join(map(NUMBER.pack, some)), path)
        except OSError as error:  # if it has too much to receive, its callers look by themselves
            if error.errno in DEAD:
                remove(path)

    def close(self) -> None:
        """Take the socket away."""
        self._check_process()
        with self._lock:
            receiver, path, self._receiving = self._receiving, self._path, None
            sender, self._sending = self._sending, None
        if receiver is not None and path is not None:
            with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
                last.sendto(b"", path)  # its thread ends
            remove(path)
        if sender is not None:
            sender.close()

    def _check_process(self) -> None:
        """In a forked process, leave the sockets to the one that made them."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._watches, self._lock = Watches(), threading.Lock()
            for each in (self._receiving, self._sending):
                if each is not None:
                    each.close()
            self._receiving = self._sending = self._path = None


def remove(path: str) -> None:
    """Take a socket away, and its folder if that was the last."""
    with suppress(OSError):
        Path(path).unlink()
        Path(path).parent.rmdir()
