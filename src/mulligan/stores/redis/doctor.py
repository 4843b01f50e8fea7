"""What an operator should know of a server before trusting jobs to it."""

import re
import time
from typing import Any

from mulligan.core.errors import StoreError
from mulligan.core.finding import Finding
from mulligan.stores.redis.connection import Server

OLDEST = (6, 2)
# From this on, a script that only reads needs no right to write.
KNOWS_READERS = (7, 0)
SKEW_SECONDS = 1.0


async def examine(server: Server) -> list[Finding]:
    """Look at version, memory, persistence, clock and permissions; (level, sentence, remedy)."""
    info = parse_info(await server.command("INFO"))
    return [
        version_finding(info),
        memory_finding(info),
        *persistence_findings(info, await setting(server, "appendfsync")),
        *(await failover_findings(server, info) if server.nodes.is_several else ()),
        await clock_finding(server),
        await permission_finding(server),
    ]


def version_of(info: dict[str, str]) -> tuple[int, ...]:
    """The version that the server is compatible with; Valkey counts as Redis 7.2."""
    return tuple(int(part) for part in re.findall(r"\d+", info.get("redis_version", "0"))[:2])


def version_finding(info: dict[str, str]) -> Finding:
    """Whether the server has the commands that the scripts use."""
    shown = info.get("redis_version", "unknown")
    if version_of(info) < OLDEST:
        return Finding(
            "bad", f"the server's version is {shown}", "use Redis 6.2 or later, or Valkey"
        )
    return Finding("ok", f"the server's version is {shown}", "")


def memory_finding(info: dict[str, str]) -> Finding:
    """Whether the server would rather refuse a job than drop one."""
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        return Finding(
            "bad",
            f"maxmemory-policy is {policy}: a full server drops jobs without a word",
            "CONFIG SET maxmemory-policy noeviction",
        )
    if info.get("maxmemory", "0") == "0":
        return Finding(
            "warn",
            "maxmemory is not set: a full server is killed by its system",
            "CONFIG SET maxmemory to what the machine can spare",
        )
    return Finding("ok", "a full server refuses new jobs and keeps those it has", "")


def persistence_findings(info: dict[str, str], fsync: str | None) -> list[Finding]:
    """What a crash of the server would cost."""
    if info.get("aof_enabled") != "1":
        return [
            Finding(
                "warn",
                "appendonly is off: a crash loses what came after the last snapshot",
                "CONFIG SET appendonly yes",
            )
        ]
    if fsync == "no":
        remedy = "CONFIG SET appendfsync everysec"
        return [Finding("warn", "appendfsync is no: a power cut may lose half a minute", remedy)]
    lost = "nothing" if fsync == "always" else "up to a second"
    return [Finding("ok", f"the append-only file is on: a power cut loses {lost}", "")]


async def failover_findings(server: Server, info: dict[str, str]) -> list[Finding]:
    """Who has the keys in a cluster or behind sentinels, and what is lost when it dies."""
    host, port = server.nodes.holder or ("?", 0)
    who = "sentinels name" if server.url.service else "the keys are in one slot of"
    whom = f"{host}:{port}" + (" as the primary" if server.url.service else "")
    findings = [
        Finding("ok", f"{who} {whom}", ""),
        replica_finding(server.url.wait_replicas, int(info.get("connected_slaves", "0"))),
    ]
    if await setting(server, "cluster-require-full-coverage") == "yes" and not server.url.service:
        findings.append(
            Finding(
                "warn",
                "cluster-require-full-coverage is yes: when one primary is away, all others refuse"
                " as well",
                "CONFIG SET cluster-require-full-coverage no, on every node",
            )
        )
    return findings


def replica_finding(waited_for: int, connected: int) -> Finding:
    """What a failover would lose."""
    has = f"the primary has {connected} replica{'' if connected == 1 else 's'}"
    if waited_for > connected:
        return Finding(
            "bad",
            f"{has}, and wait_replicas is {waited_for}: no write counts as done",
            "bring the others back, or lower wait_replicas",
        )
    if not connected:
        return Finding(
            "warn", f"{has}: its jobs wait while it is away", "give each primary a replica"
        )
    if not waited_for:
        return Finding(
            "warn",
            f"{has}, and wait_replicas is 0: a failover loses what they had not received",
            "add wait_replicas=1 to the store's URL",
        )
    return Finding("ok", f"{has}, and writes wait for {waited_for}: a failover loses nothing", "")


async def clock_finding(server: Server) -> Finding:
    """Whether the server's clock, which decides, agrees with this machine's."""
    before = time.time()
    seconds, micros = await server.command("TIME")
    here = (before + time.time()) / 2
    skew = int(seconds) + int(micros) / 1e6 - here
    if abs(skew) > SKEW_SECONDS:
        return Finding(
            "warn",
            f"the server's clock is {skew:+.1f} s from this machine's; the server's decides",
            "let both follow the same time server",
        )
    return Finding("ok", "the server's clock agrees with this machine's", "")


async def permission_finding(server: Server) -> Finding:
    """Whether this user may run scripts on these keys; a probe shows whether it may write."""
    try:
        await server.read("facts", "")
    except StoreError as error:
        return Finding(
            "bad",
            f"this user may not read by mulligan's scripts: {error}",
            f"ACL SETUSER … ~{server.url.tag}:* +@all -@admin -@dangerous +info",
        )
    return Finding("ok", "this user may read by mulligan's scripts", "")


async def setting(server: Server, name: str) -> str | None:
    """A setting of the server, None where it may not be read."""
    try:
        answer: Any = await server.command("CONFIG", "GET", name)
    except StoreError:
        return None
    if isinstance(answer, dict):
        return str(answer.get(name))
    return answer[1].decode() if answer else None


def parse_info(answer: Any) -> dict[str, str]:
    """The fields of INFO, whether or not the driver has read them already."""
    if isinstance(answer, dict):
        return {key: str(value) for key, value in answer.items()}
    lines = answer.decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)
