"""Connections that only read: no file is made or changed, and the right to read is enough."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from mulligan.core.checks import rounded
from mulligan.core.errors import StoreError, StoreUnavailableError
from mulligan.stores.sqlite.connection import (
    CACHE_KIB,
    NO_TEXT,
    STATEMENTS,
    Reply,
    Work,
    decode_leniently,
    retry_while_locked,
)
from mulligan.stores.sqlite.schema import check_library, missing_steps
from mulligan.stores.sqlite.transaction import (
    Ended,
    StoreConnection,
    Transaction,
    WakeUp,
    run_work,
)
from mulligan.stores.sqlite.url import SqliteUrl
from mulligan.stores.sqlite.wal import wal_path

# A file that others write to between all these attempts has a log by then.
LOOKS = 20


class Reader:
    """Reads what is there, on a connection for each operation.

    A file that others have open has a log beside it, and is read through that. One that nobody has
    open is read without: SQLite would have to create a log. If somebody wrote to it meanwhile, the
    operation is repeated.
    """

    wal = None

    def __init__(self, url: SqliteUrl, clock: Callable[[], float]) -> None:
        self._url = url
        self._clock = clock
        self._text: Callable[[bytes], str] | type[str] = str
        if not Path(url.path).exists():
            raise StoreUnavailableError(f"there is no file {url.path}; {remedy(url.path)}")
        self._look(lambda db: check_version(db, url.path))

    def close(self) -> None:
        """Nothing is open between operations."""

    def run(self, works: Sequence[Work]) -> tuple[list[Reply], list[WakeUp | Ended]]:
        """Do the operations, one after the other; those that write are refused."""
        return [self._reply(work) for work in works], []

    def _reply(self, work: Work) -> Reply:
        def call(db: StoreConnection) -> object:
            return run_work(work.call, Transaction(db, rounded(self._clock())), self._url.path)

        if work.writes:
            said = f"{self._url.path} was opened to be read; open it to write"
            return Reply(None, StoreError(said))
        try:
            return Reply(self._look(call))
        except StoreError as error:
            if NO_TEXT not in str(error) or self._text is not str:
                return Reply(None, error)
        except Exception as error:  # noqa: BLE001 - belongs to the one who asked
            return Reply(None, error)
        # From now on what is no UTF-8 is read as far as possible.
        self._text = decode_leniently
        return self._reply(work)

    def _look(self, call: Callable[[StoreConnection], object]) -> object:
        for _ in range(LOOKS):
            before = state_of(self._url.path)
            answer = retry_while_locked(lambda: self._read(call), self._url.path)
            if has_wal(self._url.path) or state_of(self._url.path) == before:
                break
        return answer

    def _read(self, call: Callable[[StoreConnection], object]) -> object:
        with closing(connect_to_read(self._url.path)) as db:
            db.text_factory = self._text
            db.execute("BEGIN")
            return call(db)


def connect_to_read(path: str) -> StoreConnection:
    """Open the file without the right, or the wish, to change it or anything beside it."""
    check_library()
    how = "mode=ro" if has_wal(path) else "mode=ro&immutable=1"
    db = sqlite3.connect(
        f"file:{quote(path)}?{how}",
        uri=True,
        timeout=0,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=STATEMENTS,
        factory=StoreConnection,
    )
    db.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    db.execute("PRAGMA temp_store = MEMORY")
    return db


def check_version(db: StoreConnection, path: str) -> None:
    """Refuse a file that is not up to date: to bring it there is for who may write."""
    if missing_steps(db, path):
        raise StoreError(f"{path} is not a store of this release; {remedy(path)}")


def remedy(path: str) -> str:
    """What makes a store of it."""
    return f"if it should be one, run: mulligan migrate --store sqlite:///{path}"


def has_wal(path: str) -> bool:
    """Whether somebody has the file open, or had it open when it crashed."""
    return Path(wal_path(path)).exists()


def state_of(path: str) -> tuple[bool, int, int, int]:
    """What is no longer the same once somebody has written to the file."""
    file = Path(path).stat()
    return has_wal(path), file.st_ino, file.st_size, file.st_mtime_ns
