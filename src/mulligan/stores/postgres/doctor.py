"""The doctor: what could go wrong on this server, and what to do about it."""

import time
from typing import Any

from mulligan.core.errors import StoreError
from mulligan.core.finding import Finding
from mulligan.stores.postgres.pool import Pool
from mulligan.stores.postgres.schema import ENCODING, OLDEST_SERVER
from mulligan.stores.postgres.wakeup import Sleepers

SKEW = 1.0
DEAD_SHARE = 0.5
DEAD_FEW = 50_000
INDEXES = {
    *("job_pkey", "job_unique", "job_dead", "waiting_lane", "waiting_line", "waiting_expires"),
    *("line_pkey", "line_name", "line_later", "line_ready", "line_waiting", "alarm_pkey"),
    *("lined_lane_pkey", "lined_lane_lane_key", "fairness_key_pkey", "fairness_key_turn"),
    *("fairness_key_idle", "alarm_at", "named_limit_pkey", "limit_state_pkey"),
    *("claimed_pkey", "claimed_worker", "ended_at", "attempt_pkey", "arrival_pkey", "start_pkey"),
    *("recorded_pkey", "debounce_lock_pkey"),
    *("count_recent_pkey", "count_recent_start", "kept_pkey"),
}

SERVER = """
SELECT current_setting('server_version_num')::integer, current_setting('server_version'),
       current_setting('server_encoding'),
       current_setting('synchronous_commit'), current_setting('autovacuum'),
       extract(epoch FROM clock_timestamp())::float8,
       has_schema_privilege(%s::text, 'USAGE'),
       (SELECT coalesce(bool_and(has_table_privilege(c.oid, 'SELECT')), false)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = %s::text AND c.relkind = 'r'),
       (SELECT coalesce(bool_and(has_table_privilege(c.oid, 'INSERT')
                                 AND has_table_privilege(c.oid, 'UPDATE')
                                 AND has_table_privilege(c.oid, 'DELETE')), false)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = %s::text AND c.relkind = 'r'),
       (SELECT coalesce(bool_and(pg_has_role(c.relowner, 'USAGE')), false)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = %s::text AND c.relkind = 'r')
"""
VALID = """
SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s::text AND i.indisvalid
"""
DEAD = """
SELECT relname, n_live_tup, n_dead_tup FROM pg_stat_user_tables
WHERE schemaname = %s::text AND relname IN ('job', 'waiting', 'attempt')
"""
OLDEST_TRANSACTION = """
SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8
FROM pg_stat_activity WHERE state <> 'idle' AND pid <> pg_backend_pid()
"""


async def examine(pool: Pool, sleepers: Sleepers) -> list[Finding]:
    """Look at everything once; raises StoreUnavailableError if the server cannot be reached."""
    schema = pool.url.schema
    before = time.time()
    [row] = await pool.run(SERVER, (schema,) * 4)
    clock = (before + time.time()) / 2
    findings = list(_server(*row, clock=clock))
    valid = {name for [name] in await pool.run(VALID, (schema,))}
    findings.append(_indexes(INDEXES - valid))
    findings += [_dead(*table) for table in await pool.run(DEAD, (schema,))]
    findings.append(_transactions(*(await pool.run(OLDEST_TRANSACTION))[0]))
    findings.append(await _listens(pool, sleepers))
    return findings


def _server(*facts: Any, clock: float) -> list[Finding]:
    number, version, encoding, sync, autovacuum, now, usage, reads, writes, owner = facts
    skew = abs(now - clock)
    return [
        Finding("ok", f"PostgreSQL {version}", "")
        if number >= OLDEST_SERVER
        else Finding("bad", f"PostgreSQL {version} is too old", "upgrade to 13 or later"),
        Finding("ok", f"the database is encoded in {ENCODING}", "")
        if encoding == ENCODING
        else Finding(
            "bad",
            f"the database is encoded in {encoding}: not every text can be stored and read",
            f"CREATE DATABASE … ENCODING '{ENCODING}' TEMPLATE template0, and use that",
        ),
        _privileges(reads=usage and reads, writes=usage and writes),
        Finding("ok", "the role owns the tables", "")
        if owner
        else Finding(
            "warn",
            "the role does not own the tables: it can neither migrate nor sweep them",
            "let the owner run `mulligan migrate`, and autovacuum do the sweeping",
        ),
        Finding("ok", f"clocks differ by {skew:.3f} s", "")
        if skew < SKEW
        else Finding(
            "warn", f"clocks differ by {skew:.1f} s", "run NTP on both; the server's decides"
        ),
        Finding("ok", "synchronous_commit is on: what was committed survives a crash", "")
        if sync != "off"
        else Finding(
            "warn",
            "synchronous_commit is off: the last moments before a crash may be lost",
            "set synchronous_commit = on",
        ),
        Finding("ok", "autovacuum is on", "")
        if autovacuum == "on"
        else Finding("bad", "autovacuum is off: tables will grow", "set autovacuum = on"),
    ]


def _privileges(*, reads: bool, writes: bool) -> Finding:
    remedy = "GRANT USAGE and table privileges to it"
    if reads and writes:
        return Finding("ok", "the role may read and write every table", "")
    if reads:
        return Finding(
            "warn", "the role may only read: enough to look, not to enqueue or work", remedy
        )
    return Finding("bad", "the role may not read every table", remedy)


def _indexes(missing: set[str]) -> Finding:
    if not missing:
        return Finding("ok", "every index is there and valid", "")
    names = ", ".join(sorted(missing))
    return Finding(
        "bad", f"missing or invalid: {names}", "REINDEX them, or restore them from the schema"
    )


def _dead(table: str, live: int, dead: int) -> Finding:
    if dead > DEAD_FEW and dead > DEAD_SHARE * (live + dead):
        share = dead / (live + dead)
        return Finding(
            "warn",
            f"{share:.0%} of the rows of {table} are dead",
            "look for old transactions that keep VACUUM from removing them",
        )
    return Finding("ok", f"{table}: {live} rows, {dead} dead", "")


def _transactions(age: float) -> Finding:
    if age > 3600:  # noqa: PLR2004 - an hour
        return Finding(
            "warn",
            f"a transaction has been open for {age / 60:.0f} minutes: no dead row can go",
            "end it; see pg_stat_activity",
        )
    return Finding("ok", "no transaction has been open for long", "")


async def _listens(pool: Pool, sleepers: Sleepers) -> Finding:
    if not pool.url.listen:
        return Finding(
            "warn", "listen=off: workers poll", "drop listen=off where there is no pooler"
        )
    try:
        works = sleepers.listen and await sleepers.test()
    except StoreError:
        works = False
    if works:
        return Finding("ok", "LISTEN works: workers are woken at once", "")
    return Finding(
        "warn",
        "notifications do not arrive: a pooler in transaction mode? Workers poll",
        "connect workers directly, or through a pool in session mode",
    )
