"""A process that claims and never commits: `python -m tests.stores.redis.holder URL DEMAND LEASE`.

It prints how many jobs it holds, and then waits to be killed.
"""

import asyncio
import os
import sys

from mulligan.core.worker import Worker
from tests.contract.builders import claim
from tests.stores.redis.kit import opened


async def hold(url: str, demand: int, lease: float) -> None:
    """Claim once, say how many jobs that gave, and keep them."""
    worker = Worker(f"holder-{os.getpid()}", lease=lease)
    async with opened(url) as store:
        claimed = await claim(store, demand=demand, worker=worker)
        sys.stdout.write(f"{len(claimed.claims)}\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(hold(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
