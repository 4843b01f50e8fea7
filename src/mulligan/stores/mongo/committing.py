"""Commits: one fenced write a job, and then what follows from it."""

from collections.abc import Sequence

from msgspec import Struct

from mulligan.core.job import NewJob
from mulligan.core.lane import Lane
from mulligan.core.outcome import Again, Cancelled, Dead, Done, Later, Outcome, Returned
from mulligan.core.settings import HISTORY_LIMIT
from mulligan.stores.contract import Verdict
from mulligan.stores.mongo.base import Base, Change, Doc, line_of
from mulligan.stores.mongo.bells import Bells, News, news_of
from mulligan.stores.mongo.dead import move_dead
from mulligan.stores.mongo.delivering import deliver, write_where_free
from mulligan.stores.mongo.documents import (
    LEAN,
    failure_fields,
    held_by_us,
    lane_of,
    new_document,
    standing,
)
from mulligan.stores.mongo.ending import ended
from mulligan.stores.mongo.gathering import Gathering, Owed, owed_by
from mulligan.stores.mongo.keys import Keys
from mulligan.stores.mongo.outbox import Box, pack, set_beside, take_away
from mulligan.stores.mongo.times import date, date_after, micros, seconds
from mulligan.stores.mongo.unique import KEEPS, LET_GO, bequeath


class Written(Struct):
    """One outcome on its way: the job as it was, the write, and whom it concerns."""

    place: int
    doc: Doc
    change: Change
    news: list[News] = []
    owed: list[Owed] = []
    boxes: list[Box] = []


class Committing:
    """How outcomes are written."""

    def __init__(self, base: Base, bells: Bells, keys: Keys, gathering: Gathering) -> None:
        self.base = base
        self.bells = bells
        self.keys = keys
        self.gathering = gathering

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        """Write what is still held; see the contract."""
        now = await self.base.now()
        docs = await self.base.find([outcome.lease.job for outcome in outcomes], LEAN)
        verdicts: list[Verdict] = ["stale"] * len(outcomes)
        valid: list[tuple[int, Outcome, Doc]] = []
        for place, outcome in enumerate(outcomes):
            doc, token = docs.get(outcome.lease.job), outcome.lease.token
            if doc is None or not doc.get("mulligan"):
                continue
            if held_by_us(doc) and doc["mulligan"]["token"] == token:
                valid.append((place, outcome, dict(doc)))
                # Whatever else the batch holds for this job comes after.
                doc["status"], doc["mulligan"] = "", doc["mulligan"] | {"committed": token}
            elif doc["mulligan"].get("committed") == token:
                verdicts[place] = "already"
        number = await self.base.numbers(sum(numbers_needed(o, doc) for _, o, doc in valid))
        writing = []
        for place, outcome, doc in valid:
            writing.append(plan_write(place, outcome, doc, now, number))
            number += numbers_needed(outcome, doc)
        written = await self.write(writing)
        missed = [w.place for w in writing if w.doc["_id"] not in written]
        for w in writing:
            if w.doc["_id"] in written:
                verdicts[w.place] = "written"
        await self.follow([w for w in writing if w.doc["_id"] in written])
        if missed:
            again = await self.commit([outcomes[place] for place in missed])
            for place, verdict in zip(missed, again, strict=True):
                verdicts[place] = verdict
        return verdicts

    async def write(self, writing: list[Written]) -> set[object]:
        """Write what is still held; returns the keys of that."""
        await self.base.know(each.line for w in writing for each in w.news)
        await set_beside(self.base, [box for w in writing for box in w.boxes])
        written = await write_where_free(self.base, [w.change for w in writing])
        missed = [w for w in writing if w.doc["_id"] not in written]
        await take_away(self.base, [box for w in missed for box in w.boxes])
        return written

    async def follow(self, written: list[Written]) -> None:
        """Tell who awaits these, deliver what comes next, free the permits, wake sleepers."""
        await self.gathering.settle(each for w in written for each in w.owed)
        created = await deliver(self.base, [box for w in written for box in w.boxes])
        freed = await self.keys.release([w.doc for w in written])
        news: list[News] = []
        for w, released in zip(written, freed, strict=True):
            new = [doc for box in w.boxes for doc in box.jobs if doc["_id"] in created]
            news += [*w.news, *news_of(new), *released]
        if self.base.address.move_dead:
            dead = [w.change.key for w in written if w.change.update["$set"]["status"] == "failed"]
            await move_dead(self.base, dead)
        await self.bells.ring(news)


