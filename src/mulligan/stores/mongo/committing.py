"""Commits: one fenced write a job, and then what follows from it."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from pymongo.errors import BulkWriteError

from mulligan.core.job import NewJob
from mulligan.core.lane import Lane
from mulligan.core.outcome import Again, Cancelled, Dead, Done, Later, Outcome, Returned
from mulligan.core.settings import HISTORY_LIMIT
from mulligan.stores.contract import Verdict
from mulligan.stores.mongo.base import Base, Change, Doc, line_of, new_stamp, only_duplicates, rows
from mulligan.stores.mongo.bells import Bells, News
from mulligan.stores.mongo.claiming import ended
from mulligan.stores.mongo.dead import move_dead
from mulligan.stores.mongo.documents import (
    failure_fields,
    held_by_us,
    lane_of,
    new_document,
    standing,
)
from mulligan.stores.mongo.keys import Keys
from mulligan.stores.mongo.times import date, date_after, micros, seconds

FIELDS = {"mulligan.body": 0, "payload": 0, "mulligan.history": 0, "mulligan.result": 0}


class Written(Struct):
    """One outcome on its way: the job as it was, the write, and whom it concerns."""

    place: int
    doc: Doc
    change: Change
    news: list[News]
    next: list[Doc]


class Committing:
    """How outcomes are written."""

    def __init__(self, base: Base, bells: Bells, keys: Keys) -> None:
        self.base = base
        self.bells = bells
        self.keys = keys

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        """Write what is still held; see the contract."""
        now = await self.base.now()
        docs = await self.base.find([outcome.lease.job for outcome in outcomes], FIELDS)
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
        number = await self.base.numbers(sum(numbers_needed(o) for _, o, _ in valid))
        writing = []
        for place, outcome, doc in valid:
            writing.append(plan_write(place, outcome, doc, now, number))
            number += numbers_needed(outcome)
        await self.base.know(each.line for w in writing for each in w.news)
        written = await self.base.apply([w.change for w in writing])
        for w in writing:
            if w.doc["_id"] in written:
                verdicts[w.place] = "written"
        await self.follow([w for w in writing if w.doc["_id"] in written])
        missed = [w.place for w in writing if w.doc["_id"] not in written]
        if missed:
            again = await self.commit([outcomes[place] for place in missed])
            for place, verdict in zip(missed, again, strict=True):
                verdicts[place] = verdict
        return verdicts

    async def follow(self, written: list[Written]) -> None:
        """Deliver what comes next, free the permits, and tell those who wait."""
        created = await deliver(self.base, [(w.change.key, w.next) for w in written if w.next])
        freed = await self.keys.release([w.doc for w in written])
        news: list[News] = []
        for w, released in zip(written, freed, strict=True):
            new = {doc["mulligan"]["line"] for doc in w.next if doc["_id"] in created}
            news += [n for n in w.news if not w.next or n.line in new]
            news += released
        if self.base.address.move_dead:
            dead = [w.change.key for w in written if w.change.update["$set"]["status"] == "failed"]
            await move_dead(self.base, dead)
        await self.bells.ring(news)


def numbers_needed(outcome: Outcome) -> int:
    """How many places in lanes the outcome gives out."""
    match outcome:
        case Again() | Later():
            return 1
        case Done(_, _, following) | Dead(_, _, following):
            return len(following)
        case _:
            return 0


def plan_write(place: int, outcome: Outcome, doc: Doc, now: int, number: int) -> Written:
    """The write that an outcome stands for."""
    token = outcome.lease.token
    fields: Doc = {"updated_at": date(now), "mulligan.committed": token, "mulligan.worker": None}
    fields["mulligan.permits"] = []
    update: Doc = {"$set": fields}
    news: list[News] = []
    following: list[Doc] = []

    def put(lane: Lane, delay: float) -> None:
        due = micros(seconds(now) + delay) if delay else now
        stand = standing(lane, due, number, delayed=due > now)
        fields.update({f"mulligan.{name}": value for name, value in stand.items()})
        fields.update(status="pending", next_retry_at=date_after(due) if due > now else None)
        news.append(News(line_of(lane), due))

    match outcome:
        case Done(_, result, next_jobs):
            fields |= ended("done", now) | {"mulligan.result": result}
            following = documents_of(next_jobs, now, number)
        case Again(_, lane, delay, failure):
            fields["error"], entry = failure_fields(failure, now)
            update["$push"] = remember(entry)
            update["$inc"] = {"attempts": 1}
            put(lane, delay)
        case Later(_, delay):
            update["$inc"] = {"mulligan.snoozes": 1}
            put(lane_of(doc), delay)
        case Dead(_, failure, next_jobs):
            fields |= ended("failed", now)
            fields["error"], entry = failure_fields(failure, now)
            update["$push"] = remember(entry)
            following = documents_of(next_jobs, now, number)
        case Returned():
            lane = lane_of(doc)
            fields |= {"status": "pending", "mulligan.line": line_of(lane)}
            news.append(News(line_of(lane), doc["mulligan"]["due"]))
        case Cancelled(_, reason):
            fields |= ended("cancelled", now, reason)
    if following:
        # Inside the finished document they cannot be lost; delivery may be repeated at will.
        fields["mulligan.outbox"] = {"stamp": new_stamp(), "jobs": following}
        news += [News(d["mulligan"]["line"], d["mulligan"]["due"]) for d in following]
    match_ = {"status": "processing", "mulligan.token": token, "mulligan.worker": {"$ne": None}}
    return Written(place, doc, Change(doc["_id"], match_, update), news, following)


def documents_of(jobs: Sequence[NewJob], now: int, number: int) -> list[Doc]:
    """The documents of jobs that come next."""
    return [new_document(job, now, at) for at, job in enumerate(jobs, number)]


def remember(entry: Doc) -> Doc:
    """Append to the history and keep its newest entries."""
    return {"mulligan.history": {"$each": [entry], "$slice": -HISTORY_LIMIT}}


async def deliver(base: Base, outboxes: Sequence[tuple[Any, list[Doc]]]) -> set[str]:
    """Enqueue what is in these outboxes and then empty them; returns the ids that are new.

    A job that is there already, by its id or its unique key, is left as it is: delivering twice
    is the same as once.
    """
    every = [doc for _, docs in outboxes for doc in docs]
    if not every:
        return set()
    await base.know(doc["mulligan"]["line"] for doc in every)
    created = await insert(base, every)
    parents = [parent for parent, _ in outboxes]
    jobs = [doc["_id"] for doc in every]
    await base.tasks.update_many(
        {"_id": {"$in": parents}, "mulligan.outbox.jobs._id": {"$in": jobs}},
        {"$unset": {"mulligan.outbox": ""}},
    )
    return {docs["_id"] for docs in created}


async def insert(base: Base, docs: Sequence[Doc]) -> list[Doc]:
    """Insert the documents that are not there yet, in one command; returns those."""
    if base.address.move_dead:
        ids = [doc["_id"] for doc in docs]
        gone = {doc["_id"] for doc in await rows(base.dlq.find({"_id": {"$in": ids}}, {"_id": 1}))}
        docs = [doc for doc in docs if doc["_id"] not in gone]
    if not docs:
        return []
    try:
        await base.tasks.insert_many(docs, ordered=False)
    except BulkWriteError as error:
        there = set(only_duplicates(error))
        return [doc for at, doc in enumerate(docs) if at not in there]
    return list(docs)
