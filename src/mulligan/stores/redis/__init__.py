"""Redis and Valkey: each operation is one Lua script, and all keys live under one hash tag."""

from mulligan.stores.redis.store import RedisStore

__all__ = ["RedisStore"]
