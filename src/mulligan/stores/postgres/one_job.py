"""One plain job, as most are enqueued: a prepared call, made without the driver's help.

For each call the driver looks at the values, chooses how to send them and keeps account of what it
has prepared. That takes longer than all the rest, and for the same few values it is always the
same: so they are encoded here, and the driver only sends and waits.
"""

from collections.abc import Generator, Sequence
from typing import Any, Protocol

from psycopg.errors import error_from_result
from psycopg.generators import execute
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGconn, PGresult

from mulligan.core.job import Enqueued, NewJob
from mulligan.stores.postgres.fields import ONE_FORMATS

NAME = b"mulligan_accept_one"
# The time, which comes first, is sent as text.
FORMATS = [Format.TEXT, *(Format.BINARY if raw else Format.TEXT for raw in ONE_FORMATS)]
Values = Sequence[bytes | None]
# What a connection of psycopg waits for, step by step.
Steps = Generator[Any, Any, list[Enqueued]]


class OneJobConnection(Protocol):
    """A connection, of either kind, that remembers whether it has prepared the call."""

    knows_accept_one: bool

    @property
    def pgconn(self) -> PGconn:
        """The connection of libpq."""

    @property
    def prepare_threshold(self) -> int | None:
        """None where nothing may be prepared."""


def accept_one(
    connection: OneJobConnection, statement: bytes, job: NewJob, values: Values
) -> Steps:
    """Have one job stored; for the connection to wait for. Raises what the server refuses."""
    server = connection.pgconn
    if connection.prepare_threshold is None:
        server.send_query_params(statement, values, None, FORMATS, Format.BINARY)
    else:
        if not connection.knows_accept_one:
            server.send_prepare(NAME, statement)
            checked((yield from execute(server)))
            connection.knows_accept_one = True
        server.send_query_prepared(NAME, values, FORMATS, Format.BINARY)
    answer = checked((yield from execute(server)))
    # the answer is the id of the job that was there before, and that can only be its own
    return [Enqueued(job.id, created=answer.get_value(0, 0) is None)]


def checked(results: Sequence[PGresult]) -> PGresult:
    """The last answer; raises if it is an error."""
    answer = results[-1]
    if answer.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        raise error_from_result(answer)
    return answer
