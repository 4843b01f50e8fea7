"""Django's database: jobs that are kept in it, and jobs that are part of its transactions."""

import os
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from django.db import connections, transaction

from mulligan import Mulligan
from mulligan.app.user_transaction import identity_of
from mulligan.core.errors import InvalidError
from mulligan.stores.sqlite.url import parse


def url_of(alias: str) -> str:
    """The URL of a store in this database, as it is now: tests have one of their own."""
    connection = connections[alias]
    settings = connection.settings_dict
    name = str(settings["NAME"])
    if connection.vendor == "sqlite":
        in_memory = not name or name == ":memory:" or "mode=memory" in name
        return "memory://" if in_memory else f"sqlite:///{quote(os.path.abspath(name))}"  # noqa: PTH100
    if connection.vendor != "postgresql":
        raise InvalidError(
            f"database {alias!r} is {connection.vendor}, and jobs can be kept in PostgreSQL and"
            " SQLite; give url instead"
        )
    user = ":".join(quote(settings[key], safe="") for key in ("USER", "PASSWORD") if settings[key])
    socket = settings["HOST"].startswith("/")
    host = "" if socket else settings["HOST"] + (f":{settings['PORT']}" if settings["PORT"] else "")
    query = {"host": settings["HOST"], "port": settings["PORT"] or "5432"} if socket else {}
    end = f"?{urlencode(query)}" if query else ""
    return f"postgresql://{user}{'@' if user else ''}{host}/{quote(name, safe='')}{end}"


def in_transaction(alias: str) -> bool:
    """Whether the caller is inside a transaction of this database."""
    return alias in connections and connections[alias].in_atomic_block


def after_commit(alias: str, work: Callable[[], object]) -> None:
    """Do it when the transaction commits, and now if there is none."""
    if in_transaction(alias):
        transaction.on_commit(work, using=alias)
    else:
        work()


class Neighbours:
    """Whether the jobs of an app are in a database of Django's; each database is asked once."""

    def __init__(self, app: Mulligan) -> None:
        self._app = app
        self._known: dict[tuple[str, str], bool] = {}

    def add(self, alias: str) -> None:
        """Know that the app's URL was made from that of this database: there is nothing to ask."""
        self._app.user_transactions.is_sure = True
        self._known[alias, str(connections[alias].settings_dict["NAME"])] = True

    def share(self, alias: str) -> bool:
        """Whether a job can be part of a transaction on this database."""
        connection = connections[alias]
        key = alias, str(connection.settings_dict["NAME"])
        if key not in self._known:
            self._known[key] = self._compare(connection)
        return self._known[key]

    def _compare(self, connection: Any) -> bool:
        scheme = urlsplit(self._app.url).scheme
        match connection.vendor:
            case "sqlite" if scheme == "sqlite":
                url = parse(self._app.url)
                name = os.path.realpath(str(connection.settings_dict["NAME"]))
                return not url.in_memory and os.path.realpath(url.path) == name
            case "postgresql" if scheme in ("postgresql", "postgres"):
                return self._identity_there(connection) == self._app.run(self._identity)
        return False

    async def _identity(self) -> str:
        return await self._app.access.acall(identity_of)

    def _identity_there(self, connection: Any) -> str:
        from mulligan.stores.postgres.user_transaction import (  # noqa: PLC0415 - its driver
            IDENTITY,
        )

        with connection.cursor() as cursor:
            cursor.execute(IDENTITY)
            found: str = cursor.fetchone()[0]
            return found
