"""Claims: a trial walk over what was read, fenced writes, and a look at what these wrote."""

import asyncio
import random
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
from mulligan.core.plan import ONE, ClaimPlan, Group, Rate, Walked, walk
from mulligan.core.worker import Worker
from mulligan.stores.mongo import limits
from mulligan.stores.mongo.arrivals import Owed, owed_if_cancelled
from mulligan.stores.mongo.book import Book
from mulligan.stores.mongo.bulk_write import Change, new_stamp
from mulligan.stores.mongo.connection import rows
from mulligan.stores.mongo.document import (
    RELEASE_KEY,
    Doc,
    date_after,
    ended,
    lane_name,
    seconds,
    stands_in_line,
)
from mulligan.stores.mongo.fields import claim_of
from mulligan.stores.mongo.gather import Gatherer
from mulligan.stores.mongo.heads import NO_LANE, Heads
from mulligan.stores.mongo.leases import Leases, from_lines
from mulligan.stores.mongo.pages import MissingPageError
from mulligan.stores.mongo.snapshot import Candidate, MissingError, Snapshot, Taken, Trial
from mulligan.stores.mongo.validate import stands_as_put
from mulligan.stores.mongo.wakeup import FOREVER, News, until
from mulligan.stores.mongo.walk import LinedTrial, OpenBook, open_book
from mulligan.stores.mongo.workers import Workers

LOOKS = 50
# The longest wait of a claim after another process changed the book first.
A_MOMENT = 0.01
# A worker that has got some jobs and looks again so soon need not be woken before.
SOON = 0.01


class ClaimCall(Struct):
    """A claim under way, and until when its worker is registered as asleep, if it is."""

    plan: ClaimPlan
    worker: Worker
    now: int
    alive: int
    registered: float | None = None
    # Whether it has got jobs.
    got: bool = False
    # What was found expired owes this to those that await it, who are told in the end.
    owed: list[Owed] = []
    # What is to be done about the book of lines when it is closed again: jobs that were charged to
    # limits and not got, and whom to wake.
    unused: list[Taken] = []
    news: list[News] = []


class Round(Struct, frozen=True):
    """One look: what it claimed, what it saw of the rest, and whether another must follow."""

    claims: list[Claim]
    left: tuple[bool, ...] = ()
    again_in: float | None = None
    standing: Sequence[News] = ()
    again: bool = False
    stale: bool = False
    in_vain: bool = False


