"""The PostgreSQL store: one schema, claims with SKIP LOCKED, wake-ups with NOTIFY."""

from mulligan.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
