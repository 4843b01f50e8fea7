"""Commits: one fenced write a job, and then what follows from it."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from pymongo.errors import BulkWriteError

from mulligan.core.gather import lost_value
from mulligan.core.job import Attempt, Lease, NewJob
from mulligan.core.lane import Lane
from mulligan.core.lines import LineName
from mulligan.core.outcome import (
    Again,
    Cancelled,
    Dead,
    Done,
    Later,
    Limited,
    Outcome,
    Returned,
    Verdict,
)
from mulligan.core.settings import HISTORY_LIMIT
from mulligan.stores.mongo.arrivals import Owed, owed_by, owed_if_cancelled
from mulligan.stores.mongo.book import Book
from mulligan.stores.mongo.bulk_write import Change
from mulligan.stores.mongo.connection import Connection
from mulligan.stores.mongo.dead_letters import move_dead
from mulligan.stores.mongo.document import (
    HELD_BY_US,
    KEPT_KEY,
    LEAN,
    RELEASE_KEY,
    Doc,
    date,
    date_after,
    ended,
    failure_fields,
    held_by_us,
    key_name,
    lane_name,
    lane_of,
    last_written,
    line_in,
    line_text,
    micros,
    private_names,
    private_of,
    seconds,
    standing,
    unique_key_of,
)
from mulligan.stores.mongo.enqueue import deliver, hand_on_key, write_where_free
from mulligan.stores.mongo.events import Event, ending, events_in, joining, owing, using
from mulligan.stores.mongo.fields import new_document
from mulligan.stores.mongo.gather import Gatherer
from mulligan.stores.mongo.leases import Leases
from mulligan.stores.mongo.limits import free_caps
from mulligan.stores.mongo.outbox import Box, pack, set_beside, take_away
from mulligan.stores.mongo.unique import stays_taken
from mulligan.stores.mongo.validate import set_invalid_aside
from mulligan.stores.mongo.wakeup import News, Wakeup, news_of

# An outcome whose lease is still held, with its index in the batch and its job as it was.
Valid = tuple[int, Outcome, Doc]


class Write(Struct):
    """One outcome on its way: the job as it was, the change, and whom it concerns.

    The book is told `before` of what becomes of the job itself, and `after` that its lease is over.
    """

    index: int
    doc: Doc
    change: Change
    news: list[News] = []
    owed: list[Owed] = []
    boxes: list[Box] = []
    before: list[Event] = []
    after: list[Event] = []


class Committer:
    """Writes outcomes."""

    def __init__(
        self,
        connection: Connection,
        wakeup: Wakeup,
        book: Book,
        gatherer: Gatherer,
        leases: Leases,
    ) -> None:
        self.connection = connection
        self.wakeup = wakeup
        self.book = book
        self.gatherer = gatherer
        self.leases = leases

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        """Write what is still held; see the contract."""
        now = await self.connection.now()
        docs = await self.documents([outcome.lease for outcome in outcomes])
        verdicts, valid = sort_out(outcomes, docs)
        together = at_once(valid)
        needed = sum(numbers_needed(outcome, doc) for _, outcome, doc in together)
        writer = OutcomeWriter(now, await self.connection.numbers(needed))
        writes = [writer.plan(*each) for each in together]
        keys = await self.write(writes)
        written = [write for write in writes if write.change.key in keys]
        for write in written:
            verdicts[write.index] = "written"
        await self.follow(written, now)
        missed = {outcomes[w.index].lease.job for w in writes if w.change.key not in keys}
        later = {outcome.lease.job for _, outcome, _ in valid[len(together) :]}
        # All other outcomes of the batch for these jobs are decided anew as well.
        left = [at for at, each in enumerate(outcomes) if each.lease.job in missed | later]
        if left:
            again = await self.commit([outcomes[at] for at in left])
            for at, verdict in zip(left, again, strict=True):
                verdicts[at] = verdict
        return verdicts

    async def documents(self, leases: Sequence[Lease]) -> dict[str, Doc]:
        """The documents of these jobs: as they were claimed if that was here, else as they are."""
        claimed = self.leases.take(leases)
        others = [lease.job for lease in leases if lease.job not in claimed]
        return claimed | await self.connection.find(others, LEAN)

    async def write(self, writes: list[Write]) -> set[object]:
        """Write what is still held; returns the keys of that."""
        await self.connection.enter_lanes(each.lane for w in writes for each in w.news)
        await set_beside(self.connection, [box for w in writes for box in w.boxes])
        changes = [w.change for w in writes]
        try:
            written = await write_where_free(self.connection, changes)
        except BulkWriteError:
            if not await set_invalid_aside(self.connection, changes):
                raise
            written = await write_where_free(self.connection, changes)
        missed = [w for w in writes if w.change.key not in written]
        await take_away(self.connection, [box for w in missed for box in w.boxes])
        return written

    async def follow(self, written: list[Write], now: int) -> None:
        """Tell gathering jobs, deliver next jobs, free the permits, tell the book, wake sleepers.

        The book is told of all in the order of outcomes, as if each was written by itself.
        """
        gathered = await self.gatherer.settle(each for w in written for each in w.owed)
        created = await deliver(self.connection, [box for w in written for box in w.boxes])
        freed = await free_caps(self.connection, [w.doc for w in written])
        events: list[list[Event]] = []
        news: list[list[News]] = []
        for w, released in zip(written, freed, strict=True):
            new = [doc for box in w.boxes for doc in box.jobs if doc["_id"] in created]
            joined = [event for doc in new for event in events_in(doc)]
            events.append([*w.before, *gathered.get(w.change.key, ()), *joined, *w.after])
            news.append([*w.news, *news_of(new), *released])
        told = iter(await self.book.tell([each for some in events for each in some], now))
        every: list[News] = []
        for some, own in zip(events, news, strict=True):
            every += [*own, *(each for _ in some for each in next(told))]
        if self.connection.url.move_dead:
            dead = [w.change.key for w in written if w.change.update["$set"]["status"] == "failed"]
            await move_dead(self.connection, dead)
        await self.wakeup.wake(every)


def sort_out(
    outcomes: Sequence[Outcome], docs: Mapping[str, Doc]
) -> tuple[list[Verdict], list[Valid]]:
    """The verdicts if nothing is written, and what is to be written, each with its index.

    Of two outcomes for one job, the second is judged as if the first had been written.
    """
    verdicts: list[Verdict] = ["stale"] * len(outcomes)
    valid: dict[str, Valid] = {}
    for at, outcome in enumerate(outcomes):
        job, token = outcome.lease
        doc = docs.get(job)
        if doc is None or "token" not in private_of(doc):
            continue
        newest = doc["mulligan"]["token"]
        if job not in valid and token == newest and held_by_us(doc):
            valid[job] = (at, outcome, doc)
        elif token == (newest if job in valid else last_written(doc)):
            verdicts[at] = "already"
    return verdicts, list(valid.values())


def at_once(valid: list[Valid]) -> list[Valid]:
    """The first of these, as many as may be written together: the next jobs come after all of it.

    An outcome that frees the key of a next job before it, or arrives there, must wait until that
    job is stored.
    """
    keys: set[str] = set()
    gathering: set[str] = set()
    for at, (_, outcome, doc) in enumerate(valid):
        gather = doc["mulligan"].get("gather")
        # The job that awaits a cancelled one is cancelled as well, and may have any key.
        cancels = gather is not None and isinstance(outcome, Cancelled)
        if unique_key_of(doc) in keys or gather in gathering or (keys and cancels):
            return valid[:at]
        for job in outcome.next if isinstance(outcome, Done | Dead) else ():
            if job.unique_key is not None:
                keys.add(key_name(job.key_queue, job.unique_key))
            if job.awaits:
                gathering.add(job.id)
    return valid


def numbers_needed(outcome: Outcome, doc: Doc) -> int:
    """How many sequences of lanes the outcome gives out, at most."""
    match outcome:
        case Done(_, _, following, _):
            return len(following) + ("owes" in doc["mulligan"])
        case Again() | Later():
            return 1
        case Dead(_, _, following, _):
            return len(following) + ("owes" in doc["mulligan"])
        case _:
            return 0


class OutcomeWriter:
    """Turns outcomes into writes of one moment, with the numbers that were drawn for them."""

    def __init__(self, now: int, number: int) -> None:
        self.now = now
        self._number = number
        self._done: dict[tuple[bytes | None, int | None, bool], Doc] = {}

    def plan(self, index: int, outcome: Outcome, doc: Doc) -> Write:
        """The write that an outcome stands for."""
        change = Change(doc["_id"], HELD_BY_US, {}, outcome.lease.token, kept=True)
        write = Write(index, doc, change)
        unused = isinstance(outcome, Returned | Limited)
        used = None if isinstance(outcome, Returned | Limited | Cancelled) else outcome.use
        write.before = using(doc, used, self.now)
        write.after = ending(doc, self.now, refunded=unused)
        match outcome:
            case Done():
                self._finish(write, outcome)
            case Again(_, lane, delay, failure, trail, free, _):
                write.change.update = self._update({"mulligan.trail": trail}, failure)
                write.change.update["$inc"] = {"mulligan.snoozes" if free else "attempts": 1}
                self._put(write, lane, delay)
            case Later(_, delay, _):
                write.change.update = self._update({})
                write.change.update["$inc"] = {"mulligan.snoozes": 1}
                self._put(write, lane_of(doc), delay)
            case Dead(_, failure, following, _):
                write.change.update = self._update(ended("failed", self.now), failure)
                write.owed = self._owed_if_failed(doc, failure)
                self._follow_up(write, following)
            case Returned():
                self._put_back(write, {})
            case Limited(_, limits, key, trail):
                limited = {"limits": limits, "fairness_key": key, "trail": trail}
                self._put_back(write, private_names(limited), limited)
            case Cancelled(_, reason):
                keep = doc["mulligan"].get("keep")
                write.change.update = self._update(ended("cancelled", self.now, reason, keep))
                write.owed = owed_if_cancelled(doc, reason)
                write.change.update["$set"] |= {"mulligan.ran": True} if write.owed else {}
        if write.after:
            change.update["$set"]["mulligan.holds"] = None
        owing(change, [*write.before, *write.after])
        return write

    def _finish(self, write: Write, outcome: Done) -> None:
        """The job is done; one that hands on owes nothing to who awaits it."""
        private, hands_on = write.doc["mulligan"], outcome.hands_on
        alone = bool(outcome.next or write.before or hands_on) or stays_taken(private, self.now)
        held, keep = bool(write.after), private.get("keep")
        write.change.update = self._done_with(outcome.result, keep, held=held, alone=alone)
        if "owes" in private and not hands_on:
            write.owed = owed_by(write.doc, "done", outcome.result, self._next_number())
        self._follow_up(write, outcome.next)
        if hands_on:
            unset = write.change.update.setdefault("$unset", {})
            unset["mulligan.owes"] = ""

    def _owed_if_failed(self, doc: Doc, failure: Attempt) -> list[Owed]:
        """What a member that fails for good owes to who awaits it."""
        if "owes" not in doc["mulligan"]:
            return []
        lost = lost_value(str(doc["_id"]), failure)
        return owed_by(doc, "failed", lost, self._next_number())

    def _done_with(self, result: bytes | None, keep: int | None, *, held: bool, alone: bool) -> Doc:
        """The update of a job that is done; jobs with the same result share one unless alone.

        So do those that held permits, and those that held none.
        """
        shared = (result, keep, held)
        if alone or shared not in self._done:
            fields = ended("done", self.now, keep=keep) | {"mulligan.result": result}
            update = self._update(fields)
            if alone:
                return update
            self._done[shared] = update
        return self._done[shared]

    def _update(self, fields: Doc, failure: Attempt | None = None) -> Doc:
        """An update that ends a lease; a job that has ended releases its unique key."""
        fields |= {
            "updated_at": date(self.now),
            "mulligan.updated_at": date(self.now),
            "mulligan.uncommitted": 0,
            "mulligan.worker": None,
            "mulligan.permits": [],
        }
        update: Doc = {"$set": fields}
        if "mulligan.ended_at" in fields:
            update["$unset"] = dict(RELEASE_KEY)
        if failure is not None:
            fields["error"], entry = failure_fields(failure, self.now)
            kept = {"$each": [entry], "$slice": -HISTORY_LIMIT}
            update["$push"] = {"mulligan.history": kept}
        return update

    def _put(self, write: Write, lane: Lane, delay: float) -> None:
        """Let the job join a lane, due after the delay."""
        due = micros(seconds(self.now) + delay) if delay else self.now
        late = due > self.now
        line = line_in(write.doc, lane)
        stand = standing(lane, due, self._next_number(), delayed=late, line=line)
        fields = write.change.update["$set"]
        fields |= private_names(stand)
        fields |= {"status": "pending", "next_retry_at": date_after(due) if late else None}
        self._stand(write, lane, line, due)

    def _put_back(self, write: Write, fields: Doc, limited: Doc | None = None) -> None:
        """Let the job stand where it was taken from, with these fields."""
        lane = lane_of(write.doc)
        line = line_in({"mulligan": write.doc["mulligan"] | (limited or {})})
        name = lane_name(lane) if line is None else line_text(line)
        fields |= {"status": "pending", "mulligan.lane": name}
        write.change.update = self._update(fields)
        self._stand(write, lane, line, write.doc["mulligan"]["due"])

    def _stand(self, write: Write, lane: Lane, line: LineName | None, due: int) -> None:
        """Note that the job stands there, for the book and for sleepers."""
        if line is None:
            write.news = [News(lane_name(lane), due)]
        else:
            write.before.append(joining(write.change.key, line, self.now))

    def _follow_up(self, write: Write, jobs: Sequence[NewJob]) -> None:
        """Keep what comes next with the finished job, so that it cannot be lost, nor its key.

        A throttled job keeps its key for itself.
        """
        keeps = stays_taken(write.doc["mulligan"], self.now)
        if keeps:
            del write.change.update["$unset"]
        if not jobs:
            return
        docs = [new_document(job, self.now, self._next_number()) for job in jobs]
        key = hand_on_key(write.doc, docs)
        box = pack(write.change.key, write.change.token or 0, docs, keeps=keeps)
        write.boxes = [box]
        update = write.change.update
        update["$set"]["mulligan.outbox"] = box.field
        if key is not None:
            update["$set"][KEPT_KEY] = key
            del update["$unset"]

    def _next_number(self) -> int:
        self._number += 1
        return self._number - 1
