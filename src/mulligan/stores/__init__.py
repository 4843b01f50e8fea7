"""Stores: where jobs live. A URL names the engine; its driver is imported only when used."""

from collections.abc import Callable
from importlib import import_module
from urllib.parse import urlsplit

from mulligan.core.errors import InvalidError
from mulligan.stores.contract import Store

# scheme -> (module, class, what to install when its driver is missing)
ENGINES: dict[str, tuple[str, str, str]] = {
    "memory": ("memory", "MemoryStore", ""),
    "sqlite": ("sqlite", "SqliteStore", ""),
    "redis": ("redis", "RedisStore", "redis"),
    "rediss": ("redis", "RedisStore", "redis"),
    "unix": ("redis", "RedisStore", "redis"),
    "postgresql": ("postgres", "PostgresStore", "postgres"),
    "postgres": ("postgres", "PostgresStore", "postgres"),
    "mongodb": ("mongo", "MongoStore", "mongo"),
    "mongodb+srv": ("mongo", "MongoStore", "mongo"),
}


def make_store(url: str, clock: Callable[[], float] | None = None) -> Store:
    """The store that the URL names, not yet open.

    `clock` replaces the store's own clock, for tests and simulations.
    """
    scheme = urlsplit(url).scheme
    if scheme not in ENGINES:
        known = ", ".join(f"{name}://" for name in ENGINES)
        raise InvalidError(f"store {redact(url)!r} does not begin with one of {known}")
    module, name, extra = ENGINES[scheme]
    try:
        engine = getattr(import_module(f"mulligan.stores.{module}"), name)
    except ModuleNotFoundError as error:
        if not extra or (error.name or "").startswith("mulligan"):
            raise
        raise InvalidError(
            f"{scheme}:// needs the driver {error.name!r}, which is not installed;"
            f" run: pip install 'mulligan[{extra}]'"
        ) from error
    store: Store = engine(url, clock) if clock else engine(url)
    return store


def redact(url: str) -> str:
    """The URL as it may be shown: without its password."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{parts.username or ''}:***@{host}").geturl()
