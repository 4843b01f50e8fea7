import argparse
import asyncio
import sys
import time

from tests.databases import RedisCluster, RedisSentinels
from tests.failover.run import Counted, run
from tests.failover.troubles import kill_a_primary, kill_the_primary, move_a_slot


def main() -> int:
    """Say on stderr what happens, on stdout what came of it; 1 if a job is lost that may not be."""
    parser = argparse.ArgumentParser(prog="python -m tests.failover")
    parser.add_argument("what", choices=("cluster", "sentinel"))
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--wait-replicas", type=int, default=1)
    asked = parser.parse_args()
    counted = asyncio.run(play(asked))
    print(
        f"{asked.what}, {asked.shards} shards, wait_replicas={asked.wait_replicas}:"
        f" accepted {counted.accepted}, done {counted.done}, lost {counted.lost},"
        f" run more than once {counted.again}, in {counted.seconds:.0f} s"
    )
    return int(asked.wait_replicas > 0 and counted.lost > 0)


async def play(asked: argparse.Namespace) -> Counted:
    """Start the servers, and let everything happen to them while jobs run."""
    began = time.monotonic()
    query = f"?shards={asked.shards}&wait_replicas={asked.wait_replicas}&wait_timeout=5"

    def say(sentence: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {sentence}", file=sys.stderr, flush=True)

    if asked.what == "cluster":
        with RedisCluster() as cluster:
            say(f"three primaries and three replicas: {cluster.hosts}")
            troubles = [kill_a_primary(cluster), move_a_slot(cluster)]
            url = f"{cluster.url}{query}"
            return await run(url, asked.jobs, troubles, workers=asked.workers, say=say)
    with RedisSentinels() as sentinels:
        say(f"a primary, a replica and three sentinels: {sentinels.url}")
        url, troubles = f"{sentinels.url}{query}", [kill_the_primary(sentinels)]
        return await run(url, asked.jobs, troubles, workers=asked.workers, say=say)


sys.exit(main())
