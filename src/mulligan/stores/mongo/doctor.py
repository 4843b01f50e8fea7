"""The doctor: what an operator should know about this server, and what to do about it."""

from mulligan.core.finding import Finding
from mulligan.stores.mongo import inbox, schema
from mulligan.stores.mongo.connection import DEFAULT_TASK, Connection
from mulligan.stores.mongo.document import STATUSES
from mulligan.stores.mongo.wakeup import Wakeup

OLDEST = (4, 4)
SKEW = 1.0


async def examine(connection: Connection, wakeup: Wakeup) -> list[Finding]:
    """Look at version, write concern, change streams, clock, indexes and documents."""
    findings = [
        await version(connection),
        write_concern(connection),
        waking(wakeup),
        await skew(connection),
    ]
    wanted = schema.wanted(connection)
    missing = [
        f"{collection.name}.{each.document['name']}"
        for collection, indexes in wanted
        for each in schema.missing_from(await schema.indexes_of(collection), indexes)
    ]
    if missing:
        remedy = "run: mulligan migrate"
        findings.append(Finding("bad", f"indexes are missing: {', '.join(missing)}", remedy))
    else:
        findings.append(
            Finding("ok", f"all {sum(len(each) for _, each in wanted)} indexes are there", "")
        )
    return [*findings, *await default_task(connection), *await left_alone(connection)]


async def default_task(connection: Connection) -> list[Finding]:
    """What runs documents that name no task."""
    named = connection.url.default_task
    stored = (await connection.meta.find_one({"_id": DEFAULT_TASK}) or {}).get("task")
    if named is not None and stored is not None and named != stored:
        said = f"the URL names the default task {named!r}, and {stored!r} is stored for all others"
        remedy = f"leave it out of the URL, or delete {DEFAULT_TASK!r} from {connection.meta.name}"
        return [Finding("warn", said, remedy)]
    task = named or stored
    return [Finding("ok", f"documents that name no task run {task!r}", "")] if task else []


async def left_alone(connection: Connection) -> list[Finding]:
    """How many documents are there that mulligan has nothing to do with."""
    await connection.read_default_task()
    findings: list[Finding] = []
    name = connection.tasks.name
    unended = {"status": {"$in": ["pending", "processing"]}}
    nameless = {**unended, "$nor": [inbox.NAMES_A_TASK, inbox.TAKEN_IN]}
    if connection.default_task is None and (
        many := await connection.tasks.count_documents(nameless)
    ):
        said = f"{many} documents of {name} name no task, and there is no default task: left alone"
        remedy = "insert them with payload.task, or name default_task= in the URL of a worker"
        findings.append(Finding("warn", said, remedy))
    if many := await connection.tasks.count_documents({"status": {"$nin": list(STATUSES)}}):
        said = f"{many} documents of {name} have another status than jobs have: left alone"
        remedy = f"give each a status of {', '.join(STATUSES)}, or name another collection="
        findings.append(Finding("warn", said, remedy))
    return findings


async def version(connection: Connection) -> Finding:
    """Whether the server is new enough."""
    build = await connection.client.admin.command("buildInfo")
    number = tuple(build.get("versionArray", ())[:2])
    if number < OLDEST:
        return Finding(
            "bad", f"the server is version {build['version']}", "use MongoDB 4.4 or newer"
        )
    return Finding("ok", f"the server is version {build['version']}", "")


def write_concern(connection: Connection) -> Finding:
    """Whether an answered write survives the loss of a member."""
    concern = connection.tasks.write_concern.document.get("w")
    if concern == "majority":
        return Finding("ok", "writes wait for a majority", "")
    remedy = "leave w= out of the URL, which means majority"
    return Finding(
        "warn", f"writes wait for w={concern}: a failover may lose answered ones", remedy
    )


def waking(wakeup: Wakeup) -> Finding:
    """How sleeping workers of other processes are woken."""
    if wakeup.local.streaming:
        return Finding("ok", "change streams wake sleeping workers", "")
    remedy = "run the server as a replica set to have change streams"
    return Finding("warn", "no change streams: sleeping workers look every 5 to 200 ms", remedy)


async def skew(connection: Connection) -> Finding:
    """How far this machine's clock is from the server's."""
    ahead = await connection.measure()
    said = f"this machine's clock is {abs(ahead):.3f} s {'ahead of' if ahead > 0 else 'behind'}"
    said += " the server's, whose time decides"
    if abs(ahead) > SKEW:
        return Finding("warn", said, "synchronise the clocks (NTP)")
    return Finding("ok", said, "")
