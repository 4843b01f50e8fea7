"""What happens to the servers of a run."""

import time
from collections.abc import Callable

from tests.databases import RedisCluster, RedisSentinels, RedisServer, Server
from tests.databases._server import LOOPBACK
from tests.failover.run import Say, Trouble

REPLACED_WITHIN = 60.0
# The first shard, and two others: their keys are in one slot each.
FIRST, SECOND, THIRD = "{mulligan}", "{mulligan:shard1}", "{mulligan:shard2}"


def kill_a_primary(
    cluster: RedisCluster, key: str = FIRST, *, cut: float = 0.0, shards: int = 0
) -> Trouble:
    """SIGKILL of the primary that holds the key; when it is replaced it comes back as a replica.

    Before that its replica is cut off for so long: what it accepts meanwhile is lost, and Redis
    itself is asked how many jobs of its shards it had, and how many the replica has.
    """

    def kill(say: Say) -> None:
        victim = cluster.holder(key)
        held = [each for each in keys_of(key, shards) if cluster.holder(each) is victim]
        if cut:
            cut_off(cluster, victim, cut)
            cluster.ask(victim, "CLIENT", "PAUSE", 60_000, "WRITE")
        had = stored(cluster, victim, held)
        before = time.monotonic()
        victim.kill()
        say(f"kill -9 of the primary at port {victim.port}, which holds {key}")
        wait(lambda: cluster.holder(key) is not victim)
        took, heir = time.monotonic() - before, cluster.holder(key)
        say(f"after {took:.1f} s its replica at port {heir.port} has taken over")
        if cut:
            left = stored(cluster, heir, held)
            say(f"cut off for {cut:g} s before: of {had} jobs it has {left}, {had - left} are lost")
        victim.start()
        cluster.until_whole()
        say(f"the server at port {victim.port} is back, as a replica")

    return kill


def keys_of(first: str, shards: int) -> list[str]:
    """The hash tags of so many shards, of which this is the first."""
    return [first, *(f"{first[:-1]}:shard{number}}}" for number in range(1, shards))]


def cut_off(cluster: RedisCluster, primary: RedisServer, seconds: float) -> None:
    """End the connection of the replica, which may not connect again, and let that last."""
    cluster.ask(primary, "ACL", "SETUSER", "default", "-psync", "-sync")
    cluster.ask(primary, "CLIENT", "KILL", "TYPE", "replica")
    time.sleep(seconds)


def stored(cluster: RedisCluster, server: RedisServer, keys: list[str]) -> int:
    """How many jobs the server has in these shards."""
    return sum([int(cluster.ask(server, "HLEN", f"{key}:jobs")) for key in keys])


def move_a_slot(cluster: RedisCluster, key: str = THIRD) -> Trouble:
    """Give the slot of the key to another primary, a few keys at a time."""

    def move(say: Say) -> None:
        old = cluster.holder(key)
        new = next(each for each in cluster.primaries() if each is not old)
        moved = cluster.move(key, new)
        say(f"the slot of {key} moved from port {old.port} to {new.port}, with {moved} keys")

    return move


def kill_the_primary(sentinels: RedisSentinels) -> Trouble:
    """SIGKILL of the primary; when sentinels have replaced it, it comes back as a replica."""

    def kill(say: Say) -> None:
        victim = sentinels.primary()
        before = time.monotonic()
        victim.kill()
        say(f"kill -9 of the primary at port {victim.port}")
        wait(lambda: sentinels.primary() is not victim)
        took = time.monotonic() - before
        primary = sentinels.primary()
        say(f"after {took:.1f} s sentinels name the server at port {primary.port}")
        # Sentinels would make it a replica themselves, but only after ten seconds or more.
        victim.further = {**victim.further, "replicaof": f"{LOOPBACK} {primary.port}"}
        victim.start()
        say(f"the server at port {victim.port} is back, as a replica")

    return kill


def stop_for(server: Server, seconds: float) -> Trouble:
    """SIGKILL of a server, which comes back with all that it had."""

    def stop(say: Say) -> None:
        server.kill()
        say(f"the server at port {server.port} is stopped")
        time.sleep(seconds)
        server.start()
        say(f"after {seconds:g} s it is started again")

    return stop


def wait(holds: Callable[[], bool]) -> None:
    """Until it holds."""
    until = time.monotonic() + REPLACED_WITHIN
    while not holds():
        assert time.monotonic() < until, "nobody has taken over"
        time.sleep(0.05)
