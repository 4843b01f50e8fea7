"""What an operator does to jobs: replay, cancel, adopt, purge."""

from collections.abc import Sequence

from mulligan.core.job import ENDED, Attempt, Job, NewJob
from mulligan.core.lane import Lane
from mulligan.core.settings import check_batch
from mulligan.stores.mongo import foreign
from mulligan.stores.mongo.base import Base, Change, Doc
from mulligan.stores.mongo.bells import Bells, News
from mulligan.stores.mongo.claiming import ended
from mulligan.stores.mongo.committing import deliver, insert
from mulligan.stores.mongo.dead import bring_back, move_dead
from mulligan.stores.mongo.documents import failure_fields, new_document, standing
from mulligan.stores.mongo.keys import Keys
from mulligan.stores.mongo.times import date, date_after, micros, seconds


class Operating:
    """Operations by job id; each answer stands at the place of its id."""

    def __init__(self, base: Base, bells: Bells, keys: Keys) -> None:
        self.base = base
        self.bells = bells
        self.keys = keys

    async def documents(self, jobs: Sequence[str]) -> dict[str, Doc]:
        """The documents, taken in if another program inserted them, their outboxes emptied."""
        check_batch(len(jobs))
        found = await self.base.find_anywhere(jobs)
        unknown = [doc for doc in found.values() if "body" not in (doc.get("mulligan") or {})]
        if unknown:
            await foreign.take_in(self.base, unknown, await self.base.now())
            found = await self.base.find_anywhere(jobs)
        boxes = [
            (doc["_id"], box["jobs"])
            for doc in found.values()
            if (box := doc["mulligan"].get("outbox"))
        ]
        await deliver(self.base, boxes)
        return found

    # -- replay ----------------------------------------------------------------------------

    async def replay(self, jobs: Sequence[str]) -> list[bool]:
        """Make failed jobs pending again."""
        found = await self.documents(jobs)
        now = await self.base.now()
        failed = [j for j in dict.fromkeys(jobs) if j in found and found[j]["status"] == "failed"]
        number = await self.base.numbers(len(failed))
        changes = {j: replayed(found[j], now, at) for at, j in enumerate(failed, number)}
        lanes = {job: own_lane(found[job]) for job in failed}
        news = {job: News(standing_line(lane), now) for job, lane in lanes.items()}
        await self.base.know(each.line for each in news.values())
        written = await self.base.apply(list(changes.values()))
        done = {job for job, change in changes.items() if change.key in written}
        if self.base.address.move_dead:
            for job in [j for j in failed if j not in done]:
                if await bring_back(self.base, changes[job]):
                    done.add(job)
        await self.bells.ring([news[job] for job in failed if job in done])
        return once_each(jobs, done)

    # -- cancel ----------------------------------------------------------------------------

    async def cancel(self, jobs: Sequence[str], reason: str) -> list[bool]:
        """End pending and running jobs."""
        found = await self.documents(jobs)
        done: set[str] = set()
        left = [j for j in dict.fromkeys(jobs) if j in found and found[j]["status"] not in ENDED]
        while left:
            now = await self.base.now()
            changes = {job: cancelled(found[job], reason, now) for job in left}
            written = await self.base.apply(list(changes.values()))
            ended_now = [job for job in left if changes[job].key in written]
            freed = await self.keys.release([found[job] for job in ended_now])
            await self.bells.ring([each for news in freed for each in news])
            done.update(ended_now)
            # Whatever was claimed or committed meanwhile is looked at anew.
            missed = [job for job in left if job not in done]
            found = await self.base.find(missed)
            left = [job for job in missed if job in found and found[job]["status"] not in ENDED]
        return once_each(jobs, done)

    # -- adopt and purge -------------------------------------------------------------------

    async def adopt(self, jobs: Sequence[tuple[Job, Sequence[Attempt]]]) -> list[bool]:
        """Take over jobs of another store."""
        check_batch(len(jobs))
        now = await self.base.now()
        number = await self.base.numbers(len(jobs))
        docs = [adopted(job, history, now, n) for n, (job, history) in enumerate(jobs, number)]
        await self.base.know(standing_line(job.lane) for job, _ in jobs)
        created = {id(doc) for doc in await insert(self.base, docs)}
        if self.base.address.move_dead:
            await move_dead(self.base, [d["_id"] for d in docs if d["status"] == "failed"])
        await self.bells.ring(
            [
                News(doc["mulligan"]["line"], doc["mulligan"]["due"])
                for doc in docs
                if id(doc) in created and doc["status"] == "pending"
            ]
        )
        return [id(doc) in created for doc in docs]

    async def purge(self, jobs: Sequence[str]) -> list[bool]:
        """Delete jobs that have ended."""
        found = await self.documents(jobs)
        done: set[str] = set()
        for job in dict.fromkeys(jobs):
            if job in found and found[job]["status"] in ENDED:
                query = {"_id": found[job]["_id"], "status": {"$in": sorted(ENDED)}}
                replies = [await place.delete_one(query) for place in self.base.places]
                if any(reply.deleted_count for reply in replies):
                    done.add(job)
        return once_each(jobs, done)


