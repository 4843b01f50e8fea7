"""What operators and housekeeping change: jobs, queues and notes."""

from collections.abc import Sequence

import msgspec

from mulligan.core.facts import QueueSettings
from mulligan.core.job import Adopted
from mulligan.stores.postgres.arrays import texts
from mulligan.stores.postgres.database import Database
from mulligan.stores.postgres.facts import RECENT
from mulligan.stores.postgres.fields import adopted_json, micros, plain


async def configure(database: Database, queue: str, settings: QueueSettings) -> None:
    """Store the settings of a queue."""
    encoded = msgspec.json.encode(settings).decode()
    await database.call("configure", in_queue=queue, in_settings=encoded)


async def pause(database: Database, queue: str, *, paused: bool) -> None:
    """Stop or resume claims from a queue."""
    await database.call("pause", in_queue=queue, in_paused=paused)


async def replay(database: Database, jobs: Sequence[str]) -> list[bool]:
    """Make failed jobs pending again."""
    [[answers]] = await database.call("replay", ids=texts(jobs))
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
