"""Leases and those who hold them, and the facts that all shards together give."""

from collections.abc import Sequence

from mulligan.core.answers import Beat
from mulligan.core.facts import Facts
from mulligan.core.job import Claim, Lease
from mulligan.core.shard_merge import merged_facts
from mulligan.core.shards import candidates
from mulligan.core.worker import Worker
from mulligan.stores.shards.beats import Beats
from mulligan.stores.shards.connection import Shard, Shards
from mulligan.stores.shards.locate import found_at
from mulligan.stores.shards.schema import check_not_grown


async def facts(shards: Shards) -> Facts:
    """The facts of all shards that answer."""
    return await together(shards, await shards.each(lambda shard: shard.store.facts()))


async def together(shards: Shards, known: Sequence[tuple[int, Facts]]) -> Facts:
    """The facts as one; of an absent shard the last known epoch counts."""
    memory = shards.memory
    before = memory.latest or (0,) * shards.count
    epochs = list(before)
    for number, each in known:
        epochs[number] = each.epoch
    epoch = memory.add_epochs(tuple(epochs))
    if memory.latest is not None and memory.latest != tuple(epochs):
        await check_not_grown(shards, [number for number, _ in known])
    memory.latest = tuple(epochs)
    return merged_facts([each for _, each in known], epoch)


async def beat(shards: Shards, beats: Beats, worker: Worker, holding: Sequence[Lease]) -> Beat:
    """Keep the worker's leases in all shards."""
    held: dict[int, list[Lease]] = {}
    for lease in holding:
        held.setdefault(shards.where(lease.job), []).append(lease)
    answers = await beats.answered(shards, worker, held)
    lost = [lease for _, beat in answers for lease in beat.lost]
    if lost:
        answered = {number for number, _ in answers}
        lost = [lease for lease in lost if not await is_held(shards, worker, lease, answered)]
    for number, answer in answers:
        for claim in answer.reclaimed:
            shards.memory.remember(claim.id, number, shards.layout)
        for lease in answer.forgotten:
            shards.memory.remember(lease.job, number, shards.layout)
    known = set(holding)
    return Beat(
        lost,
        await together(shards, [(number, beat.facts) for number, beat in answers]),
        [each for _, beat in answers for each in beat.forgotten if each not in known],
        [each for _, beat in answers for each in beat.reclaimed if each.lease not in known],
    )


async def is_held(shards: Shards, worker: Worker, lease: Lease, answered: set[int]) -> bool:
    """Whether the worker holds the lease in another shard than its id says, or perhaps does.

    Only those that have just answered are asked, so that no other holds up the beat.
    """
    if lease.job in shards.memory.elsewhere:
        return False
    asked = [each for each in candidates(lease.job, shards.layout) if each in answered]
    found = await found_at(shards, lease.job, asked)
    if found is None:
        return len(answered) < shards.count
    job = found[1]
    return job.status == "processing" and job.token == lease.token and job.worker == worker.id


async def reclaim(shards: Shards, limit: int, worker: Worker) -> list[Claim]:
    """Claim what dead workers held, in those shards whose turn it is, one after the other."""
    claims: list[Claim] = []

    async def take(shard: Shard) -> list[Claim]:
        return await shard.store.reclaim(limit - len(claims), worker)

    for shard in shards.in_turn("reclaim"):
        if len(claims) >= limit:
            break
        answer = await shards.tried(shard, take)
        found = [] if answer is None else answer[0]
        for claim in found:
            shards.memory.remember(claim.id, shard.number, shards.layout)
        claims += found
    return claims
