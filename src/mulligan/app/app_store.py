"""An app's way to its store: which one it is, handles on it, and jobs that are sent there."""

import os
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from mulligan.app.limits import DeclaredLimits
from mulligan.core.errors import InvalidError, ShardAwayError
from mulligan.core.job import Enqueued, NewJob
from mulligan.engine.tracing import Tracing, store_traced
from mulligan.stores import is_embedded, make_store, may_be_sharded, redact
from mulligan.stores.contract import Store

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from mulligan.app.sharded_ids import ShardedIds
    from mulligan.app.store_access import StoreAccess
    from mulligan.app.user_transaction import UserTransactions
    from mulligan.core.event import EventName
    from mulligan.core.signature import Keys
    from mulligan.engine.events import EventHook

T = TypeVar("T")
KEYS_VARIABLE = "MULLIGAN_SIGNING_KEYS"
STORE_VARIABLE = "MULLIGAN_STORE"
DEFAULT_STORE = "sqlite:///mulligan.db"


class AppStore:
    """The store of an app, as its tasks, handles and operations reach it."""

    # Of all apps; `instrument(app)` gives an app one of its own.
    tracing: Tracing | None = None

    def __init__(self, url: str | None, signing_keys: Sequence[str | bytes] | None) -> None:
        if url is None:
            url = os.environ.get(STORE_VARIABLE) or DEFAULT_STORE
        elif not url or not isinstance(url, str):
            raise InvalidError(
                f"store {url!r} must be a URL, such as {DEFAULT_STORE}; without one it is that of"
                f" {STORE_VARIABLE}, or else {DEFAULT_STORE}"
            )
        self.url = url
        self.keys = keys_of(signing_keys, os.environ.get(KEYS_VARIABLE))
        self.declared_limits = DeclaredLimits()
        self.event_hooks: dict[EventName, list[EventHook]] = {}
        self._memory: Store | None = make_store(url) if url.startswith("memory:") else None

    @cached_property
    def access(self) -> "StoreAccess":
        """How calls reach the store; made at the first call, since it imports asyncio."""
        if is_embedded(self.url):
            from mulligan.app.direct_access import DirectAccess  # noqa: PLC0415 - to import quickly

            return DirectAccess(partial(self.make_store, inline=True))
        from mulligan.app.thread_access import ThreadAccess  # noqa: PLC0415 - as above

        return ThreadAccess(self.make_store)

    @cached_property
    def user_transactions(self) -> "UserTransactions":
        """How jobs are enqueued on connections of the user's."""
        from mulligan.app.user_transaction import (  # noqa: PLC0415 - to import quickly
            UserTransactions,
        )

        return UserTransactions(self)

    @cached_property
    def sharded_ids(self) -> "ShardedIds | None":
        """What makes ids that name a shard; None for an app with one store, as nearly all are."""
        if not may_be_sharded(self.url):
            return None
        from mulligan.app.sharded_ids import ShardedIds  # noqa: PLC0415 - few apps have shards
        from mulligan.stores.shards import memory_of, shard_urls  # noqa: PLC0415 - as above

        count = len(shard_urls(self.url))
        if count == 1:
            return None
        # Many processes enqueue one job each: their first ones have to be spread as well. Memory is
        # of one process.
        begin = 0 if self.url.startswith("memory:") else int.from_bytes(os.urandom(4)) % count
        return ShardedIds(count, memory_of(self.url), begin)

    @property
    def shown_url(self) -> str:
        """The store's URL without its password."""
        return redact(self.url)

    def make_store(self, *, inline: bool = False) -> Store:
        """A handle on the app's store, not yet open; all handles on memory:// share one."""
        return self.seen(self._memory or make_store(self.url, inline=inline))

    def seen(self, store: Store) -> Store:
        """The store, wrapped so that jobs are signed and checked if the app has signing keys."""
        if self.keys is None:
            return store
        from mulligan.stores.signed import signed  # noqa: PLC0415 - few apps sign

        return signed(store, self.keys)

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine of this app from plain code."""
        if "enqueue" not in self.event_hooks:
            return self.access.run(work)
        from mulligan.app.events import run_and_tell  # noqa: PLC0415 - few apps have hooks

        return run_and_tell(self, work)

    async def asend(
        self, jobs: Sequence[NewJob], *, together: bool = False, connection: Any = None
    ) -> list[Enqueued]:
        """Store jobs in batches; those that belong `together` share a trace."""
        if self.joins(connection):
            return await self.user_transactions.asend(connection, jobs, together=together)
        await self.store_limits(jobs)

        async def send(jobs: Sequence[NewJob]) -> list[Enqueued]:
            return await self.access.acall(lambda store: store.enqueue_all(jobs))

        answers = await store_traced(self.tracing, jobs, send, together=together)
        self._tell_accepted(jobs, answers)
        return answers

    async def asend_one(self, job: NewJob) -> Enqueued:
        """Store one job, in a batch with those that other callers have under way."""
        await self.store_limits([job])
        if self._unwatched:
            return await self.access.aenqueue(job)

        async def send(jobs: Sequence[NewJob]) -> list[Enqueued]:
            return [await self.access.aenqueue(job) for job in jobs]

        answers = await store_traced(self.tracing, [job], send)
        self._tell_accepted([job], answers)
        return answers[0]

    async def store_limits(self, jobs: Iterable[NewJob] = ()) -> None:
        """Store the limits before the first job that names one.

        A worker that does not declare them yet then holds to them. A job of the user's transaction
        stores none: what it has locked could make another connection wait for it. While the shard
        is away that keeps them, other jobs do without.
        """
        if not self._limits_wait:
            return
        try:
            await self.access.acall(self.declared_limits.store_in)
        except ShardAwayError:
            from mulligan.core.limit_homes import limits_of  # noqa: PLC0415 - to import quickly

            if any(map(limits_of, jobs)):
                raise
        else:
            self.declared_limits.were_stored_by(self.access)

    @property
    def _limits_wait(self) -> bool:
        """Whether the app has limits, which its store does not have yet."""
        return bool(self.declared_limits) and self.declared_limits.wait_for(self.access)

    @property
    def _unwatched(self) -> bool:
        """Whether nobody follows what is enqueued."""
        return self.tracing is None and "enqueue" not in self.event_hooks

    def _tell_accepted(self, jobs: Sequence[NewJob], answers: Sequence[Enqueued]) -> None:
        if "enqueue" in self.event_hooks:
            from mulligan.app.events import accepted  # noqa: PLC0415 - few apps have hooks

            accepted(self, jobs, answers)

    def send_one(self, job: NewJob) -> Enqueued:
        """As `asend_one`, from plain code."""
        if self._unwatched and not self._limits_wait:
            return self.access.enqueue(job)
        return self.run(lambda: self.asend_one(job))

    def joins(self, connection: Any) -> bool:
        """Whether jobs are to be part of a transaction on the connection; never while testing."""
        return connection is not None and self.access.joins_transactions

    def connected(self) -> "AbstractAsyncContextManager[None]":
        """Keep a connection on the running loop: `async with app.connected(): …`.

        For programs with a long-lived loop, such as web servers: coroutines on it then call the
        store directly and not through the app's own thread.
        """
        return self.access.connected()

    def close(self) -> None:
        """End threads and close connections."""
        self.access.close()


def keys_of(given: Sequence[str | bytes] | None, written: str | None) -> "Keys | None":
    """The keys that were given, or else those of the environment; None if neither is set.

    An empty set of keys is refused: signing must not stop because a secret is empty.
    """
    if given is None and written is None:
        return None
    from mulligan.core.signature import Keys, read_keys  # noqa: PLC0415 - few apps sign

    if given is not None:
        return Keys(given)
    keys = read_keys(written or "")
    if not keys:
        raise InvalidError(f"{KEYS_VARIABLE} {written!r} has no key; unset it to sign nothing")
    return Keys(keys)
