from mulligan.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
