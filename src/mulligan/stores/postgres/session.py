"""Settings of a server session of the store's own, and of one transaction behind a pooler.

Behind a pooler the next transaction of a session may be another program's: nothing may be left on
it. There each statement runs in a transaction that says how it runs.
"""

from collections.abc import Mapping
from typing import Any

from mulligan.stores.postgres.connection import milliseconds

# Array literals and function bodies are read in the same way for every role and database.
LITERALS = {"array_nulls": "on", "standard_conforming_strings": "on"}
# Locks are waited for: with a snapshot from before the wait, a statement would miss what it
# waited for.
ISOLATION = {"default_transaction_isolation": "read committed"}
READ_ONLY = {"default_transaction_read_only": "on"}
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
BEGIN_READ_ONLY = f"{BEGIN} READ ONLY"
# The part of the time for an answer that a lock may be waited for: a server that we no longer
# listen to must not go on waiting, each time with one more of its processes.
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
