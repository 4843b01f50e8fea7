"""Enqueue for plain code: the caller itself sends and waits, with no event loop in between."""

import random
import select
import time
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.waiting import Ready, Wait

from mulligan.core.job import Enqueued, NewJob
from mulligan.stores.contract import NotDoneError
from mulligan.stores.postgres.connection import not_connected, options_of, translated
from mulligan.stores.postgres.database import Database
from mulligan.stores.postgres.enqueue import enqueued, values_of_one
from mulligan.stores.postgres.fields import packed_columns
from mulligan.stores.postgres.one_job import accept_one
from mulligan.stores.postgres.pool import (
    FIRST_PAUSE,
    PASSING,
    TRIES,
    is_quiet,
)
from mulligan.stores.postgres.session import ISOLATION, LITERALS, lock_timeout, set_for_session
from mulligan.stores.postgres.url import ANSWER_WITHIN

READ, WRITE = select.POLLIN | select.POLLERR | select.POLLHUP, select.POLLOUT
EVENTS = {Wait.R: READ, Wait.W: WRITE, Wait.RW: READ | WRITE}


class BlockingConnection(psycopg.Connection[tuple[Any, ...]]):
    """Waits for the answer to each message for a limited time, as `Connection` does."""

    answer_within = ANSWER_WITHIN
    knows_accept_one = False

    def wait(self, gen: Any, *_: Any, **__: Any) -> Any:
        """Wait as the driver does, for so long; then the connection is of no more use."""
        until = time.monotonic() + self.answer_within
        waiting = select.poll()
        number = self.pgconn.socket
        try:
            wanted = next(gen)
            while True:
                waiting.register(number, EVENTS[wanted])
                happened = waiting.poll(max(0.0, until - time.monotonic()) * 1000)
                wanted = gen.send(self._ready(happened))
        except StopIteration as ended:
            return ended.value
        except BaseException:
            self.pgconn.finish()  # nothing is read on from its middle
            raise

    def _ready(self, happened: list[tuple[int, int]]) -> int:
        if not happened:
            raise psycopg.OperationalError(f"no answer within {self.answer_within:g} s")
        [[_, events]] = happened
        return (Ready.R if events & READ else 0) | (Ready.W if events & WRITE else 0)


class BlockingProducer:
    """A connection of its own, for one thread at a time.

    What the server refuses, for whatever reason, is left to the store.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._accept = database.statements["accept"].encode()
        self._connection: BlockingConnection | None = None
        self._losses = 0
        self._cursor: Any = None

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """As the store does; never suspends."""
        one = values_of_one(self._database, jobs)
        many = None if one else self._database.values("accept", {"jobs": packed_columns(jobs)})
        pause = FIRST_PAUSE
        for left in reversed(range(TRIES)):
            connection = self._open()
            try:
                if one is not None:
                    statement = self._database.statements.accept_one
                    steps = accept_one(connection, statement, jobs[0], one)
                    answer: list[Enqueued] = connection.wait(steps)
                    return answer
                [[before]] = self._cursor.execute(self._accept, many).fetchall()
                return enqueued(jobs, before)
            except psycopg.Error as error:
                if connection.closed:
                    self.close()
                    raise translated(self._database.url, error) from None
                if error.sqlstate not in PASSING or not left:
                    raise NotDoneError from error
            except BaseException:
                self.close()
                raise
            time.sleep(pause * (1 + random.random()))  # noqa: ASYNC251 - plain code waits here
            pause *= 2
        raise AssertionError("the last try returns or raises")

    def close(self) -> None:
        """Let go of the connection; the next job makes a new one."""
        connection, self._connection, self._cursor = self._connection, None, None
        if connection is not None:
            connection.close()

    def _open(self) -> BlockingConnection:
        """A connection that the server has not ended meanwhile, nor most likely the network."""
        if self._connection is not None and (
            self._losses != self._database.losses or not is_quiet(self._connection)
        ):
            self.close()
        return self._connection or self._connect()

    def _connect(self) -> BlockingConnection:
        url = self._database.url
        self._losses = self._database.losses
        try:
            conninfo, options = options_of(url)
            connection = self._connection = BlockingConnection.connect(conninfo, **options)
            connection.answer_within = url.answer_within
            settings = LITERALS | ISOLATION | lock_timeout(url.answer_within)
            connection.execute(*set_for_session(settings))
        except psycopg.errors.ConnectionTimeout as error:
            raise not_connected(url, error) from None  # the store would only wait once more
        except (psycopg.Error, OSError) as error:
            self.close()
            raise NotDoneError from error
        connection.prepare_threshold = 0
        self._cursor = connection.cursor(binary=True)
        return connection
