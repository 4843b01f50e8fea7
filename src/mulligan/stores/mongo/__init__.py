"""The MongoDB store: documents that other programs may read, insert, pop and finish too."""

from mulligan.stores.mongo.store import MongoStore

__all__ = ["MongoStore"]
