import argparse
import asyncio
import sys
import time

from tests.databases import PostgresServer, RedisCluster, RedisSentinels
from tests.failover.run import Counted, Trouble, run
from tests.failover.troubles import kill_a_primary, kill_the_primary, move_a_slot, stop_for


def main() -> int:
    """Say on stderr what happens, on stdout what came of it; 1 if a job is lost that may not be."""
    parser = argparse.ArgumentParser(prog="python -m tests.failover")
    parser.add_argument("what", choices=("cluster", "sentinel", "postgres"))
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--wait-replicas", type=int, default=1)
    parser.add_argument(
        "--cut", type=float, default=0.0, help="seconds that the killed primary has no replica"
    )
    parser.add_argument("--away", type=float, default=60.0, help="seconds, of PostgreSQL")
    asked = parser.parse_args()
    counted = asyncio.run(play(asked))
    how = f"wait_replicas={asked.wait_replicas}"
    if asked.what == "postgres":
        how = f"one of three servers away for {asked.away:g} s"
    print(
        f"{asked.what}, {how}: accepted {counted.accepted}, done {counted.done},"
        f" lost {counted.lost}, run more than once {counted.again}, in {counted.seconds:.0f} s"
    )
    return int(asked.wait_replicas > 0 and counted.lost > 0)


async def play(asked: argparse.Namespace) -> Counted:
    """Start the servers, and let everything happen to them while jobs run."""
    began = time.monotonic()
    query = f"?shards={asked.shards}&wait_replicas={asked.wait_replicas}&wait_timeout=5"

    def say(sentence: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {sentence}", file=sys.stderr, flush=True)

    async def go(url: str, troubles: list[Trouble], shards: int = asked.shards) -> Counted:
        return await run(url, asked.jobs, troubles, shards=shards, workers=asked.workers, say=say)

    if asked.what == "cluster":
        with RedisCluster() as cluster:
            say(f"three primaries and three replicas: {cluster.hosts}")
            kill = kill_a_primary(cluster, cut=asked.cut, shards=asked.shards)
            troubles = [kill, move_a_slot(cluster)]
            return await go(f"{cluster.url}{query}", troubles)
    if asked.what == "sentinel":
        with RedisSentinels() as sentinels:
            say(f"a primary, a replica and three sentinels: {sentinels.url}")
            return await go(f"{sentinels.url}{query}", [kill_the_primary(sentinels)])
    with PostgresServer() as one, PostgresServer() as two, PostgresServer() as three:
        url = " ".join(each.url for each in (one, two, three))
        say(f"three servers: {url}")
        return await go(url, [stop_for(three, asked.away)], 3)


sys.exit(main())
