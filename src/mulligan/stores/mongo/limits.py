"""Limits of plans: permits and counted starts.

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
from mulligan.stores.mongo.bulk_write import stamped_at, write
from mulligan.stores.mongo.connection import Connection, keys_of, rows
from mulligan.stores.mongo.document import SECOND, Doc, permits_of
from mulligan.stores.mongo.snapshot import LimitState, Taken, Trial, closes, counted_at
from mulligan.stores.mongo.wakeup import News

# Limits of which someone has a permit.
IN_USE = {"holders.0": {"$exists": True}}
# Long enough for any claim to get from its permits to its jobs, shorter than a lease.
GRACE = 5 * SECOND
# A claim reads the clock before it reads the limits; so much later it may still charge them.
SLOWEST = 30 * SECOND


async def free_caps(connection: Connection, docs: Sequence[Doc]) -> list[list[News]]:
    """Free the permits of jobs as they were when they ended; returns the news of each."""
    permits = []
    news: list[list[News]] = []
    for doc in docs:
        word = permit_of(doc["mulligan"].get("permit_stamp", ""), str(doc["_id"]))
        keys = permits_of(doc)
        permits += [(key, word) for key in keys]
        news.append([News(limit=key) for key in keys])
    await free_permits(connection, permits)
    return news


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
