"""Enqueue on a connection of the user's: the jobs exist exactly if its transaction commits."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from mulligan.core.at_once import at_once
from mulligan.core.errors import InvalidError
from mulligan.core.job import Enqueued, NewJob
from mulligan.engine.tracing import store_traced
from mulligan.stores.batches import batches_of
from mulligan.stores.contract import EnqueuesInTransaction, Store

if TYPE_CHECKING:
    from mulligan.app.app_store import AppStore


class UserTransactions:
    """Sends jobs of an app through connections that it is given, and opens none for it.

    What is asked of the app's own store, once for each database that a connection leads to, is
    whether it is the same one.
    """

    def __init__(self, app: "AppStore") -> None:
        self._app = app
        store = app.make_store()  # it stays closed, and only makes the statements
        if not hasattr(store, "enqueue_in"):
            raise InvalidError(
                f"{app.shown_url} cannot take part in a transaction of your database: connection="
                " is for jobs in PostgreSQL or SQLite. Enqueue after the commit, in Django by"
                " transaction.on_commit(...); so that a crash in between loses nothing, write a row"
                " of your own in the transaction, and enqueue with its key as id= from a scheduled"
                " task that deletes it"
            )
        self._store = cast("EnqueuesInTransaction", store)
        # Whether every connection is known to lead to the store, so that nothing is asked.
        self.is_sure = False

    def send(
        self, connection: Any, jobs: Sequence[NewJob], *, together: bool = False
    ) -> list[Enqueued]:
        """Store the jobs as part of the transaction, from plain code."""
        identity = None if self.is_sure else self._identity

        async def send(jobs: Sequence[NewJob]) -> list[Enqueued]:
            return [
                answer
                for batch in batches_of(jobs)
                for answer in self._store.enqueue_in(connection, batch, identity)
            ]

        return at_once(store_traced(self._app.tracing, jobs, send, together=together))

    async def asend(
        self, connection: Any, jobs: Sequence[NewJob], *, together: bool = False
    ) -> list[Enqueued]:
        """As `send`, on an asynchronous connection."""

        async def send(jobs: Sequence[NewJob]) -> list[Enqueued]:
            return [
                answer
                for batch in batches_of(jobs)
                for answer in await self._store.aenqueue_in(connection, batch, self._aidentity)
            ]

        return await store_traced(self._app.tracing, jobs, send, together=together)

    def _identity(self) -> str:
        return self._app.run(self._aidentity)

    async def _aidentity(self) -> str:
        return await self._app.access.acall(identity_of)


async def identity_of(store: Store) -> str:
    """Which database the open store is in."""
    return await cast("EnqueuesInTransaction", store).identity()
