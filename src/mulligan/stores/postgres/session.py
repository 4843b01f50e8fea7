"""Settings of a server session of the store's own, and of one transaction behind a pooler.

A pooler may give the session to another program after each transaction, so no setting may remain
on it. Each statement then runs in a transaction with its own isolation level and settings.
"""

from collections.abc import Mapping
from typing import Any

from mulligan.stores.postgres.connection import milliseconds

# Array literals and function bodies are read in the same way for every role and database.
LITERALS = {"array_nulls": "on", "standard_conforming_strings": "on"}
# Statements wait for locks. A snapshot from before the wait would hide the changes of the lock's
# last holder.
ISOLATION = {"default_transaction_isolation": "read committed"}
READ_ONLY = {"default_transaction_read_only": "on"}
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
BEGIN_READ_ONLY = f"{BEGIN} READ ONLY"
# The longest wait for a lock, as a part of the time for an answer: the server gives up before the
# client does, so that none of its processes waits for a client that is gone.
LOCKS = 0.9


def lock_timeout(answer_within: float) -> dict[str, str]:
    """How many milliseconds the server may wait for a lock."""
    return {"lock_timeout": str(milliseconds(answer_within * LOCKS))}


def set_for_session(settings: Mapping[str, str]) -> tuple[str, list[Any]]:
    """The statement that sets them until the session ends, and its values."""
    return _set(settings, "false")


def set_for_transaction(settings: Mapping[str, str]) -> tuple[str, list[Any]]:
    """The statement that sets them until the transaction ends, and its values."""
    return _set(settings, "true")


def _set(settings: Mapping[str, str], local: str) -> tuple[str, list[Any]]:
    calls = ", ".join(f"set_config('{name}', %s, {local})" for name in settings)
    return f"SELECT {calls}", list(settings.values())
