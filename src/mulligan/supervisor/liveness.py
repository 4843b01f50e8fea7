"""Signs of life: lock files that live processes hold, and reports to the service manager.

A locked file means that its process lives, whatever else has crashed. A lock belongs to an open
file, not to a process. The supervisor opens and locks a slot's file, hands the open file down to
the child and closes its own: from then on the lock is held exactly as long as the child lives.
"""

import contextlib
import fcntl
import os
import socket
import time
from pathlib import Path

import msgspec

from mulligan.core.errors import UNREADABLE, InvalidError

# The supervisor's own, in its state folder.
LOCK = "supervisor.lock"
# The mode of what a supervisor writes: whoever may open a lock file may take the lock.
PRIVATE = 0o600
# A worker that checks whether a lock is held takes it for an instant.
WAIT, PAUSE = 1.0, 0.02
# How long a service manager may take to have room for another state.
SEND_WITHIN = 0.2


class Holder(msgspec.Struct, frozen=True):
    """What a lock file says about its holder, for people and for the next supervisor.

    `digest` is that of its command, `began` is when it was started (seconds since 1970).
    """

    pid: int = 0
    digest: str = ""
    began: float = 0.0


def acquire(path: Path, wait: float = WAIT) -> int | None:
    """The open file, locked; None if another holds it. No other user may open it."""
    opened = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE)
    with contextlib.suppress(PermissionError):  # another user's, whom root does not lock out
        os.fchmod(opened, PRIVATE)
    deadline = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(opened)
                return None
            time.sleep(PAUSE)
        else:
            return opened


def is_held(path: Path) -> bool:
    """Whether a process holds the lock; False if there is no such file."""
    try:
        opened = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except PermissionError as error:
        raise InvalidError(f"{path} belongs to another user; run this as that user") from error
    try:
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(opened)
    return False


def write_holder(path: Path, holder: Holder) -> None:
    """Write into the lock file, in place, who holds it: another file would have another lock."""
    opened = os.open(path, os.O_WRONLY)
    try:
        data = msgspec.json.encode(holder) + b"\n"
        os.ftruncate(opened, os.pwrite(opened, data, 0))
    finally:
        os.close(opened)


def read_holder(path: Path) -> Holder:
    """Who holds the lock, as its file says; an empty one if it says nothing."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Holder)
    except (OSError, *UNREADABLE):
        return Holder()


def holders(path: Path) -> list[int]:
    """This user's processes that have the file open, other than this one.

    The kernel says so; a process id from a file may belong to another process by now.
    """
    wanted = path.stat()
    others = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return [pid for pid in others if pid != os.getpid() and is_ours(pid) and has_open(pid, wanted)]


def is_ours(pid: int) -> bool:
    """Whether the process is one of this user's; root sees the files of all."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid == os.geteuid()
    except OSError:  # ended meanwhile
        return False


def has_open(pid: int, wanted: os.stat_result) -> bool:
    """Whether the process has the file open, as far as this user may see."""
    try:
        files = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # ended meanwhile, or another user's
        return False
    for file in files:
        with contextlib.suppress(OSError):  # closed meanwhile
            if os.path.samestat(file.stat(), wanted):
                return True
    return False


def notify(*words: str) -> None:
    """Send a state such as READY=1 to the socket that NOTIFY_SOCKET names (sd_notify), if any.

    A service manager that reads nothing for a while must not stop this process: then it is not
    told.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    where = f"\0{address[1:]}" if address.startswith("@") else address
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
    ):
        sender.settimeout(SEND_WITHIN)
        sender.sendto("\n".join(words).encode(), where)
