"""Stores: where jobs live. A URL names the engine; its driver is imported only when used."""

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from mulligan.core.errors import InvalidError, MulliganError
from mulligan.stores.contract import Store

# scheme -> (module, class, what to install when its driver is missing)
ENGINES: dict[str, tuple[str, str, str]] = {
    "memory": ("memory", "MemoryStore", ""),
    "sqlite": ("sqlite", "SqliteStore", ""),
    "redis": ("redis", "RedisStore", "redis"),
    "rediss": ("redis", "RedisStore", "redis"),
    "valkey": ("redis", "RedisStore", "redis"),
    "valkeys": ("redis", "RedisStore", "redis"),
    "unix": ("redis", "RedisStore", "redis"),
    "redis+sentinel": ("redis", "RedisStore", "redis"),
    "rediss+sentinel": ("redis", "RedisStore", "redis"),
    "valkey+sentinel": ("redis", "RedisStore", "redis"),
    "valkeys+sentinel": ("redis", "RedisStore", "redis"),
    "postgresql": ("postgres", "PostgresStore", "postgres"),
    "postgres": ("postgres", "PostgresStore", "postgres"),
    "mongodb": ("mongo", "MongoStore", "mongo"),
    "mongodb+srv": ("mongo", "MongoStore", "mongo"),
}


# A password goes on to the last @, whatever is in it; another one may be an option.
PASSWORD = re.compile(r"^((?:[\w+.-]*:)?//(?:[^:/?#@]*:)?|[^:/?#@]*:).*@", re.DOTALL)
OPTION = re.compile(r"([?&](\w++)=)[^&#]*+")
SECRET = re.compile(r"(?i)pass|pwd|secret|token|credential|[a-z_]key")
# A list of stores has blanks between its URLs.
LIST = re.compile(r"\s[a-z][a-z+]*://", re.ASCII)
# Engines whose operations can be done at once, without an event loop.
EMBEDDED = ("memory", "sqlite")


def is_embedded(url: str) -> bool:
    """Whether the store lives in this process or a file, so that no event loop is needed."""
    return scheme_of(url) in EMBEDDED


def scheme_of(url: str) -> str:
    """The word before the colon; what follows may be anything."""
    return url.partition(":")[0].lower()


def make_store(
    url: str, clock: Callable[[], float] | None = None, *, inline: bool = False
) -> Store:
    """The store that the URL names, not yet open.

    `clock` replaces the store's own clock, for tests and simulations. With `inline` the operations
    of an embedded store do not wait for a thread: plain code may run them to their end itself.
    """
    if may_be_sharded(url):
        sharded = import_module("mulligan.stores.shards")
        urls: list[str] = sharded.shard_urls(url)
        if len(urls) > 1:
            shards = [make_store(each, clock, inline=inline) for each in urls]
            whole: Store = sharded.ShardedStore(url, shards, clock, inline=inline)
            return whole
        url = urls[0]
    scheme = scheme_of(url)
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
    options: dict[str, Any] = {"clock": clock} if clock else {}
    if inline and scheme == "sqlite":
        options["inline"] = True
    try:
        store: Store = engine(url, **options)
    except ValueError as error:
        if isinstance(error, MulliganError):
            raise
        raise InvalidError(
            f"the store URL that begins with {scheme!r} is not a URL; check its host and port"
        ) from None
    return store


def may_be_sharded(url: str) -> bool:
    """Whether the URL asks for shards, or is a list of several."""
    return "shards=" in url or LIST.search(url) is not None


def redact(url: str) -> str:
    """The URL as it may be shown: without its password, also where it is no URL."""
    if LIST.search(url) is not None:
        return " ".join([redact(each) for each in url.split()])
    return OPTION.sub(hide_secret, PASSWORD.sub(r"\1***@", url))


def hide_secret(option: re.Match[str]) -> str:
    """An option of a URL, with its value hidden if its name says that it is a secret."""
    return f"{option[1]}***" if SECRET.search(option[2]) else option[0]
