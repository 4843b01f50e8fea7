"""The doctor: what an operator should know about this server, and what to do about it."""

from typing import Literal

from mulligan.stores.mongo import schema
from mulligan.stores.mongo.base import Base
from mulligan.stores.mongo.bells import Bells

Finding = tuple[Literal["ok", "warn", "bad"], str, str]
OLDEST = (4, 4)
SKEW = 1.0


async def examine(base: Base, bells: Bells) -> list[Finding]:
    """Look at version, write concern, change streams, clock and indexes."""
    findings = [await version(base), write_concern(base), waking(bells), await skew(base)]
    wanted = schema.wanted(base)
    missing = [
        f"{collection.name}.{each.document['name']}"
        for collection, indexes in wanted
        for each in await schema.missing_from(collection, indexes)
    ]
    if missing:
        remedy = "run: mulligan migrate"
        findings.append(("bad", f"indexes are missing: {', '.join(missing)}", remedy))
    else:
        findings.append(("ok", f"all {sum(len(each) for _, each in wanted)} indexes are there", ""))
    return findings


async def version(base: Base) -> Finding:
    """Whether the server is new enough."""
    build = await base.client.admin.command("buildInfo")
    number = tuple(build.get("versionArray", ())[:2])
    if number < OLDEST:
        return ("bad", f"the server is version {build['version']}", "use MongoDB 4.4 or newer")
    return ("ok", f"the server is version {build['version']}", "")


def write_concern(base: Base) -> Finding:
    """Whether an answered write survives the loss of a member."""
    concern = base.tasks.write_concern.document.get("w")
    if concern == "majority":
        return ("ok", "writes wait for a majority", "")
    remedy = "leave w= out of the URL, which means majority"
    return ("warn", f"writes wait for w={concern}: a failover may lose answered ones", remedy)


def waking(bells: Bells) -> Finding:
    """How sleeping workers of other processes are woken."""
    if bells.waiting.streaming:
        return ("ok", "change streams wake sleeping workers", "")
    remedy = "run the server as a replica set to have change streams"
    return ("warn", "no change streams: sleeping workers look every 5 to 200 ms", remedy)


async def skew(base: Base) -> Finding:
    """How far this machine's clock is from the server's."""
    ahead = await base.measure()
    said = f"this machine's clock is {abs(ahead):.3f} s {'ahead of' if ahead > 0 else 'behind'}"
    said += " the server's, whose time decides"
    if abs(ahead) > SKEW:
        return ("warn", said, "synchronise the clocks (NTP)")
    return ("ok", said, "")
