"""Enqueue inside a transaction of the user's own, on a connection to the file of the store.

The statements are those of any other enqueue, within a savepoint. A sleeper is marked as woken in
the same transaction. Nobody is told when the user commits, other than by Django: the sleeper sees
the mark when it next looks at the file, as for a job of another program.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple, NoReturn, cast

from mulligan.core.checks import rounded
from mulligan.core.errors import InvalidError
from mulligan.core.job import Enqueued, NewJob
from mulligan.core.settings import check_batch
from mulligan.stores.sqlite.enqueue import enqueue
from mulligan.stores.sqlite.schema import STEPS
from mulligan.stores.sqlite.transaction import Transaction, WakeUp
from mulligan.stores.sqlite.url import SqliteUrl
from mulligan.stores.sqlite.wakeup import pick
from mulligan.stores.user_connection import (
    connection_of,
    is_awaited,
    is_sqlalchemy,
    library_of,
    refuse_engine,
    refuse_plain,
    unknown_kind,
)

KINDS = "a connection of sqlite3 or Django, or a connection or session of SQLAlchemy"
SAVEPOINT = "SAVEPOINT mulligan_enqueue"
UNDO = "ROLLBACK TO mulligan_enqueue"
RELEASE = "RELEASE mulligan_enqueue"
# Calls something after the commit, or at once where there is no transaction.
OnCommit = Callable[[Callable[[], object]], object]


class Borrowed:
    """The user's connection, for the statements of the store: each has a cursor of its own.

    Rows are tuples, whatever the connection makes of them.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Any = ()) -> sqlite3.Cursor:
        """Run a statement."""
        return self._cursor().execute(statement, values)

    def executemany(self, statement: str, rows: Any) -> sqlite3.Cursor:
        """Run a statement for each row."""
        return self._cursor().executemany(statement, rows)

    def _cursor(self) -> sqlite3.Cursor:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return cursor


class Found(NamedTuple):
    """The connection of sqlite3 behind what the user gave, and the library's own hooks."""

    connection: sqlite3.Connection
    on_commit: OnCommit | None = None
    errors: AbstractContextManager[Any] = nullcontext()


def enqueue_in(
    url: SqliteUrl,
    now: float,
    given: Any,
    jobs: Sequence[NewJob],
    *,
    identity: Callable[[], str] | None,
    wake: Callable[[list[WakeUp]], object],
) -> list[Enqueued]:
    """Enqueue through the user's connection; `wake` is called if its commit is known of."""
    check_batch(len(jobs))
    if not jobs:
        return []
    connection, on_commit, errors = found_in(given)
    with errors, texts_as_str(connection):
        check_file(url, connection)
        check_schema(url, connection, identity)
        begin_as_a_write_would(connection)
        with all_or_none(connection):
            # it is asked for nothing that the user's connection cannot do too
            tx = Transaction(cast("Any", Borrowed(connection)), rounded(now))
            # Before anything is read: who reads first, and writes after another has, is refused.
            tx.reserve(0)
            answers = enqueue(tx, jobs)
            pick(tx)
    if tx.wakeups:
        if on_commit is not None:
            on_commit(lambda: wake(tx.wakeups))
        elif not connection.in_transaction:
            wake(tx.wakeups)
    return answers


def refuse_async(given: Any) -> NoReturn:
    """Refuse every connection where one that is awaited is wanted: SQLite has none."""
    refuse_plain(given)
    raise unknown_kind(given, f"{KINDS}, to enqueue(...)")


def found_in(given: Any) -> Found:
    """What the user's object stands for; refuses what does not stand for a SQLite file."""
    if is_awaited(given):
        raise unknown_kind(given, KINDS)
    match library_of(given):
        case "sqlite3" if isinstance(given, sqlite3.Connection):
            return Found(given)
        case "django" if hasattr(given, "vendor"):
            refuse_engine(given, "sqlite", given.vendor)
            given.ensure_connection()
            given.validate_no_broken_transaction()
            # without either the user ends transactions by hand, and Django does not know when
            tells = given.in_atomic_block or given.get_autocommit()
            on_commit = given.on_commit if tells else None
            return Found(given.connection, on_commit, given.wrap_database_errors)
        case "sqlalchemy" if is_sqlalchemy(given):
            connection = connection_of(given)
            refuse_engine(given, "sqlite", connection.dialect.name)
            connection.exec_driver_sql("SELECT 1").close()  # so that it knows of the transaction
            driver = connection.connection.driver_connection
            if isinstance(driver, sqlite3.Connection):
                return Found(driver)
            raise unknown_kind(driver, KINDS)
    raise unknown_kind(given, KINDS)


def check_file(url: SqliteUrl, connection: sqlite3.Connection) -> None:
    """Refuse a connection to another file than the store's."""
    if url.in_memory:
        raise InvalidError(
            "the store sqlite:// is in this process's memory, where no connection reaches it; give"
            " the app a file, such as sqlite:///jobs.db"
        )
    [main] = [
        path
        for _, name, path in Borrowed(connection).execute("PRAGMA database_list")
        if name == "main"
    ]
    if not main or os.path.realpath(main) != os.path.realpath(url.path):
        raise InvalidError(
            f"the connection is to {main or 'a database in memory'}, and the jobs of this app are"
            f" in {url.path}; give a connection to that file, or enqueue without connection="
        )


def check_schema(
    url: SqliteUrl, connection: sqlite3.Connection, identity: Callable[[], str] | None
) -> None:
    """See that the store's tables are there; if no transaction is under way they can be made."""
    [version] = Borrowed(connection).execute("PRAGMA user_version").fetchone()
    if version == len(STEPS):
        return
    if version == 0 and identity is not None and not connection.in_transaction:
        identity()
        return
    raise InvalidError(
        f"{url.path} has no tables of this mulligan (its schema version is {version}); before the"
        " transaction begins, call app.configure() once, or run: mulligan migrate"
    )


def begin_as_a_write_would(connection: sqlite3.Connection) -> None:
    """Begin a transaction where the driver would before a write: a savepoint alone would commit."""
    legacy = getattr(connection, "autocommit", -1) == -1  # the one way before Python 3.12
    if legacy and not connection.in_transaction and connection.isolation_level is not None:
        connection.execute(f"BEGIN {connection.isolation_level}")


@contextmanager
def all_or_none(connection: sqlite3.Connection) -> Iterator[None]:
    """Undo what was done within if it fails, and nothing else of the transaction."""
    connection.execute(SAVEPOINT)
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # SQLite may have undone all of it
            connection.execute(UNDO)
            connection.execute(RELEASE)
        raise
    connection.execute(RELEASE)


@contextmanager
def texts_as_str(connection: sqlite3.Connection) -> Iterator[None]:
    """Have texts read as such meanwhile, whatever the user has them made into."""
    factory = connection.text_factory
    connection.text_factory = str
    try:
        yield
    finally:
        connection.text_factory = factory
