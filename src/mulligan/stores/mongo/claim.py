"""Claims: a trial walk over what was read, then fenced writes, then a look at what they gave."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from bson.datetime_ms import DatetimeMS
from msgspec import Struct
from msgspec.structs import replace

from mulligan.core.answers import Claimed
from mulligan.core.job import EXPIRED, Claim
from mulligan.core.lane import Lane
from mulligan.core.plan import ONE, ClaimPlan, Group, Rate, walk
from mulligan.core.worker import Worker
from mulligan.stores.mongo import limits
from mulligan.stores.mongo.bulk_write import Change, new_stamp
from mulligan.stores.mongo.connection import rows
from mulligan.stores.mongo.document import (
    HELD,
    RELEASE_KEY,
    Doc,
    date_after,
    ended,
    lane_name,
    seconds,
    untouched,
)
from mulligan.stores.mongo.fields import claim_of
from mulligan.stores.mongo.gather import Gatherer, Owed, owed_if_cancelled
from mulligan.stores.mongo.heads import NO_LANE, Heads
from mulligan.stores.mongo.leases import Leases
from mulligan.stores.mongo.limits import Keys
from mulligan.stores.mongo.snapshot import MissingError, Snapshot, Taken, Trial
from mulligan.stores.mongo.validate import invalid_reason
from mulligan.stores.mongo.wakeup import News, until
from mulligan.stores.mongo.workers import Workers

LOOKS = 50
# The fields of a job that its key holds.
SET_ASIDE = {"mulligan.held": True, "mulligan.lane": HELD}


class ClaimCall(Struct):
    """A claim under way, and until when its worker is registered as asleep, if it is."""

    plan: ClaimPlan
    worker: Worker
    now: int
    alive: int
    registered: float | None = None
    # What was found expired owes this to those that await it, who are told in the end.
    owed: list[Owed] = []


class Round(Struct, frozen=True):
    """One look: what it claimed, what it saw of the rest, and whether another must follow."""

    claims: list[Claim]
    left: tuple[bool, ...] = ()
    again_in: float | None = None
    standing: Sequence[News] = ()
    again: bool = False
    stale: bool = False


class Claimer:
    """Turns plans into claims."""

    def __init__(self, workers: Workers, keys: Keys, gatherer: Gatherer, leases: Leases) -> None:
        self.connection = workers.connection
        self.wakeup = workers.wakeup
        self.workers = workers
        self.keys = keys
        self.gatherer = gatherer
        self.leases = leases
        self.heads = Heads(workers.connection)

    async def claim(self, plan: ClaimPlan, worker: Worker) -> tuple[Claimed, list[Claim]]:
        """Claim by the plan; the second value is what must be given back, as the plan was stale.

        A worker that gets less than it asked for is registered as asleep and then looks once more,
        so that what came between is not missed.
        """
        now = await self.connection.now()
        call = ClaimCall(plan, worker, now, await self.workers.keep(worker, now))
        answer = await self.walk(call)
        await self.gatherer.settle(call.owed)
        return answer

    async def walk(self, call: ClaimCall) -> tuple[Claimed, list[Claim]]:
        """Look until the plan has what it asks for, or there is no more."""
        plan, worker = call.plan, call.worker
        claims: list[Claim] = []
        for _ in range(LOOKS):
            seen = await self.look(call, rest_of(plan, claims))
            claims += seen.claims
            if seen.stale:
                return Claimed([], stale=True), claims
            if len(claims) >= plan.demand or not seen.again:
                break
        if seen.claims and plan.epoch != await self.connection.epoch():
            return Claimed([], stale=True), claims
        if len(claims) >= plan.demand:
            await self.wakeup.stop_waiting(worker.id, seen.standing)
        return Claimed(claims, seen.left, seen.again_in), []

    async def look(self, call: ClaimCall, plan: ClaimPlan) -> Round:
        """Read, walk on a copy, and write what the walk took of what is left of the plan."""
        now, stamp = call.now, new_stamp(call.now)
        epoch, snapshot = await self.read(plan, now)
        if plan.epoch != epoch:
            return Round([], stale=True)
        while True:
            trial = Trial(snapshot)
            try:
                walked = walk(plan, trial, seconds(now))
                break
            except MissingError as missing:
                await self.read_more(snapshot, missing, call)
        if len(trial.taken) < plan.demand and self.heads.come_forward(snapshot.lanes):
            return Round([], again=True)
        call.owed += await self.set_aside(trial)
        wakes = until(now, walked.again_in)
        registers = len(trial.taken) < plan.demand and call.registered != wakes
        taking = self.take(trial, call.worker, stamp)
        if registers:
            (docs, limited), _ = await asyncio.gather(taking, self.register(call, wakes))
        else:
            docs, limited = await taking
        await self.look_after_held(trial)
        got = [docs[t.candidate.key] for t in trial.taken if t.candidate.key in docs]
        claims = [claim_of(doc) for doc in got]
        self.leases.keep(got)
        return Round(
            claims,
            walked.left,
            walked.again_in,
            trial.heads(plan.lanes),
            # A worker that is told to ask again at once sees then what came between.
            again=(registers and walked.again_in != 0.0) or len(claims) < len(trial.taken),
            stale=bool(limited) and await self.has_idle_permit(limited, docs, stamp),
        )

    async def register(self, call: ClaimCall, wakes: float) -> None:
        """The worker will sleep until then, unless it is woken."""
        await self.wakeup.register(call.worker, call.plan, wakes, call.alive)
        call.registered = wakes

    # -- reading ---------------------------------------------------------------------------

    async def read(self, plan: ClaimPlan, now: int) -> tuple[int, Snapshot]:
        """The epoch, and then the lanes and limits of the plan as they are now."""
        lanes = {lane_name(s.lane) for s in plan.sources}
        keys = {g.key for s in plan.sources for g in s.limits}
        keys |= {g.of for s in plan.sources for g in s.limits if isinstance(g, Rate) and g.of}
        limit = plan.demand + 1
        for _ in range(LOOKS):
            snapshot = Snapshot(now)
            used = sorted(lanes & self.connection.lanes)
            (epoch, heads), snapshot.limits = await asyncio.gather(
                self.heads.read([NO_LANE, *used], limit, unused=lanes - self.connection.lanes),
                limits.read(self.connection, sorted(keys)),
            )
            strays = heads.pop(NO_LANE)
            later = [doc for doc in strays if is_later(doc, now)]
            self.heads.many_strays = bool(strays) and not later
            stands, moved = by_lane(heads)
            if odd := [doc["_id"] for doc in [*strays, *moved] if doc not in later]:
                query = {"_id": {"$in": odd}, "status": "pending"}
                await self.wakeup.take_in(await rows(self.connection.tasks.find(query)))
            elif lanes & self.connection.lanes == set(used):
                break
        snapshot.lanes = {lane: [] for lane in lanes}
        for lane in used:
            snapshot.stand(lane, stands[lane], limit)
        for doc in later:
            snapshot.foresee(doc)
        await self.read_keys(snapshot)
        return epoch, snapshot

    async def read_more(self, snapshot: Snapshot, missing: MissingError, call: ClaimCall) -> None:
        """Read on where the walk came to the end of what was read."""
        if missing.held is not None:
            snapshot.held[missing.held] = await self.keys.held(missing.held)
            return
        if missing.lane is None:
            lanes = [lane_name(s.lane) for s in call.plan.sources if s.yields]
            snapshot.asleep = await self.wakeup.soonest(lanes, but=call.worker.id)
            return
        lane = missing.lane
        limit = 2 * max(len(snapshot.lanes[lane]), call.plan.demand + 1)
        _, heads = await self.heads.read([lane], limit)
        snapshot.stand(lane, [doc for doc in heads[lane] if stands_as_put(doc)], limit)
        await self.read_keys(snapshot)

    async def read_keys(self, snapshot: Snapshot) -> None:
        """Read the permits of every concurrency key that a candidate has."""
        new = {c.permit for stand in snapshot.lanes.values() for c in stand if c.permit}
        new -= snapshot.limits.keys()
        if new:
            snapshot.limits |= await limits.read(self.connection, sorted(new))

    # -- writing ---------------------------------------------------------------------------

    async def set_aside(self, trial: Trial) -> list[Owed]:
        """Write what the walk met and did not take: let go, held by a key, or expired.

        What was let go stands in its lane first: the walk may have met it there as well. Returns
        what those that have expired owe.
        """
        let_go = await self.keys.stand(trial.let_go)
        changes = [
            Change(c.key, standing_in(c.lane), {"$set": dict(SET_ASIDE)}, c.token)
            for c in trial.held
        ]
        for c in trial.expired:
            fields = ended("cancelled", trial.now, EXPIRED, c.doc["mulligan"].get("keep"))
            expired = {"$set": fields, "$unset": RELEASE_KEY}
            changes.append(Change(c.key, standing_in(c.lane), expired, c.token))
        written = await self.connection.apply(changes)
        await self.wakeup.wake(let_go)
        return [
            each
            for c in trial.expired
            if c.key in written
            for each in owed_if_cancelled(c.doc, EXPIRED)
        ]

    async def look_after_held(self, trial: Trial) -> None:
        """Let jobs go that were set aside while the permit that they lacked was freed.

        Only after the claim's own permits are charged is it known whether there is room.
        """
        for key in sorted({c.limit_key for c in trial.held if c.limit_key is not None}):
            await self.keys.let_go_if_stuck(key)

    async def take(
        self, trial: Trial, worker: Worker, stamp: str
    ) -> tuple[dict[Any, Doc], list[Taken]]:
        """Charge the limits and claim; returns what was got, and what has permits of that."""
        now = trial.now
        contested = await limits.charge(self.connection, trial, stamp)
        wanted = [t for t in trial.taken if not needs_any(t, contested)]
        docs = await self.leases.hand_over(wanted, worker, stamp, now)
        lost = [t for t in trial.taken if t.candidate.key not in docs]
        if len(docs) < len(wanted) / 2:
            lanes = {lane_name(t.candidate.lane) for t in lost}
            self.heads.stand_back(lanes, len(wanted), await self.connection.now())
        if any(t.limits or t.permits for t in lost):
            await limits.give_up(self.connection, lost, stamp, now, contested)
            await self.make_good(lost)
        limited = [t for t in wanted if t.candidate.key in docs and t.permits]
        return docs, limited

    async def make_good(self, lost: list[Taken]) -> None:
        """Others may have found a limit reached by permits that were given up again."""
        await self.wakeup.wake(
            [News(limit=key) for key in sorted({k for t in lost for k in t.permits})]
        )
        for key in sorted({t.candidate.limit_key for t in lost if t.candidate.limit_key}):
            await self.keys.let_go_if_stuck(key)

    async def has_idle_permit(self, limited: list[Taken], docs: dict[Any, Doc], stamp: str) -> bool:
        """Whether a sweep freed a permit of these before its job was claimed."""
        keys = {key for taken in limited for key in taken.permits}
        words = {limits.permit_of(stamp, str(key)) for key in docs}
        return await limits.marked_idle(self.connection, keys, words)


def by_lane(heads: Mapping[Any, list[Doc]]) -> tuple[dict[Any, list[Doc]], list[Doc]]:
    """What stands in each lane as mulligan has put it there, and what does not."""
    stands: dict[Any, list[Doc]] = {lane: [] for lane in heads}
    moved: list[Doc] = []
    for lane, head in heads.items():
        for doc in head:
            (stands[lane] if stands_as_put(doc) else moved).append(doc)
    return stands, moved


def stands_as_put(doc: Doc) -> bool:
    """Whether a document stands as mulligan has put it: neither moved by others nor invalid."""
    return invalid_reason(doc) is None and untouched(doc)


def is_later(doc: Doc, now: int) -> bool:
    """Whether a document of another program is not due yet."""
    at = doc.get("next_retry_at")
    if isinstance(at, DatetimeMS):  # not of the years 1 to 9999
        return int(at) > 0
    return isinstance(at, datetime) and at > date_after(now)


def rest_of(plan: ClaimPlan, claims: list[Claim]) -> ClaimPlan:
    """The plan as it goes on after these claims: every step knows what was taken before."""
    if not claims:
        return plan
    groups = {lane: at for at, g in reversed(list(enumerate(plan.groups))) for lane in lanes_of(g)}
    taken = Counter(groups[claim.lane] for claim in claims)
    steps = tuple(
        replace(
            step,
            until=step.until - len(claims),
            carry=step.carry
            + step.share * sum(taken[group] for group in step.of)
            - ONE * taken[step.group] * bool(step.of),
        )
        for step in plan.steps
    )
    return replace(plan, demand=plan.demand - len(claims), steps=steps)


def lanes_of(group: Group) -> list[Lane]:
    """The lanes that a group takes from."""
    return [source.lane for tier in group.tiers for source in tier]


def needs_any(taken: Taken, keys: set[str]) -> bool:
    """Whether the job needs one of these limits."""
    return bool(keys) and not keys.isdisjoint(
        {*taken.permits, *(limit.key for limit in taken.limits)}
    )


def standing_in(lane: Lane) -> Doc:
    """The job is still pending in the lane."""
    return {"status": "pending", "mulligan.lane": lane_name(lane)}
