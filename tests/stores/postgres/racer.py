"""A process that claims and commits beside others, and dies if it sees a limit exceeded."""

import asyncio
import sys
from random import Random

from mulligan.core.outcome import Done, Outcome, Returned
from mulligan.core.worker import Worker
from mulligan.stores.postgres import pool
from tests.contract.builders import FRESH, group, in_turn, walk
from tests.stores.postgres.kit import connected, opened

RUNNING, RATE = 3, 12
TOTAL = 160
FEW = """
    SELECT count(*) FROM racing JOIN job USING (id) WHERE limits LIKE '%few%'"""


async def race(url: str, number: int) -> None:
    """Work until all is done."""
    pool.PASSING = frozenset(pool.PASSING - {"40P01"})  # a deadlock is an error here
    chance, me = Random(number), Worker(f"racer-{number}", "default", ("default",), name="racer")
    async with opened(url) as store:
        with connected(url) as beside:
            while sum((await store.stats()).ended.values()) < TOTAL:
                plan = in_turn(chance.randint(1, 9), group(FRESH))
                claimed = (await walk(store, plan, me)).claims
                for each in claimed:
                    beside.execute("INSERT INTO racing VALUES (%s, %s)", (each.id, each.started_at))
                [few] = beside.execute(FEW).fetchone() or (0,)
                assert few <= RUNNING, f"{few} run at a time"
                outcomes: list[Outcome] = []
                for each in claimed:
                    beside.execute("DELETE FROM racing WHERE id = %s", (each.id,))
                    if chance.random() < 0.2:
                        outcomes.append(Returned(each.lease))
                    else:
                        values = (each.id, each.started_at)
                        beside.execute("INSERT INTO started VALUES (%s, %s)", values)
                        outcomes.append(Done(each.lease))
                verdicts = await store.commit(outcomes)
                assert verdicts == ["written"] * len(claimed)
                if not claimed:
                    await asyncio.sleep(0.01)


if __name__ == "__main__":
    asyncio.run(race(sys.argv[1], int(sys.argv[2])))
