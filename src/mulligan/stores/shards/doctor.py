"""What an operator should know of the shards, and of each store by itself."""

from mulligan.core.finding import Finding
from mulligan.core.shards import HOME
from mulligan.stores.shards.connection import Shards


async def examine(shards: Shards) -> list[Finding]:
    """How many shards there are, which are away, and what each store says of itself."""
    findings: list[Finding] = []
    answers = await shards.each(lambda shard: shard.store.doctor())
    absent = [shard for shard in shards.all if shard.away is not None]
    if not absent:
        findings.append(Finding("ok", f"{shards.count} shards, all of which answer"))
    if homes := {home for home in shards.memory.limit_homes.values() if home != HOME}:
        told = ", ".join(map(str, sorted({HOME, *homes})))
        findings.append(Finding("ok", f"limits live in shards {told}"))
    findings += [
        Finding(
            "bad",
            f"shard {shard.number} ({shard.shown}) is away: {shard.away}",
            "bring it back; its jobs wait until then, and those of the others go on",
        )
        for shard in absent
    ]
    for number, found in answers:
        findings += [each._replace(sentence=f"shard {number}: {each.sentence}") for each in found]
    return findings
