"""Limits: one document a key, with its permits and its counted starts.

A permit is a word of the claim's stamp and the job. It is charged before its job is claimed and
taken back after, so that a crash between leaves a permit too many, never one too few; the sweep
finds those. A charge names the version that it read and fails if another came first.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from pymongo import UpdateOne

from mulligan.core.plan import Rate
from mulligan.stores.mongo.base import Base, Doc, keys_of, rows, stamped_at
from mulligan.stores.mongo.colliding import write
from mulligan.stores.mongo.documents import permits_of
from mulligan.stores.mongo.snapshot import GateState, Taken, Trial, closes, counted_at
from mulligan.stores.mongo.times import SECOND

# Limits of which someone has a permit.
HELD = {"holders.0": {"$exists": True}}
# Long enough for any claim to get from its permits to its jobs, shorter than a lease.
GRACE = 5 * SECOND
# A claim reads the clock before it reads the gates; so much later it may still charge them.
SLOWEST = 30 * SECOND


def permit_of(stamp: str, job: str) -> str:
    """The permit that a claim took for a job."""
    return f"{stamp}/{job}"


async def read(base: Base, keys: Sequence[str]) -> dict[str, GateState]:
    """The gates as they are; one that was never passed is empty."""
    states = {key: GateState(0, [], 0) for key in keys}
    if keys:
        for doc in await rows(base.limits.find({"_id": {"$in": list(keys)}})):
            starts = [(each["at"], each["n"]) for each in doc.get("starts", ()) if each["n"] > 0]
            states[doc["_id"]] = GateState(
                len(doc.get("holders", ())), sorted(starts), doc.get("version", 0)
            )
    return states


async def charge(base: Base, trial: Trial, stamp: str) -> set[str]:
    """Charge every gate that the trial passed; returns the keys that another changed first."""
    holders: dict[str, list[str]] = defaultdict(list)
    rates: dict[str, Rate] = {}
    for taken in trial.taken:
        for key in taken.permits:
            holders[key].append(permit_of(stamp, taken.candidate.job))
        rates.update({gate.key: gate for gate in taken.limits if isinstance(gate, Rate)})
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
    return {keys[at] for at in (await write(base.limits, statements)).refused}


def kept_starts(trial: Trial, gate: Rate) -> list[Doc]:
    """The starts of the gate that still matter, also to a claim that began before this one."""
    starts = sorted(trial.starts[gate.key])
    return [{"at": at, "n": n} for at, n in starts if closes(at, gate.per) > trial.now - SLOWEST]


async def give_up(
    base: Base, lost: Iterable[Taken], stamp: str, now: int, contested: set[str]
) -> None:
    """Take back what was charged for jobs that were not claimed after all."""
    pulls: list[tuple[str, str]] = []
    uncounted: dict[tuple[str, int], int] = defaultdict(int)
    for taken in lost:
        word = permit_of(stamp, taken.candidate.job)
        pulls += [(key, word) for key in taken.permits if key not in contested]
        for gate in taken.limits:
            if isinstance(gate, Rate) and gate.key not in contested:
                uncounted[gate.key, counted_at(gate, now)] += 1
    await free(base, pulls)
    for (key, at), n in uncounted.items():
        # The version too: a charge writes all starts anew, and must not have read these.
        await base.limits.update_one(
            {"_id": key},
            {"$inc": {"starts.$[s].n": -n, "version": 1}},
            array_filters=[{"s.at": at}],
        )


async def free(base: Base, permits: Sequence[tuple[str, str]]) -> None:
    """Take these permits back, each given as its gate and its word."""
    by_key: dict[str, list[str]] = defaultdict(list)
    for key, word in permits:
        by_key[key].append(word)
    if by_key:
        await write(
            base.limits, [UpdateOne({"_id": key}, pulled(by_key[key])) for key in sorted(by_key)]
        )


def pulled(words: list[str]) -> Doc:
    """The update that takes these permits back."""
    return {"$pull": {"holders": {"$in": words}, "doomed": {"$in": words}}}


async def doomed(base: Base, keys: Iterable[str], words: set[str]) -> bool:
    """Whether a sweep took one of these permits for a dead one while its job was being claimed."""
    query = {"_id": {"$in": sorted(keys)}}
    for doc in await rows(base.limits.find(query, {"holders": 1, "doomed": 1})):
        if words & set(doc.get("doomed", ())):
            return True
    return False


async def sweep(base: Base, now: int) -> set[str]:
    """Free permits that no running job holds and that are not just being taken; returns the keys.

    A permit is doomed before its job is looked at, and a claim looks at its permits after it has
    the job: whichever comes second sees the other, so a permit in use is never freed.
    """
    freed: set[str] = set()
    for doc in await rows(base.limits.find(HELD)):
        key = doc["_id"]
        words = {word for word in doc["holders"] if stamped_at(word) <= now - GRACE}
        idle = sorted(words - await in_use(base, key, words))
        if not idle:
            continue
        await base.limits.update_one({"_id": key}, {"$addToSet": {"doomed": {"$each": idle}}})
        alive = await in_use(base, key, set(idle))
        dead = [word for word in idle if word not in alive]
        if dead:
            await base.limits.update_one({"_id": key}, pulled(dead))
            freed.add(key)
        if alive:
            await base.limits.update_one(
                {"_id": key}, {"$pull": {"doomed": {"$in": sorted(alive)}}}
            )
    return freed


async def in_use(base: Base, key: str, words: set[str]) -> set[str]:
    """Which of the permits are held by a running job that has them."""
    jobs = {word.partition("/")[2] for word in words}
    keys: list[Any] = [k for job in jobs for k in keys_of(job)]
    fields = {"mulligan.permit": 1, "mulligan.permits": 1}
    query = {"_id": {"$in": keys}, "status": "processing"}
    return {
        word
        for doc in await rows(base.tasks.find(query, fields))
        if key in permits_of(doc)
        and (word := permit_of(doc["mulligan"].get("permit", ""), str(doc["_id"]))) in words
    }
