"""Waking across processes: a datagram socket per store object, in a folder beside the file.

A datagram only shortens a sleep. Who was woken stands in the database, and a sleeper looks there
from time to time: one that cannot be sent or received delays it, and no more.
"""

import asyncio
import errno
import os
import secrets
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from stat import S_ISDIR, S_ISSOCK

from mulligan.stores.sqlite.url import SqliteUrl

# The shortest limit of the systems that have Unix sockets is 104 bytes.
PATH_LIMIT = 100
MESSAGE_LIMIT = 4096
# Whoever is last takes the folder away, perhaps just when another has found it there.
ATTEMPTS = 3
DEAD = frozenset({errno.ECONNREFUSED, errno.ENOENT})


class WakeSocket:
    """Where this store object receives the wake-ups of its workers, and sends those of others."""

    def __init__(self, url: SqliteUrl) -> None:
        self._url = url
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._waiters: dict[str, tuple[asyncio.AbstractEventLoop, asyncio.Event]] = {}
        self._listening: dict[asyncio.AbstractEventLoop, int] = {}
        self._receiving: socket.socket | None = None
        self._sending: socket.socket | None = None
        self._path: str | None = None

    def path(self) -> str | None:
        """Where a worker of this object is woken; None where there are no such sockets."""
        self._check_process()
        if self._url.in_memory or not hasattr(socket, "AF_UNIX"):
            return None
        with self._lock:
            for _ in range(ATTEMPTS):
                if self._receiving is None:
                    with suppress(OSError):
                        self._bind(make_folder(self._url.path))
        return self._path

    def _bind(self, folder: Path) -> None:
        sweep(folder)
        path = str(folder / f"{os.getpid()}-{secrets.token_hex(4)}")
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            receiver.settimeout(0)
            receiver.bind(path)
        except OSError:
            receiver.close()
            raise
        self._receiving, self._path = receiver, path

    def wake(self, worker: str, path: str | None) -> bool:
        """Wake the worker; False if nobody listens at this socket any more.

        Anyone who writes to the database may have written its path: only a socket in the folder of
        this database is sent to or removed. A sleeper elsewhere looks by itself.
        """
        self._check_process()
        if path is None or path == self._path:
            self._end_wait(worker)
            return True
        if not self._is_in_folder(path):
            return True
        if not is_socket(path):
            return False
        try:
            if self._sending is None:
                self._sending = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._sending.settimeout(0)
            self._sending.sendto(worker.encode(), path)
        except OSError as error:
            if error.errno not in DEAD:
                return True  # it has too much to receive, and will look by itself
            with suppress(OSError):
                Path(path).unlink()
            return False
        return True

    def _is_in_folder(self, path: str) -> bool:
        folder = folder_of(self._url.path)
        return Path(str(path)).parent == folder and is_plain_folder(folder)

    @contextmanager
    def waiting(self, worker: str) -> Iterator[asyncio.Event]:
        """An event of the running loop that is set when the worker is woken."""
        self.path()
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        with self._lock:
            self._waiters[worker] = (loop, event)
        self._listen(loop)
        try:
            yield event
        finally:
            self._unlisten(loop)
            with self._lock:
                if self._waiters.get(worker) == (loop, event):
                    del self._waiters[worker]

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._receiving is None:
            return
        count = self._listening.get(loop, 0)
        if not count:
            with suppress(NotImplementedError):  # then the sleeper looks by itself
                loop.add_reader(self._receiving, self._receive)
        self._listening[loop] = count + 1

    def _unlisten(self, loop: asyncio.AbstractEventLoop) -> None:
        count = self._listening.pop(loop, 0) - 1
        if count > 0:
            self._listening[loop] = count
        elif count == 0 and self._receiving is not None:
            with suppress(NotImplementedError):
                loop.remove_reader(self._receiving)

    def _receive(self) -> None:
        with suppress(OSError):  # until there is nothing more to receive
            while self._receiving is not None:
                self._end_wait(self._receiving.recv(MESSAGE_LIMIT).decode(errors="replace"))

    def _end_wait(self, worker: str) -> None:
        with self._lock:
            waiter = self._waiters.get(worker)
        if waiter is not None:
            loop, event = waiter
            with suppress(RuntimeError):  # its loop is closed, and with it the wait
                loop.call_soon_threadsafe(event.set)

    def close(self) -> None:
        """Stop receiving, and take the socket away."""
        self._check_process()
        if self._path is not None:
            with suppress(OSError):  # others may still have their sockets in the folder
                Path(self._path).unlink()
                Path(self._path).parent.rmdir()
        self._drop()

    def _check_process(self) -> None:
        """In a forked process, leave the sockets to the one that made them."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._drop()

    def _drop(self) -> None:
        for each in (self._receiving, self._sending):
            if each is not None:
                each.close()
        self._receiving = self._sending = self._path = None
        self._listening = {}
        self._waiters = {}
        self._lock = threading.Lock()


def folder_of(path: str) -> Path:
    """Where the sockets of this database are, the same for every process that opens it."""
    real = os.path.realpath(path)
    beside = Path(f"{real}-wakeup")
    # room for a separator, a process id and eight random digits
    if len(os.fsencode(beside)) + 20 <= PATH_LIMIT:
        return beside
    name = f"mulligan-{sha256(os.fsencode(real)).hexdigest()[:16]}"
    return Path(tempfile.gettempdir()) / name


def make_folder(path: str) -> Path:
    """The folder of the sockets of this database, made if there is none.

    Raises OSError where a link or another user's folder has its name.
    """
    folder = folder_of(path)
    is_beside = folder.parent == Path(os.path.realpath(path)).parent
    folder.mkdir(mode=0o777 if is_beside else 0o700, exist_ok=True)
    if not is_plain_folder(folder):
        raise NotADirectoryError(f"{folder} is a link")
    if not is_beside and folder.lstat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user")
    return folder


def is_plain_folder(path: Path) -> bool:
    """Whether a folder is here, and not a link to one."""
    try:
        return S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def is_socket(path: str) -> bool:
    """Whether a socket is here, and not a link to one."""
    try:
        return S_ISSOCK(os.lstat(path).st_mode)
    except (OSError, ValueError):  # a ValueError if no path can be spelled so
        return False


def sweep(folder: Path) -> None:
    """Remove the sockets of processes that were killed."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        probe.settimeout(0)
        for each in folder.iterdir():
            try:
                if is_socket(str(each)):
                    probe.connect(str(each))
            except ConnectionRefusedError:
                each.unlink(missing_ok=True)
            except OSError:
                continue


def is_any_worker_alive(path: str) -> bool:
    """Whether a worker of another process waits at a socket of this database."""
    if not hasattr(socket, "AF_UNIX"):
        return False
    own = f"{os.getpid()}-"
    try:
        found = [each for each in folder_of(path).iterdir() if not each.suffix]
    except OSError:
        return False
    return any(is_heard(str(each)) for each in found if not each.name.startswith(own))


def is_heard(path: str) -> bool:
    """Whether a process receives at this socket."""
    if not is_socket(path):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        probe.settimeout(0)
        try:
            probe.connect(path)
        except OSError as error:
            return error.errno not in DEAD
    return True
