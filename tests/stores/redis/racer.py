"""A process that claims and commits as fast as it can: `python -m tests.stores.redis.racer URL N`.

After each claim it adds the number of its jobs to a number that all racers share, and takes it away
before it commits: so that never says more than how many leases there are. When nothing is left it
prints the highest that it saw, and when each of its jobs started.
"""

import asyncio
import json
import os
import sys

from redis.asyncio import Redis

from mulligan.core.outcome import Returned
from mulligan.core.worker import Worker
from tests.contract.builders import claim, done
from tests.stores.redis.kit import key, opened


async def race(url: str, jobs: int) -> None:
    """Work until so many jobs are done in all; some are given back unstarted."""
    worker = Worker(f"racer-{os.getpid()}", "default", ("default",))
    highest, starts, given_back = 0, list[float | None](), set[str]()
    async with opened(url) as store, Redis.from_url(store._server.url.driver) as client:
        running, finished = key(store, "probe"), key(store, "probe-done")
        while int(await client.get(finished) or 0) < jobs:
            claimed = (await claim(store, demand=3, worker=worker)).claims
            count = len(claimed)
            highest = max(highest, await client.incrby(running, count) if count else 0)
            await client.decrby(running, count)
            back = [
                each for each in claimed if hash(each.id) % 7 == 0 and each.id not in given_back
            ]
            given_back.update(each.id for each in back)
            outcomes = [Returned(each.lease) if each in back else done(each) for each in claimed]
            verdicts = await store.commit(outcomes) if outcomes else []
            assert set(verdicts) <= {"written"}, verdicts
            starts += [each.started_at for each in claimed if each not in back]
            await client.incrby(finished, count - len(back))
    sys.stdout.write(json.dumps({"highest": highest, "starts": starts}))


if __name__ == "__main__":
    asyncio.run(race(sys.argv[1], int(sys.argv[2])))
