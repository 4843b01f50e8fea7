"""What an operator does to jobs: replay, cancel, adopt, purge."""

from collections.abc import Iterable, Sequence

from pymongo import DeleteMany

from mulligan.core.job import ENDED, Adopted, NewJob, adopted_token
from mulligan.core.settings import check_batch
from mulligan.stores.mongo import plain
from mulligan.stores.mongo.base import Base, Change, Doc, line_of
from mulligan.stores.mongo.bells import Bells, News, news_of
from mulligan.stores.mongo.colliding import write
from mulligan.stores.mongo.dead import bring_back, drop_copies, move_dead
from mulligan.stores.mongo.delivering import deliver, insert_where_free, write_where_free
from mulligan.stores.mongo.documents import (
    awaiting,
    failure_fields,
    is_awaiting,
    new_document,
    own_lane,
    public_date,
    standing,
)
from mulligan.stores.mongo.ending import cancelled
from mulligan.stores.mongo.foreign import STATUSES
from mulligan.stores.mongo.gathering import (
    Gathering,
    arrival,
    keep,
    left_owing,
    owed_by,
    still_awaiting,
)
from mulligan.stores.mongo.keys import Keys
from mulligan.stores.mongo.outbox import boxes_of
from mulligan.stores.mongo.times import date, micros, seconds
from mulligan.stores.mongo.unique import KEEPS, key_of


class Operating:
    """Operations by job id; each answer stands at the place of its id."""

    def __init__(self, base: Base, bells: Bells, keys: Keys, gathering: Gathering) -> None:
        self.base = base
        self.bells = bells
        self.keys = keys
        self.gathering = gathering

    async def documents(self, jobs: Sequence[str]) -> dict[str, Doc]:
        """The documents of those that are jobs, owing nothing."""
        check_batch(len(jobs))
        there = await self.base.find_anywhere(jobs)
        found = {job: doc for job, doc in there.items() if doc.get("status") in STATUSES}
        ours = [doc for doc in found.values() if not plain.is_plain(doc)]
        await self.deliver_left(ours)
        await self.gathering.settle(each for doc in ours for each in left_owing(doc))
        return found

    async def deliver_left(self, docs: Iterable[Doc]) -> None:
        """Deliver what a commit left in these documents."""
        boxes = await boxes_of(self.base, docs)
        new = await deliver(self.base, boxes)
        jobs = [job for box in boxes for job in box.jobs if job["_id"] in new]
        await self.bells.ring(news_of(jobs))

    # -- replay ----------------------------------------------------------------------------

    async def replay(self, jobs: Sequence[str]) -> list[bool]:
        """Make failed jobs pending again."""
        found = await self.documents(jobs)
        now = await self.base.now()
        failed = [j for j in dict.fromkeys(jobs) if j in found and found[j]["status"] == "failed"]
        strange = [j for j in failed if plain.is_plain(found[j])]
        read_anew = [j for j in strange if await plain.replay(self.base, found[j], now)]
        failed = [j for j in failed if j not in strange]
        number = await self.base.numbers(len(failed))
        changes = {j: replayed(found[j], now, at) for at, j in enumerate(failed, number)}
        news = {job: News(line_of(own_lane(found[job])), now) for job in failed}
        await self.base.know(each.line for each in news.values())
        written = await write_where_free(self.base, list(changes.values()))
        done = {job for job, change in changes.items() if change.key in written}
        if self.base.address.move_dead:
            await drop_copies(self.base, [found[job] for job in done])
            for job in [j for j in failed if j not in done]:
                if await bring_back(self.base, changes[job]):
                    done.add(job)
        await self.bells.ring([news[job] for job in failed if job in done])
        return once_each(jobs, done.union(read_anew))

    # -- cancel ----------------------------------------------------------------------------

    async def cancel(self, jobs: Sequence[str], reason: str) -> list[bool]:
        """End pending and running jobs."""
        found = await self.documents(jobs)
        done: set[str] = set()
        left = [j for j in dict.fromkeys(jobs) if j in found and found[j]["status"] not in ENDED]
        now = await self.base.now()
        strange = [j for j in left if plain.is_plain(found[j])]
        done.update([j for j in strange if await plain.cancel(self.base, found[j], reason, now)])
        for batch in in_turn([j for j in left if j not in strange], found):
            done |= await self.end(batch, found, reason)
        return once_each(jobs, done)

    async def end(self, jobs: list[str], found: dict[str, Doc], reason: str) -> set[str]:
        """Cancel those of the jobs that have not ended; returns which were."""
        done: set[str] = set()
        left = jobs
        while left:
            now = await self.base.now()
            changes = {job: cancelled(found[job], reason, now) for job in left}
            for job in left:
                if is_awaiting(found[job]):
                    changes[job].match |= still_awaiting(found[job])
            written = await self.base.apply(list(changes.values()))
            ended_now = [job for job in left if changes[job].key in written]
            # What awaits others has no room to leave.
            had_room = [found[job] for job in ended_now if not is_awaiting(found[job])]
            freed = await self.keys.release(had_room)
            await self.bells.ring([each for news in freed for each in news])
            await self.gathering.settle(
                each for job in ended_now for each in owed_by(found[job], "cancelled")
            )
            done.update(ended_now)
            # Whatever was claimed or committed meanwhile is looked at anew.
            missed = [job for job in left if job not in done]
            found = await self.base.find(missed)
            left = [job for job in missed if job in found and found[job]["status"] not in ENDED]
        return done

    # -- adopt and purge -------------------------------------------------------------------

    async def adopt(self, jobs: Sequence[Adopted]) -> list[bool]:
        """Take over jobs of another store; what has arrived is there before the job is."""
        check_batch(len(jobs))
        now = await self.base.now()
        number = await self.base.numbers(len(jobs))
        docs = [adopted(each, now, at) for at, each in enumerate(jobs, number)]
        await keep(
            self.base,
            [
                arrival(doc, place, result)
                for doc, each in zip(docs, jobs, strict=True)
                for place, result in each.arrived.items()
            ],
        )
        await self.base.know(each.line for each in news_of(docs))
        created = {id(doc) for doc in await insert_where_free(self.base, docs)}
        new = [doc for doc in docs if id(doc) in created]
        if len(new) < len(docs):
            refused = [doc["mulligan"]["place"] for doc in docs if id(doc) not in created]
            await write(self.base.arrivals, [DeleteMany({"of": {"$in": refused}})])
        if self.base.address.move_dead:
            await move_dead(self.base, [d["_id"] for d in new if d["status"] == "failed"])
        await self.bells.ring(news_of(new))
        return [id(doc) in created for doc in docs]

    async def purge(self, jobs: Sequence[str]) -> list[bool]:
        """Delete jobs that have ended, one after the other: a member may end who awaits it."""
        found = await self.documents(jobs)
        done: set[str] = set()
        for job in dict.fromkeys(jobs):
            if job in found and is_awaiting(found[job]):
                found |= await self.base.find([job])
            if job in found and found[job]["status"] in ENDED and await self.remove(found[job]):
                done.add(job)
        return once_each(jobs, done)

    async def remove(self, doc: Doc) -> bool:
        """Delete a job that has ended; a dead letter that others know of takes two steps."""
        if plain.is_plain(doc):
            return await plain.purge(self.base, doc)
        if doc["status"] == "failed" and not {"owes", "awaits"}.isdisjoint(doc["mulligan"]):
            if not await self.gathering.begin_removal(doc):
                return False
            await self.gathering.settle(owed_by(doc, "purged"))
        return bool(await self.gathering.remove([doc]))


