"""Where a process can be seen at work from outside: at its store, its driver and its engine."""

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

from mulligan.stores import make_store
from tests.failpoints.points import OPERATIONS, POINTS

# What changes something in MongoDB; each of these is a step of its own.
MONGO_WRITES = (
    "insert_one", "insert_many", "update_one", "update_many", "replace_one", "delete_one",
    "delete_many", "bulk_write", "find_one_and_update", "find_one_and_delete",
)  # fmt: skip
SQLITE_WRITES = ("insert", "update", "delete", "replace")
# Operations that only look, or only sleep.
LOOKS = {
    "url", "open", "close", "wait", "facts", "counts", "notes", "get", "arrivals", "history",
    "page", "records", "stats", "depth", "ahead", "tail", "doctor",
    "schedules",
}  # fmt: skip


def tap(url: str) -> None:
    """See the steps of everything that this process does on the store of this URL."""
    tap_operations(type(make_store(url)))
    match url.partition(":")[0]:
        case "sqlite":
            tap_sqlite()
        case "redis":
            tap_redis()
        case "postgresql":
            tap_postgres()
        case "mongodb":
            tap_mongo()
    tap_engine()


def tap_operations(store: type) -> None:
    """Before anything is sent, and when the answer is there and nobody has seen it."""
    for name in sorted(OPERATIONS - LOOKS):
        if hasattr(store, name):
            surround(store, name, before=f"{name}: not yet sent", after=f"{name}: answered")


def tap_sqlite() -> None:
    """After each write inside a transaction: here a crash undoes all of it."""
    from mulligan.stores.sqlite.transaction import (  # noqa: PLC0415 - of this store alone
        StoreConnection,
    )

    for name in ("execute", "executemany"):
        original = getattr(StoreConnection, name)

        @wraps(original)
        def statement(self: Any, sql: str, *values: Any, do: Any = original) -> Any:
            answer = do(self, sql, *values)
            words = sql.lower().split()
            if words[0] in SQLITE_WRITES:
                POINTS.here(" ".join(words[:3]))
            return answer

        setattr(StoreConnection, name, statement)


def tap_redis() -> None:
    """When a script is on its way to the server, which runs it whatever becomes of us."""
    from mulligan.stores.redis.wire import Wire  # noqa: PLC0415 - of this store alone

    send = Wire.send

    def sent(self: Wire, packed: Sequence[bytes]) -> None:
        send(self, packed)
        POINTS.here("sent to Redis")

    Wire.send = sent  # type: ignore[method-assign]


def tap_postgres() -> None:
    """Before and after each statement; a transaction of one is durable after it."""
    from psycopg import AsyncCursor  # noqa: PLC0415 - of this store alone

    surround(AsyncCursor, "execute", before="statement: before", after="statement: after")


def tap_mongo() -> None:
    """After each write of an operation: here a crash leaves it half done."""
    from pymongo.asynchronous.collection import (  # noqa: PLC0415 - of this store alone
        AsyncCollection,
    )

    for name in MONGO_WRITES:
        surround(AsyncCollection, name, after=partial(written_to, name))


def written_to(command: str, collection: Any) -> str:
    """Which collection was written, and how."""
    return f"{command} {collection.name}"


def is_answered(point: str) -> bool:
    """Return whether the point is a write of MongoDB's driver, whose answer can be lost."""
    return point.rpartition(" > ")[2].partition(" ")[0] in MONGO_WRITES


def tap_engine() -> None:
    """Between what the store is asked: a claim that has not started, an outcome not yet sent."""
    from mulligan.engine.committer import Committer  # noqa: PLC0415 - patched in this process
    from mulligan.engine.executor import Executor  # noqa: PLC0415

    for owner, name, before, after in (
        (Executor, "start", "claimed, not started", "started"),
        (Committer, "add", "run, no outcome yet", "outcome decided, not sent"),
    ):
        original = getattr(owner, name)

        @wraps(original)
        def step(*args: Any, do: Any = original, words: tuple[str, str] = (before, after)) -> Any:
            POINTS.here(words[0])
            answer = do(*args)
            POINTS.here(words[1])
            return answer

        setattr(owner, name, step)


Words = str | Callable[[Any], str] | None


def surround(owner: type, name: str, *, before: Words = None, after: Words = None) -> None:
    """Let a coroutine method pass points on its way in and out."""
    original = getattr(owner, name)

    @wraps(original)
    async def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        if before is not None:
            POINTS.here(before if isinstance(before, str) else before(self))
        answer = await original(self, *args, **kwargs)
        if after is not None:
            POINTS.here(after if isinstance(after, str) else after(self))
        return answer

    setattr(owner, name, step)
