"""The doctor: what an operator should know about this file and its disk, and what to do."""

import os
import shutil
import sqlite3
from pathlib import Path

from mulligan.core.finding import Finding
from mulligan.stores.sqlite.clock import TOLERANCE, ahead_of, differs, last_written
from mulligan.stores.sqlite.schema import OLDEST_SQLITE
from mulligan.stores.sqlite.sockets import is_any_worker_alive
from mulligan.stores.sqlite.transaction import Transaction
from mulligan.stores.sqlite.url import SqliteUrl
from mulligan.stores.sqlite.wal import LONGEST, PAGE_HEADER, wal_path

MIB = 1024 * 1024
# The longest log and as much again in the file take this; the other leaves time to act.
LEAST_FREE, LITTLE_FREE = 64 * MIB, 1024 * MIB
MOUNTS = Path("/proc/self/mounts")
# Where a lock of one machine is not seen by all others.
REMOTE = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "fuse.sshfs", "fuse.glusterfs"}


def examine(tx: Transaction, url: SqliteUrl) -> list[Finding]:
    """Look at library, journal, disk and rights; writes nothing."""
    if url.in_memory:
        return [
            library(),
            Finding(
                "warn",
                "the jobs are in the memory of this process, and end with it",
                "name a file: sqlite:///jobs.db",
            ),
        ]
    [page_size] = tx.db.execute("PRAGMA page_size").fetchone()
    path = os.path.realpath(url.path)
    return [
        library(),
        clock(tx, path),
        journal(tx),
        durability(url),
        rights(path),
        file_system(path),
        free_space(path),
        log_size(path, page_size),
    ]


def library() -> Finding:
    """Which SQLite it is; one that is too old has not opened the file."""
    oldest = ".".join(map(str, OLDEST_SQLITE))
    return Finding("ok", f"SQLite {sqlite3.sqlite_version}; {oldest} or newer is needed")


def clock(tx: Transaction, path: str) -> Finding:
    """Whether this process's clock and the clock of the last writer agree."""
    last = last_written(tx.db)
    remedy = "set the clock of every process by NTP: jobs would start, expire and be lost too early"
    if last is not None and last > tx.now + TOLERANCE:
        return Finding("bad", ahead_of(last - tx.now), remedy)
    if last is not None and tx.now > last + TOLERANCE and is_any_worker_alive(path):
        return Finding("bad", differs(tx.now - last), remedy)
    return Finding("ok", "no other clock contradicts the clock of this process")


def journal(tx: Transaction) -> Finding:
    """Ask the open connection for the journal mode.

    Never open the file beside SQLite: closing it drops all POSIX locks that this process has on it.
    A connection to a file that no process writes to reports no write-ahead log, whatever the mode.
    """
    [mode] = tx.db.execute("PRAGMA journal_mode").fetchone()
    if mode == "wal":
        return Finding("ok", "the journal is a write-ahead log: readers and writers do not wait")
    return Finding("ok", "no process has the file open: the next one creates a write-ahead log")


def durability(url: SqliteUrl) -> Finding:
    """What a power cut may take."""
    if url.is_synced:
        return Finding("ok", "durability is full: what was answered survives a power cut")
    return Finding(
        "warn",
        "durability is normal: a power cut may take the last moments",
        "drop durability=normal from the URL where jobs must survive that",
    )


def rights(path: str) -> Finding:
    """Whether this user may write, to the file and beside it."""
    folder = Path(path).parent
    closed = [str(each) for each in (path, folder) if not os.access(each, os.W_OK)]
    if not closed:
        return Finding("ok", "this user may write to the file and its folder")
    return Finding(
        "warn",
        f"this user may not write to {' and '.join(closed)}: enough to look, not to work",
        "give it the right to write to both, or mount the file system to be written",
    )


def file_system(path: str) -> Finding:
    """Whether SQLite's locks hold there."""
    kind = file_system_of(path)
    if kind in REMOTE:
        return Finding(
            "bad",
            f"the file is on a network file system ({kind}), where SQLite's locks may not hold",
            "keep it on a local disk; to serve several machines: mulligan copy, to another store",
        )
    return Finding("ok", "the file is on a local disk" if kind else "the file system is not known")


def file_system_of(path: str) -> str | None:
    """The kind of file system that the path is on; None where the system does not say."""
    try:
        lines = MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None
    kinds = {}
    for line in lines:
        _, mounted, kind, *_ = line.split(" ")
        kinds[mounted.encode().decode("unicode_escape")] = kind
    return next((kinds[str(each)] for each in Path(path).parents if str(each) in kinds), None)


def free_space(path: str) -> Finding:
    """Whether there is room on the disk: on a full one nothing is enqueued or committed."""
    free = shutil.disk_usage(Path(path).parent).free
    said = f"{free / MIB:,.0f} MiB are free on the disk"
    if free >= LITTLE_FREE:
        return Finding("ok", said)
    remedy = "make room: on a full disk nothing can be enqueued or committed"
    if free >= LEAST_FREE:
        return Finding("warn", f"{said}, which is less than {LITTLE_FREE / MIB:,.0f} MiB", remedy)
    return Finding("bad", f"{said}, which is less than {LEAST_FREE / MIB:,.0f} MiB", remedy)


def log_size(path: str, page_size: int) -> Finding:
    """Whether what the write-ahead log holds gets into the file."""
    try:
        size = Path(wal_path(path)).stat().st_size
    except FileNotFoundError:
        size = 0
    usual = LONGEST * (page_size + PAGE_HEADER)
    said = f"the write-ahead log has {size / MIB:,.0f} MiB"
    if size <= 2 * usual:
        return Finding("ok", said)
    return Finding(
        "warn",
        f"{said}, and {usual / MIB:,.0f} MiB are usual: it is not copied into the file",
        "end whatever reads the file for long: a shell, a backup, a program in a transaction",
    )