def once_each(jobs: Sequence[str], done: set[str]) -> list[bool]:
    """True at the first place of each job that is done."""
    left = set(done)
    answers = []
    for job in jobs:
        answers.append(job in left)
        left.discard(job)
    return answers


def own_lane(doc: Doc) -> Lane:
    """The lane that the job was enqueued into."""
    private = doc["mulligan"]
    return Lane(private["queue"], private["region"], private["priority"])


def standing_line(lane: Lane) -> str:
    """The line that a job standing in the lane has."""
    return str(standing(lane, 0, 0, delayed=False)["line"])


def replayed(doc: Doc, now: int, number: int) -> Change:
    """The write that makes a failed job pending; a malformed one is read anew."""
    match = {"status": "failed", "mulligan.token": doc["mulligan"]["token"]}
    public: Doc = {
        "status": "pending",
        "updated_at": date(now),
        "attempts": 0,
        "next_retry_at": None,
    }
    if doc["mulligan"].get("malformed"):
        return Change(doc["_id"], match, {"$set": public | {"mulligan": {}}})
    stand = standing(own_lane(doc), now, number, delayed=False)
    fields = public | {f"mulligan.{name}": value for name, value in stand.items()}
    fields["mulligan.snoozes"] = 0
    update = {
        "$set": fields,
        "$inc": {"mulligan.replay": 1},
        "$unset": {"mulligan.ended": "", "mulligan.outbox": ""},
    }
    return Change(doc["_id"], match, update)


def cancelled(doc: Doc, reason: str, now: int) -> Change:
    """The write that ends a job that has not ended; its token is spent."""
    match = {"status": doc["status"], "mulligan.token": doc["mulligan"]["token"]}
    fields = ended("cancelled", now, reason)
    return Change(doc["_id"], match, {"$set": fields, "$inc": {"mulligan.token": 1}})


def adopted(job: Job, history: Sequence[Attempt], now: int, number: int) -> Doc:
    """The document of a job that comes from another store, as it stands there."""
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
    )
    doc = new_document(new, now, number)
    due = micros(seconds(now) + (job.due - seconds(now)))
    private = doc["mulligan"]
    private |= standing(job.lane, due, number, delayed=due > now)
    private |= {
        "created": micros(job.created_at),
        "token": job.token,
        "committed": job.token,
        "replay": job.replay,
        "snoozes": job.snoozes,
    }
    if job.expires_at is not None:
        private["expires"] = micros(job.expires_at)
    for name, at in (("started", job.started_at), ("last_retry", job.last_retry_at)):
        if at is not None:
            private[name] = micros(at)
    doc |= {
        "attempts": job.retry_count,
        "created_at": date(micros(job.created_at)),
        "next_retry_at": date_after(due) if due > now else None,
    }
    entries = [failure_fields(each, micros(each.ended_at or 0.0)) for each in history]
    if entries:
        doc["error"] = entries[-1][0]
        private["history"] = [entry for _, entry in entries]
    if job.status == "failed":
        doc |= {"status": "failed", "next_retry_at": None}
        private["ended"] = now if job.ended_at is None else micros(job.ended_at)
    return doc
