"""A transactional sink: the user's work on the store's connection, inside its transaction."""

import sqlite3
from collections.abc import Callable
from inspect import iscoroutine
from typing import Any

from mulligan.core.errors import InvalidError

WHOSE = "the transaction is the store's, which commits it with the outcome"


class WorkError(Exception):
    """The work raised: `error` is what it raised, for whoever asked for the work."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(repr(error))
        self.error = error


class StoreConnection(sqlite3.Connection):
    """A connection that cannot be closed while the user's work has it."""

    is_lent = False

    def close(self) -> None:
        """Let go of the file."""
        if self.is_lent:
            raise InvalidError(f"the work must not close the connection: {WHOSE}")
        super().close()


def run_in_transaction(db: StoreConnection, work: Callable[[Any], Any]) -> None:
    """Have the work done on the connection, and see that the transaction is still open."""
    refused: list[str | None] = []

    def keep_open(action: int, name: str | None, *_: str | None) -> int:
        if action != sqlite3.SQLITE_TRANSACTION:
            return sqlite3.SQLITE_OK
        refused.append(name)
        return sqlite3.SQLITE_DENY

    db.is_lent = True
    db.set_authorizer(keep_open)
    returned, error = None, None
    try:
        returned = work(db)
    except BaseException as raised:  # noqa: BLE001 - belongs to whoever asked, whatever it is
        error = raised
    finally:
        db.set_authorizer(None)
        db.is_lent = False
        db.row_factory, db.text_factory = None, str
    if refused:
        # Also if it went on regardless: what it meant to undo is not undone.
        raise InvalidError(f"the work must not {refused[0]} by itself: {WHOSE}") from error
    if error is not None:
        raise WorkError(error) from error
    if iscoroutine(returned):
        returned.close()
        raise InvalidError("the work must be a plain function: it runs on the store's thread")
    if not db.in_transaction:
        raise InvalidError(f"the work ended the transaction, so nothing was written: {WHOSE}")
