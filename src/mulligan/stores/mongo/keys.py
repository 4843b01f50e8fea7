"""Concurrency keys: jobs that are set aside while their key is saturated, and let go after."""

from collections import defaultdict
from collections.abc import Sequence

from mulligan.stores.mongo import limits
from mulligan.stores.mongo.base import Base, Change, Doc, line_of, rows
from mulligan.stores.mongo.bells import Bells, News
from mulligan.stores.mongo.documents import permits_of
from mulligan.stores.mongo.snapshot import FIELDS, Candidate, candidate, first_of_each
from mulligan.stores.mongo.soundness import damage_in


class Keys:
    """Permits freed, and what they let go."""

    def __init__(self, base: Base, bells: Bells) -> None:
        self.base = base
        self.bells = bells

    async def held(self, *keys: str) -> list[Candidate]:
        """The jobs that are set aside for these keys; those that are damaged never come back."""
        query = {"status": "pending", "mulligan.key": {"$in": list(keys)}, "mulligan.held": True}
        found = await rows(self.base.tasks.find(query, FIELDS))
        if damaged := [doc["_id"] for doc in found if damage_in(doc)]:
            ids = {"_id": {"$in": damaged}, "status": "pending"}
            await self.bells.take_in(await rows(self.base.tasks.find(ids)))
        return [candidate(doc) for doc in found if doc["_id"] not in damaged]

    async def stand(self, jobs: Sequence[Candidate]) -> list[News]:
        """Let these jobs back into their lanes, each at its old place."""
        changes = [
            Change(
                job.key,
                {"status": "pending", "mulligan.held": True},
                {"$set": {"mulligan.held": False, "mulligan.line": line_of(job.lane)}},
            )
            for job in jobs
        ]
        written = await self.base.apply(changes)
        return [News(line_of(job.lane), job.due) for job in jobs if job.key in written]

    async def release(self, docs: Sequence[Doc]) -> list[list[News]]:
        """Free the permits of jobs as they were when they ended, in this order.

        Each job of a key lets go of the first held job of every lane, as if one ended after the
        other: also of one that was held then and ends after it. The news of each is returned in
        its place.
        """
        news: list[list[News]] = [[] for _ in docs]
        permits = []
        for doc, told in zip(docs, news, strict=True):
            private = doc["mulligan"]
            word = limits.permit_of(private.get("permit", ""), str(doc["_id"]))
            for key in permits_of(doc):
                permits.append((key, word))
                told.append(News(gate=key))
        await limits.free(self.base, permits)
        ended: dict[str, list[int]] = defaultdict(list)
        for at, doc in enumerate(docs):
            if (key := doc["mulligan"].get("key")) is not None:
                ended[key].append(at)
        if ended:
            await self._let_go(docs, ended, news)
        return news

    async def _let_go(
        self, docs: Sequence[Doc], ended: dict[str, list[int]], news: list[list[News]]
    ) -> None:
        waiting = await self.held(*ended)
        if not waiting:
            return
        states = await limits.read(self.base, [f"key:{key}" for key in ended])
        ending = {at: candidate(doc) for at, doc in enumerate(docs) if is_held(doc)}
        for key, places in ended.items():
            permit = f"key:{key}"
            frees = [permit in permits_of(docs[at]) for at in places]
            used = states[permit].used + sum(frees)
            held = [job for job in waiting if job.limit_key == key]
            held += [ending[at] for at in places if at in ending]
            for at, freed in zip(places, frees, strict=True):
                used -= freed
                held = [job for job in held if job is not ending.get(at)]
                first = first_of_each(held, used)
                held = [job for job in held if job not in first]
                news[at] += await self.stand(first)

    async def let_go_if_stuck(self, key: str) -> int:
        """Let a held job go where its key has room and none of its lane stands for it.

        That is so only if whoever freed the last permit died before letting one go, or freed it
        just before the job was set aside.
        """
        waiting = await self.held(key)
        used = (await limits.read(self.base, [f"key:{key}"]))[f"key:{key}"].used
        news: list[News] = []
        for job in first_of_each(waiting, used):
            standing = {
                "status": "pending",
                "mulligan.key": key,
                "mulligan.key_limit": job.limit,
                "mulligan.line": line_of(job.lane),
            }
            if await self.base.tasks.find_one(standing, {"_id": 1}) is None:
                news += await self.stand([job])
        await self.bells.ring(news)
        return len(news)


def is_held(doc: Doc) -> bool:
    """Whether the job was set aside for its key when this was read."""
    private = doc["mulligan"]
    return doc.get("status") == "pending" and private.get("held") is True and not damage_in(doc)
