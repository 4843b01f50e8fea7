"""Claims: a trial walk over what was read, then fenced writes, then a look at what they gave."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from bson.datetime_ms import DatetimeMS
from msgspec import Struct
from msgspec.structs import replace

from mulligan.core.answers import Claimed
from mulligan.core.job import EXPIRED, Claim
from mulligan.core.lane import Lane
from mulligan.core.plan import ONE, ClaimPlan, Group, Rate
from mulligan.core.walk import sources, walk
from mulligan.core.worker import Worker
from mulligan.stores.mongo import limits
from mulligan.stores.mongo.base import Change, Doc, line_of, new_stamp, rows
from mulligan.stores.mongo.bells import News, until
from mulligan.stores.mongo.documents import HELD, untouched
from mulligan.stores.mongo.ending import ended
from mulligan.stores.mongo.fronts import NO_LANE, Fronts
from mulligan.stores.mongo.gathering import Gathering, owed_by
from mulligan.stores.mongo.keys import Keys
from mulligan.stores.mongo.leases import Leases
from mulligan.stores.mongo.snapshot import MissingError, Snapshot, Taken, Trial
from mulligan.stores.mongo.soundness import damage_in
from mulligan.stores.mongo.times import date_after, seconds
from mulligan.stores.mongo.unique import LET_GO
from mulligan.stores.mongo.views import claim_of
from mulligan.stores.mongo.workers import Workers

LOOKS = 50
# What a job is that its key holds.
SET_ASIDE = {"mulligan.held": True, "mulligan.line": HELD}


class Asking(Struct):
    """A claim under way, and until when its worker is registered as asleep, if it is."""

    plan: ClaimPlan
    worker: Worker
    now: int
    alive: int
    registered: float | None = None


class Round(Struct, frozen=True):
    """One look: what it claimed, what it saw of the rest, and whether another must follow."""

    claims: list[Claim]
    left: tuple[bool, ...] = ()
    again_in: float | None = None
    standing: Sequence[News] = ()
    again: bool = False
    stale: bool = False


class Claiming:
    """How a plan becomes claims."""

    def __init__(self, workers: Workers, keys: Keys, gathering: Gathering, leases: Leases) -> None:
        self.base = workers.base
        self.bells = workers.bells
        self.workers = workers
        self.keys = keys
        self.gathering = gathering
        self.leases = leases
        self.fronts = Fronts(workers.base)

    async def claim(self, plan: ClaimPlan, worker: Worker) -> tuple[Claimed, list[Claim]]:
        """Claim by the plan; the second value is what must be given back, as the plan was stale.

        A worker that goes away with less is registered first and looks once more after, so that
        what came between is not missed.
        """
        now = await self.base.now()
        asking = Asking(plan, worker, now, await self.workers.keep(worker, now))
        claims: list[Claim] = []
        for _ in range(LOOKS):
            seen = await self.look(asking, rest_of(plan, claims))
            claims += seen.claims
            if seen.stale:
                return Claimed([], stale=True), claims
            if len(claims) >= plan.demand or not seen.again:
                break
        if seen.claims and plan.epoch != await self.base.epoch():
            return Claimed([], stale=True), claims
        if len(claims) >= plan.demand:
            await self.bells.stop_waiting(worker.id, seen.standing)
        return Claimed(claims, seen.left, seen.again_in), []

    async def look(self, asking: Asking, plan: ClaimPlan) -> Round:
        """Read, walk on a copy, and write what the walk took of what is left of the plan."""
        now, stamp = asking.now, new_stamp(asking.now)
        epoch, snapshot = await self.read(plan, now)
        if plan.epoch != epoch:
            return Round([], stale=True)
        while True:
            trial = Trial(snapshot)
            try:
                walked = walk(plan, trial, seconds(now))
                break
            except MissingError as missing:
                await self.read_more(snapshot, missing, asking)
        if len(trial.taken) < plan.demand and self.fronts.come_forward(snapshot.lines):
            return Round([], again=True)
        await self.set_aside(trial)
        wakes = until(now, walked.again_in)
        registers = len(trial.taken) < plan.demand and asking.registered != wakes
        taking = self.take(trial, asking.worker, stamp)
        if registers:
            (docs, gated), _ = await asyncio.gather(taking, self.register(asking, wakes))
        else:
            docs, gated = await taking
        await self.look_after_held(trial)
        got = [docs[t.candidate.key] for t in trial.taken if t.candidate.key in docs]
        claims = [claim_of(doc) for doc in got]
        self.leases.keep(got)
        return Round(
            claims,
            walked.left,
            walked.again_in,
            trial.fronts(plan.lanes),
            again=registers or len(claims) < len(trial.taken),
            stale=bool(gated) and await self.is_doomed(gated, docs, stamp),
        )

    async def register(self, asking: Asking, wakes: float) -> None:
        """The worker will sleep until then, unless it is rung."""
        await self.bells.expect(asking.worker, asking.plan, wakes, asking.alive)
        asking.registered = wakes

    # -- reading ---------------------------------------------------------------------------

    async def read(self, plan: ClaimPlan, now: int) -> tuple[int, Snapshot]:
        """The epoch, and then the lanes and gates of the plan as they are now."""
        lines = {line_of(s.lane) for s in sources(plan)}
        keys = {g.key for s in sources(plan) for g in s.limits}
        keys |= {g.of for s in sources(plan) for g in s.limits if isinstance(g, Rate) and g.of}
        limit = plan.demand + 1
        for _ in range(LOOKS):
            snapshot = Snapshot(now)
            used = sorted(lines & self.base.lines)
            (epoch, fronts), snapshot.limits = await asyncio.gather(
                self.fronts.read([NO_LANE, *used], limit, unused=lines - self.base.lines),
                limits.read(self.base, sorted(keys)),
            )
            strays = fronts.pop(NO_LANE)
            later = [doc for doc in strays if is_later(doc, now)]
            self.fronts.many_strays = bool(strays) and not later
            moved = [doc for front in fronts.values() for doc in front if not in_place(doc)]
            if odd := [doc["_id"] for doc in [*strays, *moved] if doc not in later]:
                query = {"_id": {"$in": odd}, "status": "pending"}
                await self.bells.take_in(await rows(self.base.tasks.find(query)))
            elif lines & self.base.lines == set(used):
                break
        snapshot.lines = {line: [] for line in lines}
        for line in used:
            snapshot.stand(line, [doc for doc in fronts[line] if in_place(doc)], limit)
        for doc in later:
            snapshot.foresee(doc)
        await self.read_keys(snapshot)
        return epoch, snapshot

    async def read_more(self, snapshot: Snapshot, missing: MissingError, asking: Asking) -> None:
        """Read on where the walk came to the end of what was read."""
        if missing.held is not None:
            snapshot.held[missing.held] = await self.keys.held(missing.held)
            return
        if missing.line is None:
            lines = [line_of(s.lane) for s in sources(asking.plan) if s.yields]
            snapshot.asleep = await self.bells.soonest(lines, but=asking.worker.id)
            return
        line = missing.line
        limit = 2 * max(len(snapshot.lines[line]), asking.plan.demand + 1)
        _, fronts = await self.fronts.read([line], limit)
        snapshot.stand(line, [doc for doc in fronts[line] if in_place(doc)], limit)
        await self.read_keys(snapshot)

    async def read_keys(self, snapshot: Snapshot) -> None:
        """Read the permits of every concurrency key that a candidate has."""
        new = {c.permit for stand in snapshot.lines.values() for c in stand if c.permit}
        new -= snapshot.limits.keys()
        if new:
            snapshot.limits |= await limits.read(self.base, sorted(new))

    # -- writing ---------------------------------------------------------------------------

    async def set_aside(self, trial: Trial) -> None:
        """Write what the walk met and did not take: let go, held by a key, or expired.

        What was let go stands in its lane first: the walk may have met it there as well.
        """
        let_go = await self.keys.stand(trial.let_go)
        changes = [
            Change(c.key, standing_in(c.lane), {"$set": dict(SET_ASIDE)}, c.token)
            for c in trial.held
        ]
        expired = {"$set": ended("cancelled", trial.now, EXPIRED), "$unset": LET_GO}
        changes += [Change(c.key, standing_in(c.lane), expired, c.token) for c in trial.expired]
        written = await self.base.apply(changes)
        await self.bells.ring(let_go)
        await self.gathering.settle(
            each for c in trial.expired if c.key in written for each in owed_by(c.doc, "cancelled")
        )

    async def look_after_held(self, trial: Trial) -> None:
        """A permit may have been freed while a job was being set aside for want of one.

        Only after the claim's own permits are charged is it known whether there is room.
        """
        for key in sorted({c.limit_key for c in trial.held if c.limit_key is not None}):
            await self.keys.let_go_if_stuck(key)

    async def take(
        self, trial: Trial, worker: Worker, stamp: str
    ) -> tuple[dict[Any, Doc], list[Taken]]:
        """Charge the gates and claim; returns what was got, and what has permits of that."""
        now = trial.now
        contested = await limits.charge(self.base, trial, stamp)
        wanted = [t for t in trial.taken if not needs_any(t, contested)]
        docs = await self.leases.hand_over(wanted, worker, stamp, now)
        lost = [t for t in trial.taken if t.candidate.key not in docs]
        if len(docs) < len(wanted) / 2:
            lines = {line_of(t.candidate.lane) for t in lost}
            self.fronts.stand_back(lines, len(wanted), await self.base.now())
        if any(t.limits or t.permits for t in lost):
            await limits.give_up(self.base, lost, stamp, now, contested)
            await self.make_good(lost)
        gated = [t for t in wanted if t.candidate.key in docs and t.permits]
        return docs, gated

    async def make_good(self, lost: list[Taken]) -> None:
        """Others may have found a gate closed by permits that were given up again."""
        await self.bells.ring(
            [News(gate=key) for key in sorted({k for t in lost for k in t.permits})]
        )
        for key in sorted({t.candidate.limit_key for t in lost if t.candidate.limit_key}):
            await self.keys.let_go_if_stuck(key)

    async def is_doomed(self, gated: list[Taken], docs: dict[Any, Doc], stamp: str) -> bool:
        """Whether a sweep freed a permit of these before its job was claimed."""
        keys = {key for taken in gated for key in taken.permits}
        words = {limits.permit_of(stamp, str(key)) for key in docs}
        return await limits.doomed(self.base, keys, words)


def in_place(doc: Doc) -> bool:
    """Whether a document stands as mulligan has put it: neither moved by others nor damaged."""
    return damage_in(doc) is None and untouched(doc)


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
    """Whether the job passes one of these gates."""
    return bool(keys) and not keys.isdisjoint(
        {*taken.permits, *(gate.key for gate in taken.limits)}
    )


def standing_in(lane: Lane) -> Doc:
    """The job is still pending in the lane."""
    return {"status": "pending", "mulligan.line": line_of(lane)}
