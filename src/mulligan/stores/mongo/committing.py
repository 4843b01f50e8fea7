"""Commits: one fenced write a job, and then what follows from it."""

from collections.abc import Mapping, Sequence

from pymongo.errors import BulkWriteError

from mulligan.core.job import Lease
from mulligan.core.outcome import Cancelled, Dead, Done, Outcome, Verdict
from mulligan.stores.mongo.base import Base, Doc
from mulligan.stores.mongo.bells import Bells, News, news_of
from mulligan.stores.mongo.dead import move_dead
from mulligan.stores.mongo.delivering import deliver, write_where_free
from mulligan.stores.mongo.documents import LEAN, held_by_us, last_written, private_of
from mulligan.stores.mongo.gathering import Gathering
from mulligan.stores.mongo.keys import Keys
from mulligan.stores.mongo.leases import Leases
from mulligan.stores.mongo.mending import mend
from mulligan.stores.mongo.outbox import set_beside, take_away
from mulligan.stores.mongo.outcomes import Moment, Write, numbers_needed
from mulligan.stores.mongo.unique import key_of, word_of

# An outcome whose lease is still held, with its place in the batch and its job as it was.
Valid = tuple[int, Outcome, Doc]


class Committing:
    """How outcomes are written."""

    def __init__(
        self, base: Base, bells: Bells, keys: Keys, gathering: Gathering, leases: Leases
    ) -> None:
        self.base = base
        self.bells = bells
        self.keys = keys
        self.gathering = gathering
        self.leases = leases

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        """Write what is still held; see the contract."""
        now = await self.base.now()
        docs = await self.documents([outcome.lease for outcome in outcomes])
        verdicts, valid = sort_out(outcomes, docs)
        together = at_once(valid)
        needed = sum(numbers_needed(outcome, doc) for _, outcome, doc in together)
        moment = Moment(now, await self.base.numbers(needed))
        writes = [moment.plan(*each) for each in together]
        keys = await self.write(writes)
        written = [write for write in writes if write.change.key in keys]
        for write in written:
            verdicts[write.place] = "written"
        await self.follow(written)
        missed = {outcomes[w.place].lease.job for w in writes if w.change.key not in keys}
        later = {outcome.lease.job for _, outcome, _ in valid[len(together) :]}
        # Whatever else the batch holds for these jobs is judged anew as well.
        left = [place for place, each in enumerate(outcomes) if each.lease.job in missed | later]
        if left:
            again = await self.commit([outcomes[place] for place in left])
            for place, verdict in zip(left, again, strict=True):
                verdicts[place] = verdict
        return verdicts

    async def documents(self, leases: Sequence[Lease]) -> dict[str, Doc]:
        """The documents of these jobs: as they were claimed if that was here, else as they are."""
        claimed = self.leases.take(leases)
        others = [lease.job for lease in leases if lease.job not in claimed]
        return claimed | await self.base.find(others, LEAN)

    async def write(self, writes: list[Write]) -> set[object]:
        """Write what is still held; returns the keys of that."""
        await self.base.know(each.line for w in writes for each in w.news)
        await set_beside(self.base, [box for w in writes for box in w.boxes])
        changes = [w.change for w in writes]
        try:
            written = await write_where_free(self.base, changes)
        except BulkWriteError:
            if not await mend(self.base, changes):
                raise
            written = await write_where_free(self.base, changes)
        missed = [w for w in writes if w.change.key not in written]
        await take_away(self.base, [box for w in missed for box in w.boxes])
        return written

    async def follow(self, written: list[Write]) -> None:
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


def sort_out(
    outcomes: Sequence[Outcome], docs: Mapping[str, Doc]
) -> tuple[list[Verdict], list[Valid]]:
    """The verdicts if nothing is written, and what is to be written, each with its place.

    Of two outcomes for one job, the second is judged as if the first had been written.
    """
    verdicts: list[Verdict] = ["stale"] * len(outcomes)
    valid: dict[str, Valid] = {}
    for place, outcome in enumerate(outcomes):
        job, token = outcome.lease
        doc = docs.get(job)
        if doc is None or "token" not in private_of(doc):
            continue
        newest = doc["mulligan"]["token"]
        if job not in valid and token == newest and held_by_us(doc):
            valid[job] = (place, outcome, doc)
        elif token == (newest if job in valid else last_written(doc)):
            verdicts[place] = "already"
    return verdicts, list(valid.values())


def at_once(valid: list[Valid]) -> list[Valid]:
    """The first of these, as many as may be written together: the next jobs come after all of it.

    What makes room for a next job of one before it, or arrives there, must wait until that is
    stored.
    """
    keys: set[str] = set()
    gathering: set[str] = set()
    for at, (_, outcome, doc) in enumerate(valid):
        gather = doc["mulligan"].get("gather")
        # Who awaits a cancelled job is cancelled as well, and may have any key.
        cancels = gather is not None and isinstance(outcome, Cancelled)
        if key_of(doc) in keys or gather in gathering or (keys and cancels):
            return valid[:at]
        for job in outcome.next if isinstance(outcome, Done | Dead) else ():
            if job.unique_key is not None:
                keys.add(word_of(job.key_queue, job.unique_key))
            if job.awaits:
                gathering.add(job.id)
    return valid
