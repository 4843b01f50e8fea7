"""Empty places on a store's server, as many as are asked for, and gone in the end."""

import os
import secrets
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.databases import SERVERS, url_variable
from tests.store_kit import drop_database, drop_schema, remove_keys, with_query


@contextmanager
def server_of(store: str) -> Iterator[str]:
    """The URL of the run's server, or of one of our own."""
    if store not in SERVERS:
        yield ""
    elif url := os.environ.get(url_variable(store)):
        yield url
    else:
        with SERVERS[store]() as server:
            yield server.url


class Places:
    """URLs of stores of our own. One that is given back is used again; it was left as found."""

    def __init__(self, store: str, server: str, folder: Path) -> None:
        self._store = store
        self._server = server
        self._folder = folder
        self._marks: list[str] = []
        self._free: dict[str, list[str]] = defaultdict(list)

    def take(self, query: str = "") -> str:
        """The URL of a store that nobody uses."""
        free = self._free[query]
        return free.pop() if free else self._new(query)

    def give_back(self, url: str, query: str = "") -> None:
        """Nobody uses this one any more."""
        self._free[query].append(url)

    def _new(self, query: str) -> str:
        mark = f"f{secrets.token_hex(5)}"
        self._marks.append(mark)
        match self._store:
            case "redis":
                return with_query(self._server, prefix=mark)
            case "postgres":
                return with_query(self._server, schema=mark)
            case "mongo":
                url = urlsplit(self._server)._replace(path=f"/{mark}").geturl()
                return f"{url}&{query}" if query else url
            case _:
                return f"sqlite:///{self._folder / mark}.db"

    def remove(self) -> None:
        """Drop all that was made."""
        for mark in self._marks:
            match self._store:
                case "redis":
                    remove_keys(self._server, mark)
                case "postgres":
                    drop_schema(self._server, mark)
                case "mongo":
                    drop_database(self._server, mark)


@contextmanager
def places(store: str, folder: Path) -> Iterator[Places]:
    """Places on the store's server."""
    with server_of(store) as server:
        made = Places(store, server, folder)
        try:
            yield made
        finally:
            made.remove()
