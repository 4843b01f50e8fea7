"""A queue of RQ's: a list of ids, a sorted set of those that are scheduled, and a hash of each."""

from collections.abc import Sequence
from typing import Any

from mulligan.contrib.bridge.message import Left, Message
from mulligan.contrib.bridge.redis_queue import Entry, QueueKey, RedisQueue
from mulligan.contrib.bridge.rq_job import read_rq

SHOWN = 100


class RqQueue(RedisQueue):
    """A queue as RQ keeps it. A job's hash stays until the job is stored here."""

    system = "rq"

    def __init__(self, redis: Any, queue: str, *, prefix: str = "") -> None:
        super().__init__(redis, queue, prefix=prefix)
        self._waiting = QueueKey(f"{prefix}rq:queue:{queue}", "first")
        self._scheduled = QueueKey(f"{prefix}rq:scheduled:{queue}", "sorted")

    async def count(self) -> int:
        """About how many jobs wait, or are scheduled."""
        waiting: int = await self.redis.llen(self._waiting.key)
        scheduled: int = await self.redis.zcard(self._scheduled.key)
        return waiting + scheduled

    async def queue_keys(self) -> list[QueueKey]:
        """The list, then what is scheduled."""
        return [self._waiting, self._scheduled]

    async def page(self, queue_key: QueueKey, skip: int, size: int) -> list[Message | Left]:
        """Jobs in the order in which RQ would take them."""
        if queue_key.removal == "first":
            ids = await self.redis.lrange(queue_key.key, skip, skip + size - 1)
            return await self._jobs(queue_key.key, [(id_of(each), None) for each in ids])
        due = await self.redis.zrange(queue_key.key, skip, skip + size - 1, withscores=True)
        return await self._jobs(queue_key.key, [(id_of(each), at) for each, at in due])

    async def _jobs(
        self, key: str, named: Sequence[tuple[str, float | None]]
    ) -> list[Message | Left]:
        async with self.redis.pipeline(transaction=False) as pipe:
            for id_, _ in named:
                pipe.hgetall(self._hash(id_))
                pipe.scard(f"{self._hash(id_)}:dependents")
            answers = await pipe.execute(raise_on_error=False)
        return [
            Left(id_, "", f"its keys cannot be read: {wrong[0]}")
            if (wrong := [each for each in (fields, dependents) if isinstance(each, Exception)])
            else read_rq(key, id_, fields, due=due, dependents=dependents)
            for (id_, due), fields, dependents in zip(
                named, answers[::2], answers[1::2], strict=True
            )
        ]

    async def others(self) -> tuple[list[Left], int]:
        """Jobs that wait for others, and how many RQ's workers run."""
        deferred = await self.redis.zrange(f"{self.prefix}rq:deferred:{self.queue}", 0, SHOWN - 1)
        reason = "it waits for other jobs; let RQ finish it"
        left = [Left(each.decode(), "", reason) for each in deferred]
        return left, await self.redis.zcard(f"{self.prefix}rq:wip:{self.queue}")

    async def read(self, entries: Sequence[Entry]) -> list[Message | Left]:
        """What a batch has kept, with the hashes, which are still there."""
        found: list[Message | Left] = []
        for entry in entries:
            id_, due = named(entry)
            found += await self._jobs(entry.key, [(id_, due)])
        return found

    def forget(self, pipe: Any, messages: Sequence[Message]) -> None:
        """Delete the hashes of jobs that have been taken over."""
        for message in messages:
            pipe.delete(self._hash(message.id))

    def give_back(self, pipe: Any, entry: Entry) -> None:
        """Put it where it was; RQ leaves alone an id whose hash has expired."""
        id_, due = named(entry)
        if due is None:
            pipe.lpush(entry.key, id_)
        else:
            pipe.zadd(entry.key, {id_: due})

    def _hash(self, id_: str) -> str:
        return f"{self.prefix}rq:job:{id_}"


def id_of(member: bytes) -> str:
    """The id of a job. One that is no text finds no job, and so stays where it is."""
    return member.decode(errors="replace")


def named(entry: Entry) -> tuple[str, float | None]:
    """The id in a batch, and when it was to start if it was scheduled."""
    if entry.key.partition("rq:")[2].startswith("scheduled:"):
        id_, _, due = entry.raw.rpartition(" ")
        return id_, float(due)
    return entry.raw, None
