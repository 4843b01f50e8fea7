"""The bridge: takes messages from another queue, stores them as jobs, then forgets them there.

In this order, a batch at a time: moved from the queue into a batch, in one step; stored here
together with a letter that names them, in one step; the batch emptied; the letter purged. Killed
anywhere, the next run finishes the batch: if the letter is here the jobs are stored, and else they
are stored now, under the same ids.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from mulligan.app import Mulligan
from mulligan.contrib.bridge.jobs import Tasks
from mulligan.contrib.bridge.message import Left, Message, unreadable
from mulligan.contrib.bridge.redis_queue import Connect, Entry, QueueKey, RedisQueue, connected
from mulligan.core.batch_letter import batch_letter
from mulligan.core.errors import StoreUnavailableError
from mulligan.core.job import Adopted, Job
from mulligan.stores.contract import Store

BATCH = 100
# How many messages that were left are listed one by one; all are counted.
SHOWN = 1000
PAUSE = 0.5
# Within how many seconds two times are the same: stores keep whole microseconds.
SAME = 0.000_002
Progress = Callable[[int, int], None]


class Bridged(Struct):
    """What a bridge did: taken over, left where it is and why, held by the other's workers.

    `resumed` are those of `taken` that an earlier bridge had begun with.
    """

    taken: int = 0
    left: int = 0
    held: int = 0
    resumed: int = 0
    reasons: dict[str, int] = {}
    messages: list[Left] = []


def no_progress(taken: int, total: int) -> None:
    """Tell nobody."""


async def run_bridge(
    app: Mulligan,
    url: str,
    system: str,
    queues: Connect,
    *,
    tasks: Mapping[str, str] | None = None,
    dry_run: bool = False,
    follow: asyncio.Event | None = None,
    progress: Progress = no_progress,
) -> Bridged:
    """Take over what waits in the queues, once, or until `follow` is set."""
    named = Tasks(app, tasks or {})

    store = app.make_store()
    await store.open()
    try:
        async with connected(url, system, queues) as found:
            bridge = Bridge(store, named, progress, system)
            while True:
                done = await bridge.go_through(found, dry_run=dry_run)
                if follow is None or follow.is_set():
                    return done
                await pause(follow)
    finally:
        await store.close()


async def pause(end: asyncio.Event) -> None:
    """Wait a little, or until the end."""
    try:
        async with asyncio.timeout(PAUSE):
            await end.wait()
    except TimeoutError:
        pass


class Bridge:
    """One run, over one or more queues."""

    def __init__(self, store: Store, tasks: Tasks, progress: Progress, system: str) -> None:
        self._store = store
        self._tasks = tasks
        self._progress = progress
        self._system = system
        self._taken = 0
        self._resumed = 0
        self._total = 0

    async def go_through(self, queues: Sequence[RedisQueue], *, dry_run: bool) -> Bridged:
        """Finish what an earlier bridge began, then take all that can be taken."""
        self._total = self._taken + sum([await queue.count() for queue in queues])
        left: list[Left] = []
        held = would = 0
        for queue in queues:
            if not dry_run:
                for batch in await queue.batches():
                    self._resumed += await self._finish(queue, batch)
            for queue_key in await queue.queue_keys():
                stay, taken = await self._empty(queue, queue_key, dry_run=dry_run)
                left += stay
                would += taken
            others, theirs = await queue.others()
            left += others
            held = max(held, theirs)
        reasons = Counter(each.reason for each in left)
        taken = would if dry_run else self._taken
        return Bridged(taken, len(left), held, self._resumed, dict(reasons), left[:SHOWN])

    async def _empty(
        self, queue: RedisQueue, queue_key: QueueKey, *, dry_run: bool
    ) -> tuple[list[Left], int]:
        """Take what can be taken from a key; what is left, and how many were not."""
        left: list[Left] = []
        skip = taken = 0
        while page := await queue.page(queue_key, skip, BATCH):
            now = (await self._store.facts()).now
            read = [each for each in page if isinstance(each, Message)]
            stay = [each for each in page if isinstance(each, Left)]
            jobs: list[tuple[Message, Job]] = []
            for message, id_ in zip(read, await self._ids(read), strict=True):
                job = self._tasks.job(message, id_, now)
                if isinstance(job, Left):
                    stay.append(job)
                else:
                    jobs.append((message, job))
            left += stay
            taken += len(jobs)
            skip += len(stay)
            if dry_run:
                skip += len(jobs)
            elif jobs:
                refused: list[Left] = []
                skip += len(jobs) - await self._take(queue, queue_key, jobs, refused)
                left += refused
                taken -= len(refused)
        return left, taken

    async def _ids(self, messages: Sequence[Message]) -> list[str]:
        """An id for each: its own, unless a job or another message has it already."""
        stored = await asyncio.gather(*(self._store.get(each.id) for each in messages))
        ids: list[str] = []
        used = {each.id for each in stored if each is not None}
        for message in messages:
            id_ = message.id if message.id not in used else f"{message.id}-{uuid4().hex[:12]}"
            used.add(id_)
            ids.append(id_)
        return ids

    async def _take(
        self,
        queue: RedisQueue,
        queue_key: QueueKey,
        jobs: Sequence[tuple[Message, Job]],
        refused: list[Left],
    ) -> int:
        """Take these, and say how many; what others took meanwhile is theirs.

        If the store refuses a batch, it goes back to its queue, and each message is taken by
        itself. A message that is refused alone stays there, and is added to `refused`.
        """
        batch = uuid4().hex
        named = [(job.id, job.created_at, message) for message, job in jobs]
        answers = await queue.take(batch, queue_key, named)
        ours = [each for each, taken in zip(jobs, answers, strict=True) if taken]
        if not ours:
            return 0
        entries = {
            job.id: Entry(job.id, queue_key.key, message.raw, job.created_at)
            for message, job in ours
        }
        try:
            stored = await self._store_jobs(batch, [job for _, job in ours])
        except StoreUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001 - of drivers, which say in many ways what is wrong
            await self._end(queue, batch, [], list(entries.values()))
            if len(ours) > 1:
                alone = [await self._take(queue, queue_key, [each], refused) for each in ours]
                return sum(alone)
            [(message, _)] = ours
            refused.append(unreadable(message.id, message.task, "the store refuses it", error))
            return 0
        messages = [message for message, job in ours if job.id in stored]
        # A job has come under the same id meanwhile: the next time it gets another one.
        returned = [entry for id_, entry in entries.items() if id_ not in stored]
        await self._end(queue, batch, messages, returned)
        return len(messages)

    async def _finish(self, queue: RedisQueue, batch: str) -> int:
        """Finish a batch that a killed bridge began; how many jobs came of it."""
        entries = await queue.entries(batch)
        now = (await self._store.facts()).now
        begun: list[tuple[Entry, Message, Job]] = []
        returned: list[Entry] = []
        for entry, message in zip(entries, await queue.read(entries), strict=True):
            job = message if isinstance(message, Left) else self._tasks.job(message, entry.job, now)
            if isinstance(message, Message) and isinstance(job, Job):
                begun.append((entry, message, replace(job, created_at=entry.created_at)))
            else:  # the app no longer has its task
                returned.append(entry)
        stored: set[str] = set()
        if jobs := [job for _, _, job in begun]:
            if await self._store.get(letter_id(batch)) is None:
                stored = await self._store_jobs(batch, jobs)
            else:  # they were stored before the kill; what is not there has been run and forgotten
                stored = await self._still_theirs(jobs, gone=True)
        returned += [entry for entry, _, job in begun if job.id not in stored]
        messages = [message for _, message, job in begun if job.id in stored]
        await self._end(queue, batch, messages, returned)
        return len(messages)

    async def _store_jobs(self, batch: str, jobs: list[Job]) -> set[str]:
        """Store the jobs and the letter; the ids of those that are stored.

        A second bridge may have taken this batch for a killed one's and stored some. The others are
        not stored, since another job has their id.
        """
        adopted = [Adopted(job, []) for job in jobs]
        why = f"a bridge from {self._system} was interrupted; start it again to finish"
        letter = batch_letter(letter_id(batch), "mulligan.bridge", jobs, why, jobs[0].created_at)
        answers = await self._store.adopt([*adopted, letter])
        stored = {job.id for job, taken in zip(jobs, answers, strict=False) if taken}
        refused = [job for job in jobs if job.id not in stored]
        return stored | await self._still_theirs(refused, gone=False)

    async def _still_theirs(self, jobs: Sequence[Job], *, gone: bool) -> set[str]:
        """The ids under which these very jobs are stored; with `gone` also those of no job."""
        there = await asyncio.gather(*(self._store.get(job.id) for job in jobs))
        return {
            job.id
            for job, found in zip(jobs, there, strict=True)
            if (gone if found is None else abs(found.created_at - job.created_at) < SAME)
        }

    async def _end(
        self,
        queue: RedisQueue,
        batch: str,
        messages: Sequence[Message],
        returned: Sequence[Entry] = (),
    ) -> None:
        """Empty the batch, purge its letter, then forget its name: a letter is never left alone."""
        await queue.end(batch, messages, returned)
        await self._store.purge([letter_id(batch)])
        await queue.forget_batch(batch)
        self._tell(len(messages))

    def _tell(self, taken: int) -> None:
        self._taken += taken
        self._progress(self._taken, max(self._total, self._taken))


def letter_id(batch: str) -> str:
    """The id of the letter about a batch."""
    return f"bridge-{batch}"
