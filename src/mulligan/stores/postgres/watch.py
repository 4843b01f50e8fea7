"""Who waits for jobs to end: one connection that listens, for all callers of a store.

It holds a shared advisory lock for as long, by which committers know that anybody waits: nothing is
stored, and a user who may only read may wait. NOTIFY makes transactions commit one after the other,
so what workers commit is told by a transaction of its own, which waits for no disk, and only while
somebody waits: the second one of the same statement, if somebody waited at the last commit too.
What ends otherwise is told by watch.sql.
"""

import asyncio
import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count

import msgspec
import psycopg
from psycopg import sql

from mulligan.core.errors import UNREADABLE, StoreError
from mulligan.core.outcome import Cancelled, Dead, Done, Outcome
from mulligan.stores.postgres.arrays import texts
from mulligan.stores.postgres.commit import Written
from mulligan.stores.postgres.connection import Connection
from mulligan.stores.postgres.database import Database
from mulligan.stores.postgres.listen import received
from mulligan.stores.postgres.url import ended_key
from mulligan.stores.watches import Tell, Watch, Watches

log = logging.getLogger("mulligan.store")

# For how many seconds the connection outlives the last wait: another one often follows.
LINGER = 10.0
RECONNECT_AFTER = 0.1
# The number of tries to get the lock before callers poll, and the seconds between two.
TRIES, TRY_AFTER = 10, 0.01
# The server takes less than 8,000 bytes.
PAYLOAD = 7900
_ids = msgspec.json.Decoder(list[str])
HOLD = "SELECT pg_try_advisory_lock_shared(%s)"
TELL = "SELECT pg_notify(%s, told) FROM unnest(%s::text[]) AS told"


class Watcher:
    """Tells the callers of one store when their jobs have ended, and those of other stores."""

    def __init__(self, database: Database, *, listen: bool) -> None:
        self.listen = listen
        self._database = database
        self._key = ended_key(database.url.schema)
        self._channel = f"mulligan_ended_{self._key}"
        self._watches: Watches[str] = Watches()
        self._listener: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._to_tell: list[str] = []
        self._telling: asyncio.Task[None] | None = None
        self._is_told = False
        self._any_watching = False  # when this store last committed
        self._tells_now = False  # with a commit that is under way

    # -- waiting -------------------------------------------------------------------------------

    async def watch(self, job: str, tell: Tell) -> Watch:
        """Have the listener run, and wait until it listens."""
        self._loop = asyncio.get_running_loop()
        self._watches.add(job, tell)
        watch = Watch(partial(self._stop, job, tell), is_told=False)
        if self.listen:
            if self._listener is None or self._listener.done():
                self._ready.clear()
                self._listener = asyncio.create_task(self._listen())
            try:
                await self._ready.wait()
            except BaseException:
                watch.close()
                raise
            watch.is_told = self._is_told
        return watch

    def _stop(self, job: str, tell: Tell) -> None:
        self._watches.remove(job, tell)
        if self._loop is not None and not self._watches:
            with suppress(RuntimeError):  # the loop is closed, and with it the connection
                self._loop.call_soon_threadsafe(self._loop.call_later, LINGER, self._end_if_idle)

    def _end_if_idle(self) -> None:
        if self._listener is not None and not self._watches:
            self._listener.cancel()

    async def _listen(self) -> None:
        """Tell callers for as long as there are any; whatever was lost, they are to look."""
        while self._watches:
            try:
                connection = await self._database.pool.connect()
                try:
                    await self._follow(connection)
                finally:
                    self._is_told = False
                    await connection.close()
            except (psycopg.Error, StoreError) as error:
                log.debug("results are looked for, starting anew: %s", type(error).__name__)
            finally:
                self._ready.set()  # callers that cannot be told look by themselves
            self._watches.tell_all()
            await asyncio.sleep(RECONNECT_AFTER)

    async def _follow(self, connection: Connection) -> None:
        await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        # Committers hold the lock for a moment. Any role that may connect can hold it for longer:
        # callers poll then.
        for tried in count(1):
            if await self._let_know(connection):
                break
            if tried >= TRIES:
                self._ready.set()
            await asyncio.sleep(TRY_AFTER)
        self._is_told = True
        if self._ready.is_set():  # listening anew: something may have ended meanwhile
            self._watches.tell_all()
        self._ready.set()
        await received(connection, lambda text: self._watches.tell(ids_in(text)))

    async def _let_know(self, connection: Connection) -> bool:
        """Return whether the shared lock was free; committers notify while it is held."""
        row = await (await connection.execute(HOLD, (self._key,))).fetchone()
        return row == (True,)

    # -- telling -------------------------------------------------------------------------------

    @contextmanager
    def telling(self, outcomes: Sequence[Outcome]) -> Iterator[str | None]:
        """What a commit of these is to tell by itself, a round trip earlier.

        So a lonely caller is told, one commit at a time: those who tell wait for each other, and
        what many commits have to tell is quicker told together. A commit that tells is two
        transactions, which cannot be within the one that is needed behind a pooler.
        """
        alone = len(outcomes) == 1 and not self._tells_now
        if not (alone and self._any_watching) or self._database.pool.pooled:
            yield None
            return
        self._tells_now = True
        try:
            [told] = payloads(outcome.lease.job for outcome in outcomes)
            yield told
        finally:
            self._tells_now = False

    def written(self, outcomes: Sequence[Outcome], written: Written) -> None:
        """Tell of what has ended, here and elsewhere, without holding up the caller."""
        self._any_watching = written.any_watching
        if not written.any_watching:
            return
        ended = [
            outcome.lease.job
            for outcome, verdict in zip(outcomes, written.verdicts, strict=True)
            if verdict == "written" and isinstance(outcome, Done | Dead | Cancelled)
        ]
        self._watches.tell(ended)
        if not written.told:
            self._to_tell += ended
        if self._to_tell and (self._telling is None or self._telling.done()):
            self._telling = asyncio.create_task(self._tell())

    async def _tell(self) -> None:
        while self._to_tell:
            ended, self._to_tell = self._to_tell, []
            with suppress(StoreError):  # who waits looks as well
                await self._database.pool.run(TELL, (self._channel, texts(list(payloads(ended)))))

    async def close(self) -> None:
        """Stop listening, once all notifications are sent."""
        if self._telling is not None:
            await self._telling
        if self._listener is not None:
            self._listener.cancel()
            with suppress(asyncio.CancelledError):
                await self._listener
            self._listener = None


def payloads(jobs: Iterable[str]) -> Iterator[str]:
    """The ids in JSON arrays, each as long as a notification may be."""
    part: list[str] = []
    size = 2
    for job in jobs:
        more = len(json.dumps(job)) + 2
        if part and size + more > PAYLOAD:
            yield json.dumps(part)
            part, size = [], 2
        part.append(job)
        size += more
    if part:
        yield json.dumps(part)


def ids_in(payload: str) -> list[str]:
    """Return the ids in a payload, or none for one that another program sent."""
    try:
        return _ids.decode(payload)
    except UNREADABLE:
        return []
