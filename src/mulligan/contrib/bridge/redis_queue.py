"""What the bridge does to any queue in Redis: takes messages into a batch, and ends the batch.

A message is in its queue, or in a batch: the script moves it in one step. A batch that is left over
was begun by a bridge that was killed; the next one finds it in the set of batches.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import Struct

from mulligan.contrib.bridge.message import Left, Message
from mulligan.contrib.missing import missing
from mulligan.core.errors import InvalidError, StoreUnavailableError
from mulligan.stores import redact

SCHEMES = ("redis", "rediss", "unix")
Removal = Literal["first", "last", "sorted", "hash"]
TAKE = Path(__file__).with_name("take.lua").read_text()


class Entry(Struct, frozen=True):
    """What a batch keeps of a message: what stood in the queue, whence, and the id of its job.

    `created_at` is that of the job, which tells it from another job of the same id.
    """

    job: str
    key: str
    raw: str
    created_at: float


class QueueKey(Struct, frozen=True):
    """A key of Redis from which messages are taken, and how they are removed from it."""

    key: str
    removal: Removal
    index: str = ""


class RedisQueue(ABC):
    """A queue of another system in Redis."""

    system: ClassVar[str]

    def __init__(self, redis: Any, queue: str, *, prefix: str = "") -> None:
        self.redis = redis
        self.queue = queue
        self.prefix = prefix
        self._batches = f"{prefix}mulligan-bridge:{self.system}:{queue}"

    @abstractmethod
    async def count(self) -> int:
        """About how many messages there are."""

    @abstractmethod
    async def queue_keys(self) -> list[QueueKey]:
        """Whence messages are taken, in this order."""

    @abstractmethod
    async def page(self, queue_key: QueueKey, skip: int, size: int) -> list[Message | Left]:
        """Messages under a key in their order, after those that were skipped."""

    @abstractmethod
    async def others(self) -> tuple[list[Left], int]:
        """What the queue has elsewhere: what is left, and how many its own workers hold."""

    @abstractmethod
    async def read(self, entries: Sequence[Entry]) -> list[Message | Left]:
        """What a batch has kept."""

    def forget(self, pipe: Any, messages: Sequence[Message]) -> None:  # noqa: B027 - Celery has none
        """Delete what else belongs to messages that have been taken over."""

    @abstractmethod
    def give_back(self, pipe: Any, entry: Entry) -> None:
        """Put a message back at the head of its queue."""

    async def take(
        self, batch: str, queue_key: QueueKey, messages: Sequence[tuple[str, float, Message]]
    ) -> list[bool]:
        """Move messages into the batch, each with its job's id and time; False if it is gone."""
        values: list[str | bytes] = []
        for job, created_at, message in messages:
            entry = Entry(job, queue_key.key, message.raw, created_at)
            values += [message.member, msgspec.json.encode(entry)]
        keys = [queue_key.key, self._list(batch), self._batches, queue_key.index or queue_key.key]
        answers = await self.redis.eval(TAKE, len(keys), *keys, queue_key.removal, batch, *values)
        return [answer == 1 for answer in answers]

    async def batches(self) -> list[str]:
        """Batches that were begun and not ended."""
        return sorted(name.decode() for name in await self.redis.smembers(self._batches))

    async def entries(self, batch: str) -> list[Entry]:
        """What the batch has kept."""
        kept = await self.redis.lrange(self._list(batch), 0, -1)
        return [msgspec.json.decode(each, type=Entry) for each in kept]

    async def end(
        self, batch: str, messages: Sequence[Message], returned: Sequence[Entry] = ()
    ) -> None:
        """Empty the batch, whose messages are jobs now; some are given back instead."""
        async with self.redis.pipeline(transaction=True) as pipe:
            self.forget(pipe, messages)
            for entry in reversed(returned):
                self.give_back(pipe, entry)
            pipe.delete(self._list(batch))
            await pipe.execute()

    async def forget_batch(self, batch: str) -> None:
        """Forget a batch that is empty, and whose letter is purged."""
        await self.redis.srem(self._batches, batch)

    def _list(self, batch: str) -> str:
        return f"{self._batches}:{batch}"


Connect = Callable[[Any], list[RedisQueue]]


@asynccontextmanager
async def connected(url: str, system: str, queues: Connect) -> AsyncIterator[list[RedisQueue]]:
    """The queues of a Redis; its errors name its URL."""
    if url.partition("://")[0] not in SCHEMES:
        raise InvalidError(
            f"{redact(url)!r} is no URL of Redis, where {system} keeps its queues; give"
            " redis://HOST:PORT/DATABASE"
        )
    try:
        from redis.asyncio import Redis  # noqa: PLC0415 - an extra
        from redis.exceptions import RedisError  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise missing(error, "the bridge", "redis") from error
    try:
        redis = Redis.from_url(url)
        redis.connection_pool.make_connection()  # type: ignore[no-untyped-call]
    except TypeError as error:
        raise InvalidError(
            f"{redact(url)!r} has an option that redis-py does not know; leave it out"
        ) from error
    except ValueError as error:
        raise InvalidError(f"{redact(url)!r} is no URL of Redis: {error}") from error
    try:
        yield queues(redis)
    except (RedisError, OSError) as error:
        raise StoreUnavailableError(
            f"{redact(url)}, where {system} keeps its queues, failed: {error}; check that it runs,"
            " then start the bridge again: it goes on where it was"
        ) from error
    finally:
        await redis.aclose()
