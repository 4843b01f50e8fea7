"""Connections of the user's own: which library one is of, and whether it is awaited.

Nothing is imported to find out: whoever has such a connection has its library.
"""

from typing import Any

from mulligan.core.errors import InvalidError

LIBRARIES = ("psycopg", "asyncpg", "sqlalchemy", "django", "sqlite3", "aiosqlite", "psycopg2")


def library_of(connection: Any) -> str | None:
    """The library that a connection or session is of; None if it is of none that is known."""
    for base in type(connection).__mro__:
        root = base.__module__.partition(".")[0]
        if root in LIBRARIES:
            return root
    return None


def is_awaited(connection: Any) -> bool:
    """Whether its calls are awaited."""
    return library_of(connection) in ("asyncpg", "aiosqlite") or (
        hasattr(connection, "run_sync")  # SQLAlchemy's AsyncConnection and AsyncSession
        or type(connection).__name__.startswith("Async")
    )


def connection_of(session: Any) -> Any:
    """The connection of SQLAlchemy that a session uses, or the connection itself."""
    return session.connection() if callable(getattr(session, "connection", None)) else session


def is_sqlalchemy(connection: Any) -> bool:
    """Whether it is a connection or session of SQLAlchemy, and not what wraps one of a driver."""
    return hasattr(connection, "execute") and not hasattr(connection, "dbapi_connection")


def refuse_awaited(connection: Any) -> None:
    """Refuse a connection that plain code cannot use."""
    if is_awaited(connection):
        raise InvalidError(
            f"connection {type(connection).__name__} is asynchronous: await aenqueue(...) with it,"
            " not enqueue(...)"
        )


def refuse_plain(connection: Any) -> None:
    """Refuse a connection that would hold up the event loop."""
    if library_of(connection) is not None and not is_awaited(connection):
        raise InvalidError(
            f"connection {type(connection).__name__} is synchronous: call enqueue(...) with it, not"
            " aenqueue(...)"
        )


def unknown_kind(connection: Any, known: str) -> InvalidError:
    """The error of a connection of a kind that the store does not know."""
    kind = type(connection)
    pool = ", acquired from the pool" if kind.__name__.endswith("Pool") else ""
    return InvalidError(
        f"connection {kind.__module__}.{kind.__qualname__} is none that this store can use; give"
        f" {known}{pool}"
    )


def refuse_engine(connection: Any, wanted: str, found: str) -> None:
    """Refuse a connection to a database of another kind than the store's."""
    if found != wanted:
        raise InvalidError(
            f"connection {type(connection).__name__} is to {found}, and the jobs of this app are in"
            f" {wanted}; give a connection to the database of the app's store"
        )
