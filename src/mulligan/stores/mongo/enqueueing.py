"""Enqueue: one insert for the batch; what was there before is found by the conflict it makes."""

from collections.abc import Sequence

from mulligan.core.job import Enqueued, NewJob
from mulligan.core.settings import check_batch
from mulligan.stores.mongo.base import Base, Doc
from mulligan.stores.mongo.bells import Bells, news_of
from mulligan.stores.mongo.delivering import free, insert
from mulligan.stores.mongo.documents import new_document
from mulligan.stores.mongo.unique import keys_to_take


class Enqueueing:
    """How jobs come in."""

    def __init__(self, base: Base, bells: Bells) -> None:
        self.base = base
        self.bells = bells

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Insert every job that is not there yet; see the contract."""
        check_batch(len(jobs))
        if not jobs:
            return []
        now = await self.base.now()
        number = await self.base.numbers(len(jobs))
        docs = [new_document(job, now, at) for at, job in enumerate(jobs, number)]
        await self.base.know(each.line for each in news_of(docs))
        answers: dict[int, Enqueued] = {}
        new: list[Doc] = []
        ours: dict[str, int] = {}
        left = list(range(len(docs)))
        while left:
            created = {id(doc) for doc in await insert(self.base, [docs[at] for at in left])}
            for at in left:
                if id(docs[at]) in created:
                    ours.setdefault(jobs[at].id, at)
                    answers[at] = Enqueued(jobs[at].id, created=True)
                    new.append(docs[at])
            refused = [at for at in left if at not in answers]
            answers |= await self.first_ones(docs, refused, ours)
            left = [at for at in refused if at not in answers]
            # What had their unique keys has ended: now its next job has the key, or there is room.
            await free(self.base, keys_to_take(docs[at] for at in left))
        await self.bells.ring(news_of(new))
        return [answers[at] for at in range(len(jobs))]

    async def first_ones(
        self, docs: list[Doc], places: list[int], ours: dict[str, int]
    ) -> dict[int, Enqueued]:
        """The jobs that were there before those at these places.

        A later place of the same batch may have the same id, and was not there before.
        """
        if not places:
            return {}
        found = await self.base.find_anywhere([docs[at]["_id"] for at in places])
        answers: dict[int, Enqueued] = {}
        for at in places:
            private = docs[at]["mulligan"]
            if docs[at]["_id"] in found and ours.get(docs[at]["_id"], -1) < at:
                answers[at] = Enqueued(docs[at]["_id"], created=False)
                continue
            if "unique_key" not in private:
                continue
            first = await self.base.tasks.find_one(
                {
                    "mulligan.unique_queue": private["unique_queue"],
                    "mulligan.unique_key": private["unique_key"],
                    "status": {"$gte": "p"},
                },
                {"_id": 1},
            )
            if first is not None:
                answers[at] = Enqueued(str(first["_id"]), created=False)
        return answers
