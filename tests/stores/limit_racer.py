"""A process that runs jobs under limits beside others, writes down which, and may be killed.

Each line of the journal is `+ ID STARTED_AT WORKER` once a job is claimed, and `- ID` before its
outcome is sent: between the two it holds its permits.
"""

import asyncio
import os
import sys
from pathlib import Path
from random import Random

from mulligan.core.outcome import Done
from mulligan.core.worker import Worker
from mulligan.stores import make_store
from tests.contract.builders import FRESH, group, in_turn, walk


def racer(name: str) -> Worker:
    """Its lease does not run out by itself, however busy the machine is."""
    return Worker(name, "default", ("default",), name="racer", lease=3600.0)


async def race(url: str, name: str, journal: Path, total: int) -> None:
    """Work until so many jobs are done."""
    chance, me = Random(name), racer(name)
    store = make_store(url)
    await store.open()
    lines = os.open(journal, os.O_WRONLY | os.O_APPEND)
    while sum((await store.stats()).ended.values()) < total:
        claimed = (await walk(store, in_turn(chance.randint(1, 4), group(FRESH)), me)).claims
        for each in claimed:
            os.write(lines, f"+ {each.id} {each.started_at!r} {name}\n".encode())
        await asyncio.sleep(chance.uniform(0, 0.02))
        for each in claimed:
            os.write(lines, f"- {each.id}\n".encode())
        verdicts = await store.commit([Done(each.lease) for each in claimed])
        assert verdicts == ["written"] * len(claimed), verdicts
    await store.close()


if __name__ == "__main__":
    asyncio.run(race(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])))
