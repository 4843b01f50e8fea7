"""The calls that the store makes, each written once: its parameters by name, each with its type."""

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from msgspec import Struct
from psycopg import sql

from mulligan.stores.postgres import fields
from mulligan.stores.postgres.url import ended_key

# In milliseconds: as long as an event loop may be held up by what else it does.
HURRY = 10_000


class CompositeType(Struct, frozen=True):
    """A composite type that functions take: many values, each by its name."""

    name: str
    fields: dict[str, str]

    @property
    def created(self) -> str:
        """The statement that makes it."""
        columns = ", ".join(f"{name} {kind}" for name, kind in self.fields.items())
        return f"CREATE TYPE {self.name} AS ({columns});"

    def values(self, given: Mapping[str, Any]) -> tuple[Any, ...]:
        """The values in the order of the type."""
        return tuple([given[name] for name in self.fields])


# What each of them means is said by the functions that take it: enqueue.sql, claim.sql, commit.sql.
NEW_JOBS = CompositeType("new_jobs", fields.NEW_JOBS)
PLAN = CompositeType(
    "claim_plan",
    {
        "epoch": "integer",
        "demand": "integer",
        "lanes": "text[]",
        "waits": "bigint[]",
        "yields": "boolean[]",
        "lanes_repeat": "boolean",
        "tier_last": "integer[]",
        "group_last": "integer[]",
        "step_group": "integer[]",
        "step_until": "integer[]",
        "step_share": "bigint[]",
        "step_carry": "bigint[]",
        "step_of": "text[]",
        "limited_source": "integer[]",
        "source_limit": "integer[]",
        "limit_key": "integer[]",
        "limit_is_cap": "boolean[]",
        "limit_most": "integer[]",
        "limit_per": "bigint[]",
        "limit_ratio": "float8[]",
        "limit_of": "integer[]",
        "limit_keys": "text[]",
        "turn_steps": "jsonb",
    },
)
OUTCOMES = CompositeType(
    "outcomes",
    {
        "kind": "smallint[]",
        "id": "text[]",
        "token": "bigint[]",
        "result": "bytea[]",
        "delay": "bigint[]",
        "scope": "text[]",
        "priority": "smallint[]",
        "failure": "jsonb[]",
        "reason": "text[]",
        "trail": "text[]",
        "free": "boolean[]",
        "limits": "text[]",
        "fairness_key": "text[]",
        "use": "jsonb[]",
        "hands_on": "boolean[]",
    },
)
COMPOSITE_TYPES = (NEW_JOBS, PLAN, OUTCOMES)

Parameters = dict[str, str | CompositeType]
GIVEN: Parameters = {"given": "bigint"}

CALLS: dict[str, Parameters] = {
    "receive": GIVEN | {"jobs": NEW_JOBS},
    "accept_one": {**GIVEN, **fields.ONE_JOB},
    "enqueue_in": GIVEN | {"jobs": NEW_JOBS},
    "claim": GIVEN | {"self": "jsonb", "channel": "text", "plan": PLAN},
    "finish": GIVEN | {"ids": "text[]", "tokens": "bigint[]", "results": "bytea[]"},
    "finish_and_tell": GIVEN
    | {
        "ids": "text[]",
        "tokens": "bigint[]",
        "results": "bytea[]",
        "watch_key": "bigint",
        "told": "text",
    },
    "commit": GIVEN
    | {
        "outcomes": OUTCOMES,
        "history_limit": "integer",
        "parents": "integer[]",
        "following": NEW_JOBS,
    },
    "lock_leases": {"ids": "text[]"},
    "begin_sink": {"in_id": "text", "in_token": "bigint"},
    "still_in_sink": {"in_id": "text"},
    "beat": GIVEN | {"recent": "bigint", "self": "jsonb", "ids": "text[]", "tokens": "bigint[]"},
    "leave": GIVEN | {"in_worker": "text"},
    "reclaim": GIVEN | {"self": "jsonb", "most": "integer"},
    "reclaimed": {"ids": "text[]"},
    "promote": GIVEN | {"most": "integer"},
    "prune": GIVEN | {"keep": "bigint", "most": "integer", "recent": "bigint"},
    "look": GIVEN | {"in_worker": "text", "known": "boolean", "overdue": "bigint"},
    "facts": GIVEN | {"recent": "bigint"},
    "configure": {"in_queue": "text", "in_settings": "text"},
    "pause": {"in_queue": "text", "in_paused": "boolean"},
    "set_limit": GIVEN | {"in_name": "text", "in_limit": "text", "in_declared": "boolean"},
    "pause_limit": GIVEN | {"in_name": "text", "length": "bigint", "at_least": "boolean"},
    "spend": GIVEN | {"in_name": "text", "cost": "bigint"},
    "limits": GIVEN | {"most": "integer"},
    "keys": {"in_queue": "text", "most": "integer"},
    "count": GIVEN
    | {
        "slot_length": "bigint",
        "recent": "bigint",
        "queues": "text[]",
        "regions": "text[]",
        "names": "text[]",
        "amounts": "float8[]",
    },
    "counts": GIVEN | {"recent": "bigint"},
    "switch": GIVEN
    | {
        "in_queue": "text",
        "in_region": "text",
        "was_open": "boolean",
        "was_since": "bigint",
        "had_probes": "integer",
        "was_probed_at": "bigint",
        "to_open": "boolean",
        "to_probes": "integer",
        "to_probed_at": "bigint",
        "replans": "boolean",
    },
    "note": GIVEN | {"in_key": "text", "in_value": "bytea", "keep": "bigint"},
    "notes": GIVEN | {"prefix": "text"},
    "reschedule": GIVEN
    | {
        "in_name": "text",
        "before": "text",
        "after": "text",
        "withdraw": "text[]",
        "edit": "boolean",
        "jobs": NEW_JOBS,
    },
    "schedules": {},
    "get": {"in_id": "text"},
    "statuses": {"ids": "text[]"},
    "arrivals": {"in_id": "text"},
    "history": {"in_id": "text"},
    "keep_records": GIVEN
    | {
        "ids": "text[]",
        "tokens": "bigint[]",
        "counts": "integer[]",
        "keys": "text[]",
        "numbers": "integer[]",
        "contents": "bytea[]",
        "log_limit": "integer",
    },
    "records": {"in_id": "text", "most": "integer"},
    "page": {
        "in_status": "text",
        "in_queue": "text",
        "in_region": "text",
        "in_task": "text",
        "sought": "text",
        "below": "bigint",
        "most": "integer",
        "lowest": "bigint",
        "skip": "integer",
    },
    "stats": GIVEN,
    "depth": GIVEN | {"in_lane": "text", "most": "integer"},
    "ahead": {"in_id": "text"},
    "tail": {"in_lane": "text", "by": "bigint"},
    "replay": GIVEN | {"ids": "text[]", "from_start": "boolean"},
    "cancel": GIVEN | {"ids": "text[]", "reason": "text"},
    "adopt": GIVEN | {"jobs": "jsonb"},
    "purge": GIVEN | {"ids": "text[]"},
    "renew_tokens": {},
}
# Calls of the same function for other columns.
PAGES = {
    "lean_page": f"{fields.LEAN_JOB}, number",
    "page_numbers": "number",
}
COLUMNS = {
    "claim": fields.CLAIM_ROW,
    "reclaim": fields.CLAIM,
    "reclaimed": fields.CLAIM,
    "get": fields.JOB,
    "page": f"{fields.JOB}, number",
}
SENT = (
    CALLS
    | {"accept": CALLS["receive"], "accept_soon": CALLS["receive"], "commit_last": CALLS["commit"]}
    | dict.fromkeys(PAGES, CALLS["page"])
)