def numbers_needed(outcome: Outcome, doc: Doc) -> int:
    """How many places in lanes the outcome gives out, at most."""
    match outcome:
        case Again() | Later():
            return 1
        case Done(_, _, following):
            return len(following) + ("owes" in doc["mulligan"])
        case Dead(_, _, following):
            return len(following)
        case _:
            return 0


def plan_write(place: int, outcome: Outcome, doc: Doc, now: int, number: int) -> Written:
    """The write that an outcome stands for."""
    token = outcome.lease.token
    fields: Doc = {"updated_at": date(now), "mulligan.committed": token, "mulligan.worker": None}
    fields["mulligan.permits"] = []
    match_ = {"status": "processing", "mulligan.token": token, "mulligan.worker": {"$ne": None}}
    update: Doc = {"$set": fields}
    write = Written(place, doc, Change(doc["_id"], match_, update))
    match outcome:
        case Done(_, result, following):
            end(write, "done", now)
            fields["mulligan.result"] = result
            write.owed = owed_by(doc, "done", result, number)
            follow_up(write, following, now, number + len(write.owed))
        case Again(_, lane, delay, failure, trail):
            fields["error"], entry = failure_fields(failure, now)
            fields["mulligan.trail"] = trail
            update |= {"$push": remember(entry), "$inc": {"attempts": 1}}
            put(write, lane, delay, now, number)
        case Later(_, delay):
            update["$inc"] = {"mulligan.snoozes": 1}
            put(write, lane_of(doc), delay, now, number)
        case Dead(_, failure, following):
            end(write, "failed", now)
            fields["error"], entry = failure_fields(failure, now)
            update["$push"] = remember(entry)
            follow_up(write, following, now, number)
        case Returned():
            line = line_of(lane_of(doc))
            fields |= {"status": "pending", "mulligan.line": line}
            write.news = [News(line, doc["mulligan"]["due"])]
        case Cancelled(_, reason):
            end(write, "cancelled", now, reason)
            write.owed = owed_by(doc, "cancelled")
    return write


def end(write: Written, status: str, now: int, reason: str | None = None) -> None:
    """Let the job end, and let go of its unique key."""
    write.change.update["$set"] |= ended(status, now, reason)
    write.change.update["$unset"] = LET_GO


def put(write: Written, lane: Lane, delay: float, now: int, number: int) -> None:
    """Let the job join a lane, due after the delay."""
    due = micros(seconds(now) + delay) if delay else now
    stand = standing(lane, due, number, delayed=due > now)
    fields = write.change.update["$set"]
    fields |= {f"mulligan.{name}": value for name, value in stand.items()}
    fields |= {"status": "pending", "next_retry_at": date_after(due) if due > now else None}
    write.news = [News(line_of(lane), due)]


def follow_up(write: Written, jobs: Sequence[NewJob], now: int, number: int) -> None:
    """Keep what comes next with the finished job, so that it cannot be lost, nor its key."""
    if not jobs:
        return
    docs = [new_document(job, now, at) for at, job in enumerate(jobs, number)]
    key = bequeath(write.doc, docs)
    box = pack(write.change.key, write.change.match["mulligan.token"], docs)
    write.boxes = [box]
    update = write.change.update
    update["$set"]["mulligan.outbox"] = box.field
    if key is not None:
        update["$set"][KEEPS] = key
        del update["$unset"]


def remember(entry: Doc) -> Doc:
    """Append to the history and keep its newest entries."""
    return {"mulligan.history": {"$each": [entry], "$slice": -HISTORY_LIMIT}}
