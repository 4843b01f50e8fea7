"""Committing in one transaction with work of the user's own."""

from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from mulligan.core.errors import InvalidError
from mulligan.core.job import Lease
from mulligan.core.outcome import Done, Verdict
from mulligan.core.settings import HISTORY_LIMIT
from mulligan.stores.postgres._answering import Connection
from mulligan.stores.postgres._commit import VERDICTS
from mulligan.stores.postgres._connections import Connections
from mulligan.stores.postgres._encode import outcome_arrays
from mulligan.stores.postgres._statements import Statements

Work = Callable[[Connection], Awaitable[Any]]


class Within:
    """Has work done and its outcome written, both or neither.

    The connections are for nothing else: work may take long, and may use the store meanwhile.
    """

    def __init__(
        self, connections: Connections, statements: Statements, now: Callable[[], int | None]
    ) -> None:
        self._connections = connections
        self._statements = statements
        self._now = now

    async def commit(self, outcome: Done, work: Work) -> Verdict:
        """Have the work done and write the outcome, in one transaction.

        The lease is looked at first, so that no work is done in vain, and again when the outcome is
        written. In between the job is not locked: it can be reclaimed from a worker that hangs.
        """
        failure: BaseException | None = None
        try:
            async with (
                self._connections.use() as connection,
                connection.transaction() as transaction,
            ):
                verdict = await self._begin(connection, outcome.lease)
                if verdict == "written":
                    try:
                        with connection.patient():
                            await work(connection)
                    except BaseException as error:  # noqa: BLE001 - raised when all is undone
                        failure = error
                    else:
                        verdict = await self._write(connection, outcome)
                    transaction.force_rollback = failure is not None or verdict != "written"
        except psycopg.Error as error:
            if failure is None:
                raise await self._connections.explained(error) from None
        if failure is not None:
            raise failure
        return verdict

    async def _begin(self, connection: Connection, lease: Lease) -> Verdict:
        """What would become of an outcome now."""
        return VERDICTS[await self._ask(connection, "begin_within", *lease)]

    async def _write(self, connection: Connection, outcome: Done) -> Verdict:
        if not await self._ask(connection, "still_within", outcome.lease.job):
            raise InvalidError(
                f"the work of job {outcome.lease.job!r} ended the transaction that it was given;"
                " leave COMMIT and ROLLBACK to the store"
            )
        values = (self._now(), *outcome_arrays([outcome], HISTORY_LIMIT))
        [answer] = await self._ask(connection, "commit_last", *values)
        return VERDICTS[answer]

    async def _ask(self, connection: Connection, function: str, *values: Any) -> Any:
        # rows as we read them, whatever the work has set for the connection
        async with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
            await cursor.execute(self._statements[function].encode(), values)
            row = await cursor.fetchone()
        return (row or [None])[0]