def typed(kind: str) -> str:
    """A placeholder of the driver's for a value of this type."""
    return f"%s::{kind}"


def arguments(name: str, function: str, placeholder: Callable[[str], str] = typed) -> str:
    """The arguments of a call, each by its name; `name` is the schema's, quoted."""
    return ", ".join(
        f"{parameter} => {placeholder(kind)}"
        if isinstance(kind, str)
        else f"{parameter} => ROW({', '.join(map(placeholder, kind.fields.values()))})"
        f"::{name}.{kind.name}"
        for parameter, kind in CALLS[function].items()
    )


def in_order(call: str, values: Mapping[str, Any]) -> tuple[Any, ...]:
    """The values of a call by their parameters' names, as its placeholders stand."""
    flat: list[Any] = []
    for parameter, kind in SENT[call].items():
        if isinstance(kind, str):
            flat.append(values[parameter])
        else:
            flat += values[parameter]
    return tuple(flat)


class Statements(dict[str, str]):
    """Every call in one schema, by the function's name."""

    def __init__(self, schema: str) -> None:
        name = sql.Identifier(schema).as_string().replace("%", "%%")
        calls = {function: f"{name}.{function}({arguments(name, function)})" for function in CALLS}
        # the schema is quoted, all else is from the tables above
        super().__init__(
            (function, f"SELECT {COLUMNS.get(function, '*')} FROM {call}")  # noqa: S608
            for function, call in calls.items()
        )
        for page, columns in PAGES.items():
            self[page] = f"SELECT {columns} FROM {calls['page']}"  # noqa: S608
        # What workers commit is answered with whether anybody waits for jobs to end. One expression
        # takes the lock and frees it, so that nothing can come in between; who meets another that
        # looks at the same moment tells in vain.
        key = ended_key(schema)
        self._watching = f"NOT (pg_try_advisory_lock({key}) AND pg_advisory_unlock({key}))"
        self["finish"] = f"SELECT {calls['finish']}, {self._watching}"
        tell = arguments(name, "finish_and_tell")
        self["finish_and_tell"] = (
            f"CALL {name}.finish_and_tell({tell}, verdicts => NULL, watching => NULL)"
        )
        self._commit = calls["commit"]
        self._lock = calls["lock_leases"]
        # Nothing but the end of the transaction follows, and what the job locked others wait for:
        # a client that was stopped right here is not waited for any longer than this.
        hurry = f"set_config('idle_in_transaction_session_timeout', '{HURRY}', true)"
        self["commit_last"] = f"SELECT {self._commit}, {self._watching}, {hurry}"
        # answered when the disk has it, and before
        self["accept"] = f"CALL {name}.accept({arguments(name, 'receive')}, before => NULL)"
        numbers = count(1)
        one = arguments(name, "accept_one", lambda kind: f"${next(numbers)}::{kind}")
        # sent as it is, and not by way of the driver's placeholders
        call = f"{name}.accept_one({one}, before => NULL)".replace("%%", "%")
        self.accept_one = f"CALL {call}".encode()
        soon = "set_config('synchronous_commit', 'off', true)"
        self["accept_soon"] = f"SELECT before, {soon} FROM {calls['receive']}"  # noqa: S608

    def commits(self, many: int) -> str:
        """So many commits in one statement, which PostgreSQL carries out in the order given.

        What several write is locked first: the ids of their jobs come before all else.
        """
        first = self._lock if many > 1 else "NULL"
        return f"SELECT {', '.join([first, *[self._commit] * many])}, {self._watching}"
