"""Several whole stores behind the one contract: the shards of an app. No store knows of it."""

from mulligan.stores.shards.connection import Memory, memory_of
from mulligan.stores.shards.store import ShardedStore
from mulligan.stores.shards.url import shard_urls

__all__ = ["Memory", "ShardedStore", "memory_of", "shard_urls"]
