"""Limits: permits and counted starts, and jobs that their concurrency key holds.

A limit is one document a key, with its permits and its counted starts. A permit is made of the
claim's stamp and the job's id. It is charged before its job is claimed and freed after the job's
own update, so that a crash between leaves a permit too many, never one too few; the sweep finds
those. A charge names the version that it read and fails if another came first.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from pymongo import UpdateOne

from mulligan.core.plan import Rate
from mulligan.stores.mongo.bulk_write import Change, stamped_at, write
from mulligan.stores.mongo.connection import Connection, keys_of, rows
from mulligan.stores.mongo.document import SECOND, Doc, lane_name, permits_of
from mulligan.stores.mongo.snapshot import (
    PROJECTION,
    Candidate,
    LimitState,
    Taken,
    Trial,
    candidate,
    closes,
    counted_at,
    first_of_each,
)
from mulligan.stores.mongo.validate import invalid_reason
from mulligan.stores.mongo.wakeup import News, Wakeup

# Limits of which someone has a permit.
IN_USE = {"holders.0": {"$exists": True}}
# Long enough for any claim to get from its permits to its jobs, shorter than a lease.
GRACE = 5 * SECOND
# A claim reads the clock before it reads the limits; so much later it may still charge them.
SLOWEST = 30 * SECOND


class Keys:
    """Frees permits, and lets go of jobs that concurrency keys hold."""

    def __init__(self, connection: Connection, wakeup: Wakeup) -> None:
        self.connection = connection
        self.wakeup = wakeup

    async def held(self, *keys: str) -> list[Candidate]:
        """The jobs that are set aside for these keys; those that are invalid never come back."""
        query = {
            "status": "pending",
            "mulligan.concurrency_key": {"$in": list(keys)},
            "mulligan.held": True,
        }
        found = await rows(self.connection.tasks.find(query, PROJECTION))
        if invalid := [doc["_id"] for doc in found if invalid_reason(doc)]:
            ids = {"_id": {"$in": invalid}, "status": "pending"}
            await self.wakeup.take_in(await rows(self.connection.tasks.find(ids)))
        return [candidate(doc) for doc in found if doc["_id"] not in invalid]

    async def stand(self, jobs: Sequence[Candidate]) -> list[News]:
        """Let these jobs back into their lanes, each where it stood."""
        changes = [
            Change(
                job.key,
                {"status": "pending", "mulligan.held": True},
                {"$set": {"mulligan.held": False, "mulligan.lane": lane_name(job.lane)}},
            )
            for job in jobs
        ]
        written = await self.connection.apply(changes)
        return [News(lane_name(job.lane), job.due) for job in jobs if job.key in written]

    async def release(self, docs: Sequence[Doc]) -> list[list[News]]:
        """Free the permits of jobs as they were when they ended, in this order.

        Each job of a key lets go of the first held job of every lane, as if one ended after the
        other: also of one that was held then and ends after it. The news of each is returned at
        its index.
        """
        news: list[list[News]] = [[] for _ in docs]
        permits = []
        for doc, own in zip(docs, news, strict=True):
            private = doc["mulligan"]
            word = permit_of(private.get("permit_stamp", ""), str(doc["_id"]))
            for key in permits_of(doc):
                permits.append((key, word))
                own.append(News(limit=key))
        await free_permits(self.connection, permits)
        ended: dict[str, list[int]] = defaultdict(list)
        for at, doc in enumerate(docs):
            if (key := doc["mulligan"].get("concurrency_key")) is not None:
                ended[key].append(at)
        if ended:
            await self._let_go(docs, ended, news)
        return news

    async def _let_go(
        self, docs: Sequence[Doc], ended: dict[str, list[int]], news: list[list[News]]
    ) -> None:
        waiting = await self.held(*ended)
        if not waiting:
            return
        states = await read(self.connection, [f"key:{key}" for key in ended])
        ending = {at: candidate(doc) for at, doc in enumerate(docs) if is_held(doc)}
        for key, indexes in ended.items():
            permit = f"key:{key}"
            frees = [permit in permits_of(docs[at]) for at in indexes]
            used = states[permit].used + sum(frees)
            held = [job for job in waiting if job.limit_key == key]
            held += [ending[at] for at in indexes if at in ending]
            for at, freed in zip(indexes, frees, strict=True):
                used -= freed
                held = [job for job in held if job is not ending.get(at)]
                first = first_of_each(held, used)
                held = [job for job in held if job not in first]
                news[at] += await self.stand(first)

    async def let_go_if_stuck(self, key: str) -> int:
        """Let a held job go where its key has room and none of its lane stands for it.

        That happens only if the process that freed the last permit died before it let one go, or
        freed it just before the job was set aside.
        """
        waiting = await self.held(key)
        used = (await read(self.connection, [f"key:{key}"]))[f"key:{key}"].used
        news: list[News] = []
        for job in first_of_each(waiting, used):
            standing = {
                "status": "pending",
                "mulligan.concurrency_key": key,
                "mulligan.concurrency_limit": job.limit,
                "mulligan.lane": lane_name(job.lane),
            }
            if await self.connection.tasks.find_one(standing, {"_id": 1}) is None:
                news += await self.stand([job])
        await self.wakeup.wake(news)
        return len(news)


def is_held(doc: Doc) -> bool:
    """Whether the job was set aside for its key when this was read."""
    private = doc["mulligan"]
    return (
        doc.get("status") == "pending" and private.get("held") is True and not invalid_reason(doc)
    )


def permit_of(stamp: str, job: str) -> str:
    """The permit that a claim took for a job."""
    return f"{stamp}/{job}"


async def read(connection: Connection, keys: Sequence[str]) -> dict[str, LimitState]:
    """The limits as they are; one that was never charged is empty."""
    states = {key: LimitState(0, [], 0) for key in keys}
    if keys:
        for doc in await rows(connection.limits.find({"_id": {"$in": list(keys)}})):
            starts = [(each["at"], each["n"]) for each in doc.get("starts", ()) if each["n"] > 0]
            states[doc["_id"]] = LimitState(
                len(doc.get("holders", ())), sorted(starts), doc.get("version", 0)
            )
    return states


async def charge(connection: Connection, trial: Trial, stamp: str) -> set[str]:
    """Charge every limit that the trial met; returns the keys that another changed first."""
    holders: dict[str, list[str]] = defaultdict(list)
    rates: dict[str, Rate] = {}
    for taken in trial.taken:
        for key in taken.permits:
            holders[key].append(permit_of(stamp, taken.candidate.job))
        rates.update({limit.key: limit for limit in taken.limits if isinstance(limit, Rate)})
    keys = sorted({*holders, *rates})
    if not keys:
        return set()
    statements = []
    for key in keys:
        version = trial.snapshot.limits[key].version
        fields: Doc = {"version": version + 1}
        if key in rates:
            fields["starts"] = kept_starts(trial, rates[key])
        update: Doc = {"$set": fields}
        if key in holders:
            update["$push"] = {"holders": {"$each": holders[key]}}
        # Where the version differs the upsert hits the key that is there, and says so.
        statements.append(UpdateOne({"_id": key, "version": version}, update, upsert=True))
    return {keys[at] for at in (await write(connection.limits, statements)).refused}


def kept_starts(trial: Trial, rate: Rate) -> list[Doc]:
    """The starts of the rate that still matter, also to a claim that began before this one."""
    starts = sorted(trial.starts[rate.key])
    return [{"at": at, "n": n} for at, n in starts if closes(at, rate.per) > trial.now - SLOWEST]


async def give_up(
    connection: Connection, lost: Iterable[Taken], stamp: str, now: int, contested: set[str]
) -> None:
    """Take back what was charged for jobs that were not claimed after all."""
    pulls: list[tuple[str, str]] = []
    uncounted: dict[tuple[str, int], int] = defaultdict(int)
    for taken in lost:
        word = permit_of(stamp, taken.candidate.job)
        pulls += [(key, word) for key in taken.permits if key not in contested]
        for limit in taken.limits:
            if isinstance(limit, Rate) and limit.key not in contested:
                uncounted[limit.key, counted_at(limit, now)] += 1
    await free_permits(connection, pulls)
    for (key, at), n in uncounted.items():
        # The version too: a charge writes all starts anew, and must not have read these.
        await connection.limits.update_one(
            {"_id": key},
            {"$inc": {"starts.$[s].n": -n, "version": 1}},
            array_filters=[{"s.at": at}],
        )


async def free_permits(connection: Connection, permits: Sequence[tuple[str, str]]) -> None:
    """Take these permits back, each given as its limit and its word."""
    by_key: dict[str, list[str]] = defaultdict(list)
    for key, word in permits:
        by_key[key].append(word)
    if by_key:
        await write(
            connection.limits,
            [UpdateOne({"_id": key}, pulled(by_key[key])) for key in sorted(by_key)],
        )


def pulled(words: list[str]) -> Doc:
    """The update that takes these permits back."""
    return {"$pull": {"holders": {"$in": words}, "idle": {"$in": words}}}


async def marked_idle(connection: Connection, keys: Iterable[str], words: set[str]) -> bool:
    """Whether a sweep marked one of these permits as idle while its job was being claimed."""
    query = {"_id": {"$in": sorted(keys)}}
    for doc in await rows(connection.limits.find(query, {"holders": 1, "idle": 1})):
        if words & set(doc.get("idle", ())):
            return True
    return False


async def sweep(connection: Connection, now: int) -> set[str]:
    """Free permits that no running job holds and that are not just being taken; returns the keys.

    The sweep marks a permit as idle before it looks at the job, and a claim looks at its permits
    after it has the job: whichever comes second sees the other, so none in use is ever freed.
    """
    freed: set[str] = set()
    for doc in await rows(connection.limits.find(IN_USE)):
        key = doc["_id"]
        words = {word for word in doc["holders"] if stamped_at(word) <= now - GRACE}
        idle = sorted(words - await in_use(connection, key, words))
        if not idle:
            continue
        await connection.limits.update_one({"_id": key}, {"$addToSet": {"idle": {"$each": idle}}})
        alive = await in_use(connection, key, set(idle))
        dead = [word for word in idle if word not in alive]
        if dead:
            await connection.limits.update_one({"_id": key}, pulled(dead))
            freed.add(key)
        if alive:
            await connection.limits.update_one(
                {"_id": key}, {"$pull": {"idle": {"$in": sorted(alive)}}}
            )
    return freed


async def in_use(connection: Connection, key: str, words: set[str]) -> set[str]:
    """Which of the permits a running job holds."""
    jobs = {word.partition("/")[2] for word in words}
    keys: list[Any] = [k for job in jobs for k in keys_of(job)]
    fields = {"mulligan.permit_stamp": 1, "mulligan.permits": 1}
    query = {"_id": {"$in": keys}, "status": "processing"}
    return {
        word
        for doc in await rows(connection.tasks.find(query, fields))
        if key in permits_of(doc)
        and (word := permit_of(doc["mulligan"].get("permit_stamp", ""), str(doc["_id"]))) in words
    }