def once_each(jobs: Sequence[str], done: set[str]) -> list[bool]:
    """True at the first place of each job that is done."""
    left = set(done)
    answers = []
    for job in jobs:
        answers.append(job in left)
        left.discard(job)
    return answers


def in_turn(jobs: Sequence[str], found: dict[str, Doc]) -> list[list[str]]:
    """The jobs in batches: one that awaits others may be ended by those before it."""
    batches: list[list[str]] = [[]]
    for job in jobs:
        if is_awaiting(found[job]) and any("owes" in found[j]["mulligan"] for j in batches[-1]):
            batches.append([])
        batches[-1].append(job)
    return batches


def replayed(doc: Doc, now: int, number: int) -> Change:
    """The write that makes a failed job pending."""
    match, token = {"status": "failed"}, doc["mulligan"]["token"]
    public: Doc = {
        "status": "pending",
        "updated_at": date(now),
        "attempts": 0,
        "next_retry_at": None,
    }
    stand = standing(own_lane(doc), now, number, delayed=False)
    fields = public | {f"mulligan.{name}": value for name, value in stand.items()}
    fields |= {"mulligan.snoozes": 0, "mulligan.touched": date(now)}
    if (key := key_of(doc)) is not None:
        fields[KEEPS] = key
    update = {
        "$set": fields,
        "$inc": {"mulligan.replay": 1},
        "$unset": {"mulligan.ended": "", "mulligan.outbox": "", "mulligan.trail": ""},
    }
    return Change(doc["_id"], match, update, token, kept=True)


def adopted(each: Adopted, now: int, number: int) -> Doc:
    """The document of a job that comes from another store, as it stands there."""
    job = each.job
    new = NewJob(
        job.id,
        job.queue,
        job.task,
        job.body,
        job.region,
        job.priority,
        unique_key=job.unique_key,
        concurrency_key=job.concurrency_key,
        concurrency_limit=job.concurrency_limit,
        unique_in=job.unique_in,
        gather=job.gather,
        gather_index=job.gather_index,
    )
    doc = new_document(new, now, number)
    due = micros(seconds(now) + (job.due - seconds(now)))
    private = doc["mulligan"]
    private |= standing(job.lane, due, number, delayed=due > now)
    if job.awaits:
        private |= awaiting(job.awaits + len(each.arrived), len(each.arrived))
    elif each.arrived:
        private["awaits"] = 0
    token = adopted_token(number, job.token)
    private |= {
        "created": micros(job.created_at),
        "token": token,
        "since": token,
        "replay": job.replay,
        "snoozes": job.snoozes,
        "trail": job.trail,
    }
    if job.expires_at is not None:
        private["expires"] = micros(job.expires_at)
    for name, at in (("started", job.started_at), ("last_retry", job.last_retry_at)):
        if at is not None:
            private[name] = micros(at)
    doc |= {
        "attempts": job.retry_count,
        "created_at": date(micros(job.created_at)),
        "next_retry_at": public_date(private),
    }
    entries = [failure_fields(entry, micros(entry.ended_at or 0.0)) for entry in each.history]
    if entries:
        doc["error"] = entries[-1][0]
        private["history"] = [entry for _, entry in entries]
    if job.status == "failed":
        doc |= {"status": "failed", "next_retry_at": None}
        private["ended"] = now if job.ended_at is None else micros(job.ended_at)
        private.pop("keeps", None)
    return doc
