"""The embedded store: one SQLite file, many processes and threads."""

from mulligan.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
