"""What operators, housekeeping and reports change: jobs, queues, notes, counts; and the facts."""

from collections.abc import Sequence
from typing import Any

import msgspec

from mulligan.core.counts import Count, Counts
from mulligan.core.facts import Facts, QueueSettings, Region, read_settings
from mulligan.core.health import SLOT, WINDOW, Breaker, Health, changes_plans
from mulligan.core.job import Adopted
from mulligan.stores.postgres.arrays import numbers, texts
from mulligan.stores.postgres.database import Database
from mulligan.stores.postgres.fields import adopted_json, micros, plain

# For how long counts say something.
RECENT = micros(WINDOW)


async def configure(database: Database, queue: str, settings: QueueSettings) -> None:
    """Store the settings of a queue."""
    encoded = msgspec.json.encode(settings).decode()
    await database.call("configure", in_queue=queue, in_settings=encoded)


async def pause(database: Database, queue: str, *, paused: bool) -> None:
    """Stop or resume claims from a queue."""
    await database.call("pause", in_queue=queue, in_paused=paused)


async def replay(database: Database, jobs: Sequence[str], *, from_start: bool) -> list[bool]:
    """Make failed jobs pending again."""
    [[answers]] = await database.call("replay", ids=texts(jobs), from_start=from_start)
    return list(answers)


async def cancel(database: Database, jobs: Sequence[str], reason: str) -> list[bool]:
    """End pending and running jobs."""
    [[answers]] = await database.call_counting("cancel", ids=texts(jobs), reason=plain(reason))
    return list(answers)


async def adopt(database: Database, jobs: Sequence[Adopted]) -> list[bool]:
    """Take over jobs of another store as they are."""
    [[answers]] = await database.call("adopt", jobs=adopted_json(jobs))
    return list(answers)


async def purge(database: Database, jobs: Sequence[str]) -> list[bool]:
    """Delete jobs that have ended."""
    [[answers]] = await database.call("purge", ids=texts(jobs))
    return list(answers)


async def promote(database: Database, limit: int) -> int:
    """End what expired, and wake sleepers for what fell due."""
    [[many]] = await database.call("promote", most=limit)
    return int(many)


async def prune(database: Database, keep_done: float, limit: int) -> int:
    """Delete what is past its time; how many jobs."""
    [[many]] = await database.call("prune", keep=micros(keep_done), most=limit, recent=RECENT)
    return int(many)


async def note(database: Database, key: str, value: bytes | None, keep: float) -> None:
    """Keep a value under this key for so many seconds; None forgets it."""
    await database.call("note", in_key=key, in_value=value, keep=micros(keep))


async def notes(database: Database, prefix: str) -> dict[str, bytes]:
    """The values kept under keys that begin so."""
    return dict(await database.call("notes", prefix=prefix))


async def facts(database: Database) -> Facts:
    """What plans are made from."""
    [row] = await database.call("facts", recent=RECENT)
    return read_facts(row)


async def count(database: Database, counts: Sequence[Count]) -> dict[tuple[str, str], Health]:
    """Add to what is counted; returns the health of the queues and regions named."""
    if not counts:
        return {}
    queues, regions, names, values = zip(*counts, strict=True)
    [[document]] = await database.call(
        "count",
        slot_length=micros(SLOT),
        recent=RECENT,
        queues=texts(queues),
        regions=texts(regions),
        names=texts(names),
        amounts=numbers(values),
    )
    return read_health(document)


async def counts(database: Database) -> Counts:
    """All that was counted."""
    rows = await database.call("counts", recent=RECENT)
    ever = {(queue, region, name): value for queue, region, name, value, _ in rows}
    recent = {(queue, region, name): value for queue, region, name, _, value in rows}
    return Counts(ever, {key: value for key, value in recent.items() if value is not None})


async def switch(
    database: Database, queue: str, region: str, before: Breaker, after: Breaker
) -> bool:
    """Replace a breaker if it is still as it was."""
    [[done]] = await database.call(
        "switch",
        in_queue=queue,
        in_region=region,
        was_open=before.open,
        was_since=micros(before.since),
        had_probes=before.probes,
        was_probed_at=micros(before.probed_at),
        to_open=after.open,
        to_probes=after.probes,
        to_probed_at=micros(after.probed_at),
        replans=changes_plans(before, after),
    )
    return bool(done)


def read_facts(row: Sequence[Any]) -> Facts:
    """The facts as `facts` gives them, and `beat` in the end."""
    epoch, queues, regions, paused, health, now = row
    return Facts(
        epoch,
        {name: read_settings(name, settings) for name, settings in queues.items()},
        tuple(Region(name, frozenset(serves)) for name, serves in sorted(regions.items())),
        frozenset(paused),
        read_health(health),
        now / 1e6,
    )


def read_health(document: list[Any]) -> dict[tuple[str, str], Health]:
    """The document of `health`."""
    return {
        (queue, region): Health(
            int(good), int(bad), Breaker(is_open, since / 1e6, probes, probed_at / 1e6)
        )
        for queue, region, good, bad, is_open, since, probes, probed_at in document
    }