class Claimer:
    """Turns plans into claims."""

    def __init__(self, workers: Workers, book: Book, gatherer: Gatherer, leases: Leases) -> None:
        self.connection = workers.connection
        self.wakeup = workers.wakeup
        self.workers = workers
        self.book = book
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
        await self.gatherer.settle_and_tell(call.owed)
        return answer

    async def walk(self, call: ClaimCall) -> tuple[Claimed, list[Claim]]:
        """Look until the plan has what it asks for, or there is no more."""
        plan, worker = call.plan, call.worker
        claims: list[Claim] = []
        for _ in range(LOOKS):
            seen = await self.look(call, rest_of(plan, claims))
            claims += seen.claims
            call.got = bool(claims)
            if seen.in_vain:
                await asyncio.sleep(random.random() * A_MOMENT)
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
        epoch, snapshot = await self.read(plan, call.now)
        if plan.epoch != epoch:
            return Round([], stale=True)
        lined = self.heads.lined & snapshot.lanes.keys()
        if not lined:
            return await self.try_out(call, plan, snapshot)
        ledger = self.book.ledger
        async with ledger.lock:
            opened = await open_book(self.connection, ledger, lined, plan.demand, call.now)
            # Others may have changed the book since this claim began.
            call.now = opened.root.time(await self.connection.now())
            if snapshot.has_come(call.now):
                return Round([], again=True)
            seen = await self.try_out(call, plan, snapshot, opened)
        await ledger.finish_last()
        await self.connection.reach.renew()
        await self.book.take_in(opened.pages)
        await self.close_book(call)
        return seen

    async def close_book(self, call: ClaimCall) -> None:
        """Give back what was charged for nothing, and wake who is to know."""
        await self.book.give_back(call.unused, call.now)
        await self.wakeup.wake(call.news, but=call.worker.id)
        call.unused, call.news = [], []

    async def walk_on_copy(
        self, call: ClaimCall, plan: ClaimPlan, snapshot: Snapshot, opened: OpenBook | None
    ) -> tuple[Trial, Walked[Taken], list[News]]:
        """Walk, reading what it misses; returns also the first job of each lane after it."""
        while True:
            try:
                trial = self.trial(call, plan, snapshot, opened)
                return trial, walk(plan, trial, seconds(call.now)), trial.heads(plan.lanes)
            except MissingError as missing:
                await self.read_more(snapshot, missing, call)
            except MissingPageError as missing:
                if opened is not None:
                    await opened.pages.fetch([missing.need])

    def trial(
        self, call: ClaimCall, plan: ClaimPlan, snapshot: Snapshot, opened: OpenBook | None
    ) -> Trial:
        """A walk that has yet to begin."""
        if opened is None:
            return Trial(snapshot)
        return LinedTrial(snapshot, plan, opened.book(call.now))

    async def try_out(
        self, call: ClaimCall, plan: ClaimPlan, snapshot: Snapshot, opened: OpenBook | None = None
    ) -> Round:
        """Walk on a copy, and write what the walk took."""
        now, stamp = call.now, new_stamp(call.now)
        trial, walked, heads = await self.walk_on_copy(call, plan, snapshot, opened)
        if len(trial.taken) < plan.demand and self.heads.come_forward(snapshot.lanes):
            return Round([], again=True)
        await self.set_aside(trial)
        again_in = walked.again_in
        wakes = until(now, again_in)
        registers = len(trial.taken) < plan.demand and call.registered != wakes
        if registers and (trial.taken or call.got):
            if call.registered is not None:
                # What it has got is not to wait for a third look: it sleeps no longer than it said.
                again_in = sooner(again_in, call.registered - seconds(now))
                registers = False
            else:
                registers = again_in is None or again_in > SOON
        taking = self.take(trial, call, stamp)
        if registers:
            (docs, limited), _ = await asyncio.gather(taking, self.register(call, wakes))
        else:
            docs, limited = await taking
        over = [c.doc for c in trial.expired if c.key in trial.ended]
        call.owed += [each for doc in over for each in owed_if_cancelled(doc, EXPIRED)]
        got = [docs[t.candidate.key] for t in trial.taken if t.candidate.key in docs]
        claims = [claim_of(doc) for doc in got]
        self.leases.keep(got)
        return Round(
            claims,
            walked.left,
            0.0 if trial.in_vain else again_in,
            heads,
            # A worker that is told to ask again at once sees then what came between.
            again=(registers and again_in != 0.0)
            or len(claims) < len(trial.taken)
            or trial.in_vain,
            in_vain=trial.in_vain,
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
        return epoch, snapshot

    async def read_more(self, snapshot: Snapshot, missing: MissingError, call: ClaimCall) -> None:
        """Read on where the walk came to the end of what was read."""
        if missing.lane is None:
            lanes = [lane_name(s.lane) for s in call.plan.sources if s.yields]
            snapshot.asleep = await self.wakeup.soonest(lanes, but=call.worker.id)
            return
        lane = missing.lane
        limit = 2 * max(len(snapshot.lanes[lane]), call.plan.demand + 1)
        _, heads = await self.heads.read([lane], limit)
        snapshot.stand(lane, [doc for doc in heads[lane] if stands_as_put(doc)], limit)

    # -- writing ---------------------------------------------------------------------------

    async def set_aside(self, trial: Trial) -> None:
        """End what the walk met in lanes that has expired."""
        found = [c for c in trial.expired if not stands_in_line(c.doc)]
        trial.ended |= await self.connection.apply([ended_late(c, trial.now) for c in found])

    async def take(
        self, trial: Trial, call: ClaimCall, stamp: str
    ) -> tuple[dict[Any, Doc], list[Taken]]:
        """Charge the limits and claim; returns what was got, and what has permits of that."""
        now = trial.now
        contested = await limits.charge(self.connection, trial, stamp)
        docs: dict[Any, Doc] = {}
        if isinstance(trial, LinedTrial):
            docs = await self.take_from_lines(trial, call, stamp, contested)
        wanted = [t for t in trial.taken if not (t.line or needs_any(t, contested))]
        if trial.in_vain:
            wanted = []
        docs |= await self.leases.hand_over(wanted, call.worker, stamp, now)
        lost = [t for t in trial.taken if t.candidate.key not in docs]
        plain_lost = [t for t in wanted if t.candidate.key not in docs]
        if len(plain_lost) > len(wanted) / 2:
            lanes = {lane_name(t.candidate.lane) for t in plain_lost}
            self.heads.stand_back(lanes, len(wanted), await self.connection.now())
        if any(t.limits or t.permits for t in lost):
            await limits.give_up(self.connection, lost, stamp, now, contested)
            await self.make_good(lost)
        limited = [t for t in trial.taken if t.candidate.key in docs and t.permits]
        return docs, limited

    async def take_from_lines(
        self, trial: LinedTrial, call: ClaimCall, stamp: str, contested: set[str]
    ) -> dict[Any, Doc]:
        """Change the book as the walk did, with the leases that it gives and what it has ended.

        It is in vain if the book was changed meanwhile, or a limit of the plan: then nothing is
        written, and the next look begins anew.
        """
        book = trial.book
        taken = [t for t in trial.taken if t.line]
        expired = [c for c in trial.expired if stands_in_line(c.doc)]
        leases, changes = from_lines(taken, call.worker, stamp, trial.now)
        book.jobs = changes + [ended_late(c, trial.now) for c in expired]
        refused = any(needs_any(t, contested) for t in taken)
        written = None if refused else await self.book.ledger.make(book)
        if written is None:
            trial.in_vain = True
            return {}
        for each in taken:
            self.connection.reach.took(each.candidate.doc["mulligan"]["lane"])
        call.news += book.news
        trial.ended |= {c.key for c in expired if c.key in written}
        call.unused += [t for t in taken if t.candidate.key not in written]
        return await self.leases.documents(taken, leases, written & leases.keys(), book.stamp)

    async def make_good(self, lost: list[Taken]) -> None:
        """Wake sleepers that may have found a limit full of permits that are now given back."""
        await self.wakeup.wake(
            [News(limit=key) for key in sorted({k for t in lost for k in t.permits})]
        )

    async def has_idle_permit(self, limited: list[Taken], docs: dict[Any, Doc], stamp: str) -> bool:
        """Whether a sweep freed a permit of these before its job was claimed."""
        keys = {key for taken in limited for key in taken.permits}
        words = {limits.permit_of(stamp, str(key)) for key in docs}
        return await limits.marked_idle(self.connection, keys, words)


def by_lane(heads: Mapping[Any, list[Doc]]) -> tuple[dict[Any, list[Doc]], list[Doc]]:
    """The documents of each lane that stand as mulligan put them there, and all others."""
    stands: dict[Any, list[Doc]] = {lane: [] for lane in heads}
    moved: list[Doc] = []
    for lane, head in heads.items():
        for doc in head:
            (stands[lane] if stands_as_put(doc) else moved).append(doc)
    return stands, moved


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


def sooner(again_in: float | None, seconds: float) -> float | None:
    """Whichever comes first, now at the earliest."""
    first = seconds if again_in is None else min(again_in, seconds)
    return None if first == FOREVER else max(0.0, first)


def needs_any(taken: Taken, keys: set[str]) -> bool:
    """Whether the job needs one of these limits."""
    return bool(keys) and not keys.isdisjoint(
        {*taken.permits, *(limit.key for limit in taken.limits)}
    )


def ended_late(job: Candidate, now: int) -> Change:
    """The write that ends a pending job that has expired."""
    fields = ended("cancelled", now, EXPIRED, job.doc["mulligan"].get("keep"))
    match = {"status": "pending", "mulligan.sequence": job.sequence}
    return Change(job.key, match, {"$set": fields, "$unset": dict(RELEASE_KEY)}, job.token)
