"""The doctor: what an operator should know about this server, and what to do about it."""

from mulligan.core.finding import Finding
from mulligan.stores.mongo import inbox, schema
from mulligan.stores.mongo.base import DEFAULT_TASK, Base
from mulligan.stores.mongo.bells import Bells
from mulligan.stores.mongo.foreign import STATUSES

OLDEST = (4, 4)
SKEW = 1.0


async def examine(base: Base, bells: Bells) -> list[Finding]:
    """Look at version, write concern, change streams, clock, indexes and documents."""
    findings = [await version(base), write_concern(base), waking(bells), await skew(base)]
    wanted = schema.wanted(base)
    missing = [
        f"{collection.name}.{each.document['name']}"
        for collection, indexes in wanted
        for each in await schema.missing_from(collection, indexes)
    ]
    if missing:
        remedy = "run: mulligan migrate"
        findings.append(Finding("bad", f"indexes are missing: {', '.join(missing)}", remedy))
    else:
        findings.append(
            Finding("ok", f"all {sum(len(each) for _, each in wanted)} indexes are there", "")
        )
    return [*findings, *await default_task(base), *await left_alone(base)]


async def default_task(base: Base) -> list[Finding]:
    """What runs documents that name no task."""
    named = base.address.default_task
    stored = (await base.meta.find_one({"_id": DEFAULT_TASK}) or {}).get("task")
    if named is not None and stored is not None and named != stored:
        said = f"the URL names the default task {named!r}, and {stored!r} is stored for all others"
        remedy = f"leave it out of the URL, or delete {DEFAULT_TASK!r} from {base.meta.name}"
        return [Finding("warn", said, remedy)]
    task = named or stored
    return [Finding("ok", f"documents that name no task run {task!r}", "")] if task else []


async def left_alone(base: Base) -> list[Finding]:
    """How many documents are there that mulligan has nothing to do with."""
    await base.read_default_task()
    findings: list[Finding] = []
    name = base.tasks.name
    unended = {"status": {"$in": ["pending", "processing"]}}
    nameless = {**unended, "$nor": [inbox.NAMES_A_TASK, inbox.TAKEN_IN]}
    if base.default_task is None and (many := await base.tasks.count_documents(nameless)):
        said = f"{many} documents of {name} name no task, and there is no default task: left alone"
        remedy = "insert them with payload.task, or name default_task= in the URL of a worker"
        findings.append(Finding("warn", said, remedy))
    if many := await base.tasks.count_documents({"status": {"$nin": list(STATUSES)}}):
        said = f"{many} documents of {name} have another status than jobs have: left alone"
        remedy = f"give each a status of {', '.join(STATUSES)}, or name another collection="
        findings.append(Finding("warn", said, remedy))
    return findings


async def version(base: Base) -> Finding:
    """Whether the server is new enough."""
    build = await base.client.admin.command("buildInfo")
    number = tuple(build.get("versionArray", ())[:2])
    if number < OLDEST:
        return Finding(
            "bad", f"the server is version {build['version']}", "use MongoDB 4.4 or newer"
        )
    return Finding("ok", f"the server is version {build['version']}", "")


def write_concern(base: Base) -> Finding:
    """Whether an answered write survives the loss of a member."""
    concern = base.tasks.write_concern.document.get("w")
    if concern == "majority":
        return Finding("ok", "writes wait for a majority", "")
    remedy = "leave w= out of the URL, which means majority"
    return Finding(
        "warn", f"writes wait for w={concern}: a failover may lose answered ones", remedy
    )


def waking(bells: Bells) -> Finding:
    """How sleeping workers of other processes are woken."""
    if bells.waiting.streaming:
        return Finding("ok", "change streams wake sleeping workers", "")
    remedy = "run the server as a replica set to have change streams"
    return Finding("warn", "no change streams: sleeping workers look every 5 to 200 ms", remedy)


async def skew(base: Base) -> Finding:
    """How far this machine's clock is from the server's."""
    ahead = await base.measure()
    said = f"this machine's clock is {abs(ahead):.3f} s {'ahead of' if ahead > 0 else 'behind'}"
    said += " the server's, whose time decides"
    if abs(ahead) > SKEW:
        return Finding("warn", said, "synchronise the clocks (NTP)")
    return Finding("ok", said, "")
