"""A queue of Celery's: lists by priority, and messages that its workers hold."""

import json
import time
from collections.abc import Sequence
from typing import Any

from mulligan.contrib.bridge.celery_message import read_celery
from mulligan.contrib.bridge.message import Left, Message
from mulligan.contrib.bridge.redis_queue import Entry, QueueKey, RedisQueue

# How kombu separates a queue's name from a priority, and the parts of a binding.
SEPARATOR = "\x06\x16"
PRIORITIES = range(1, 10)


class CeleryQueue(RedisQueue):
    """A queue as kombu keeps it.

    Producers push to the left of a list, and workers take from its right. What a worker has taken
    and not finished stands in the hash `unacked`; after the visibility timeout it may be taken from
    there, as Celery would.
    """

    system = "celery"

    def __init__(
        self, redis: Any, queue: str, *, prefix: str = "", visibility_timeout: float = 3600.0
    ) -> None:
        super().__init__(redis, queue, prefix=prefix)
        self._timeout = visibility_timeout
        self._lists = [f"{prefix}{queue}"]
        self._lists += [f"{prefix}{queue}{SEPARATOR}{priority}" for priority in PRIORITIES]
        self._unacked = QueueKey(f"{prefix}unacked", "hash", f"{prefix}unacked_index")

    async def count(self) -> int:
        """About how many messages wait."""
        async with self.redis.pipeline(transaction=False) as pipe:
            for key in self._lists:
                pipe.llen(key)
            lengths: list[int] = await pipe.execute()
        return sum(lengths)

    async def queue_keys(self) -> list[QueueKey]:
        """What no worker finished, then the lists, the most urgent first."""
        return [self._unacked, *(QueueKey(key, "last") for key in self._lists)]

    async def page(self, queue_key: QueueKey, skip: int, size: int) -> list[Message | Left]:
        """Messages of a list, from its right, or those held for too long."""
        if queue_key.removal == "hash":
            return await self._held_too_long(queue_key, skip, size)
        raws = await self.redis.lrange(queue_key.key, -skip - size, -skip - 1)
        return [readable(queue_key.key, raw, raw) for raw in reversed(raws)]

    async def _held_too_long(
        self, queue_key: QueueKey, skip: int, size: int
    ) -> list[Message | Left]:
        """Messages of this queue; those of others are not counted, and not skipped either."""
        # All that are due: a page of what is skipped would have to know which are of this queue.
        before = time.time() - self._timeout
        tags = await self.redis.zrangebyscore(queue_key.index, "-inf", before)
        found: list[Message | Left] = []
        for start in range(0, len(tags), size):
            part = tags[start : start + size]
            raws = await self.redis.hmget(queue_key.key, part)
            for tag, raw in zip(part, raws, strict=True):
                if raw is not None and await self._is_ours(raw):
                    found.append(readable(queue_key.key, tag, raw))
        return found[skip : skip + size]

    async def _is_ours(self, raw: bytes) -> bool:
        """Whether a message that a worker holds came from this queue."""
        try:
            _, exchange, route = json.loads(raw)
        except (ValueError, TypeError, RecursionError):
            return False
        if not exchange:
            return bool(route == self.queue)
        for binding in await self.redis.smembers(f"{self.prefix}_kombu.binding.{exchange}"):
            key, _, queue = binding.decode(errors="replace").rpartition(SEPARATOR)
            if queue == self.queue and key.partition(SEPARATOR)[0] in (route, ""):
                return True
        return False

    async def others(self) -> tuple[list[Left], int]:
        """How many messages workers of Celery's hold, of all queues."""
        return [], await self.redis.zcard(self._unacked.index)

    async def read(self, entries: Sequence[Entry]) -> list[Message | Left]:
        """What a batch has kept."""
        return [read_celery(each.key, each.raw, each.raw) for each in entries]

    def give_back(self, pipe: Any, entry: Entry) -> None:
        """Put it at the right of its list, whence the next is taken."""
        if entry.key == self._unacked.key:
            pipe.rpush(self._lists[0], json.dumps(json.loads(entry.raw)[0]))
        else:
            pipe.rpush(entry.key, entry.raw)


def readable(key: str, member: bytes, raw: bytes) -> Message | Left:
    """The message, if it is text."""
    try:
        return read_celery(key, member.decode(), raw.decode())
    except UnicodeDecodeError:
        return Left("", "", "it is no message of Celery's")
