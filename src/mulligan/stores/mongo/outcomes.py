"""What outcomes write: one fenced change a job, and whom it concerns."""

from collections.abc import Sequence

from msgspec import Struct

from mulligan.core.job import Attempt, NewJob
from mulligan.core.lane import Lane
from mulligan.core.outcome import Again, Cancelled, Dead, Done, Keyed, Later, Outcome, Returned
from mulligan.core.settings import HISTORY_LIMIT
from mulligan.stores.mongo.base import Change, Doc, line_of
from mulligan.stores.mongo.bells import News
from mulligan.stores.mongo.documents import (
    HELD_BY_US,
    failure_fields,
    lane_of,
    new_document,
    standing,
)
from mulligan.stores.mongo.ending import ended
from mulligan.stores.mongo.gathering import Owed, owed_by
from mulligan.stores.mongo.outbox import Box, pack
from mulligan.stores.mongo.times import date, date_after, micros, seconds
from mulligan.stores.mongo.unique import KEEPS, LET_GO, bequeath


class Write(Struct):
    """One outcome on its way: the job as it was, the change, and whom it concerns."""

    place: int
    doc: Doc
    change: Change
    news: list[News] = []
    owed: list[Owed] = []
    boxes: list[Box] = []


def numbers_needed(outcome: Outcome, doc: Doc) -> int:
    """How many places in lanes the outcome gives out, at most."""
    match outcome:
        case Done(_, _, following):
            return len(following) + ("owes" in doc["mulligan"])
        case Again() | Later():
            return 1
        case Dead(_, _, following):
            return len(following)
        case _:
            return 0


class Moment:
    """The writes of outcomes that happen at one moment, with numbers for the places they give."""

    def __init__(self, now: int, number: int) -> None:
        self.now = now
        self._number = number
        self._done: dict[bytes | None, Doc] = {}

    def plan(self, place: int, outcome: Outcome, doc: Doc) -> Write:
        """The write that an outcome stands for."""
        change = Change(doc["_id"], HELD_BY_US, {}, outcome.lease.token, kept=True)
        write = Write(place, doc, change)
        match outcome:
            case Done(_, result, following):
                write.change.update = self._done_with(result, alone=bool(following))
                if "owes" in doc["mulligan"]:
                    write.owed = owed_by(doc, "done", result, self._next_number())
                self._follow_up(write, following)
            case Again(_, lane, delay, failure, trail, free):
                write.change.update = self._update({"mulligan.trail": trail}, failure)
                write.change.update["$inc"] = {"mulligan.snoozes" if free else "attempts": 1}
                self._put(write, lane, delay)
            case Later(_, delay):
                write.change.update = self._update({})
                write.change.update["$inc"] = {"mulligan.snoozes": 1}
                self._put(write, lane_of(doc), delay)
            case Dead(_, failure, following):
                write.change.update = self._update(ended("failed", self.now), failure)
                self._follow_up(write, following)
            case Returned():
                line = line_of(lane_of(doc))
                write.change.update = self._update({"status": "pending", "mulligan.line": line})
                write.news = [News(line, doc["mulligan"]["due"])]
            case Keyed(_, key, limit, trail):
                line = line_of(lane_of(doc))
                under = {"mulligan.key": key, "mulligan.key_limit": limit, "mulligan.trail": trail}
                fields = {"status": "pending", "mulligan.line": line, **under}
                write.change.update = self._update(fields)
                write.news = [News(line, doc["mulligan"]["due"])]
            case Cancelled(_, reason):
                write.change.update = self._update(ended("cancelled", self.now, reason))
                write.owed = owed_by(doc, "cancelled")
        return write

    def _done_with(self, result: bytes | None, *, alone: bool) -> Doc:
        """The update of a job that is done; jobs with the same result share one unless alone."""
        if alone or result not in self._done:
            fields = ended("done", self.now) | {"mulligan.result": result}
            update = self._update(fields)
            if alone:
                return update
            self._done[result] = update
        return self._done[result]

    def _update(self, fields: Doc, failure: Attempt | None = None) -> Doc:
        """An update that ends a lease; a job that has ended lets go of its unique key."""
        fields |= {
            "updated_at": date(self.now),
            "mulligan.touched": date(self.now),
            "mulligan.since": 0,
            "mulligan.worker": None,
            "mulligan.permits": [],
        }
        update: Doc = {"$set": fields}
        if "mulligan.ended" in fields:
            update["$unset"] = LET_GO
        if failure is not None:
            fields["error"], entry = failure_fields(failure, self.now)
            kept = {"$each": [entry], "$slice": -HISTORY_LIMIT}
            update["$push"] = {"mulligan.history": kept}
        return update

    def _put(self, write: Write, lane: Lane, delay: float) -> None:
        """Let the job join a lane, due after the delay."""
        due = micros(seconds(self.now) + delay) if delay else self.now
        late = due > self.now
        stand = standing(lane, due, self._next_number(), delayed=late)
        fields = write.change.update["$set"]
        fields |= {f"mulligan.{name}": value for name, value in stand.items()}
        fields |= {"status": "pending", "next_retry_at": date_after(due) if late else None}
        write.news = [News(line_of(lane), due)]

    def _follow_up(self, write: Write, jobs: Sequence[NewJob]) -> None:
        """Keep what comes next with the finished job, so that it cannot be lost, nor its key."""
        if not jobs:
            return
        docs = [new_document(job, self.now, self._next_number()) for job in jobs]
        key = bequeath(write.doc, docs)
        box = pack(write.change.key, write.change.token or 0, docs)
        write.boxes = [box]
        update = write.change.update
        update["$set"]["mulligan.outbox"] = box.field
        if key is not None:
            update["$set"][KEEPS] = key
            del update["$unset"]

    def _next_number(self) -> int:
        self._number += 1
        return self._number - 1
