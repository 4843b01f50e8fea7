"""The calls that the store makes, each written once, with the type of every parameter."""

from psycopg import sql

# In milliseconds: as long as an event loop may be held up by what else it does.
HURRY = 10_000
NOW = ("bigint",)
JOBS = (
    *("text[]", "text[]", "text[]", "bytea[]", "text[]", "smallint[]", "bigint[]", "text[]"),
    *("text[]", "integer[]", "bigint[]", "text[]", "integer[]", "text[]", "integer[]"),
)
PLAN = (
    *("text[]", "bigint[]", "boolean[]"),
    *("integer[]",) * 6,
    *("bigint[]", "bigint[]", "text[]", "boolean"),
    *("integer[]", "integer[]", "integer[]", "boolean[]", "integer[]", "bigint[]", "float8[]"),
    *("integer[]", "text[]"),
)
OUTCOMES = (
    *("smallint[]", "text[]", "bigint[]", "bytea[]", "bigint[]", "text[]", "smallint[]"),
    *("jsonb[]", "text[]", "text[]", "boolean[]", "text[]", "integer[]", "integer", "integer[]"),
)

# The columns of `every_job`, with nothing for a body and a result.
LEAN = """id, queue, task, region, priority, status, scope, lane_priority, due, sequence, token,
    retry_count, replay, snoozes, created_at, ''::bytea, unique_key, concurrency_key,
    concurrency_limit, held, expires_at, worker, worker_region, started_at, last_retry_at, ended_at,
    NULL::bytea, cancel_reason, trail, unique_in, awaits, gather, gather_index, place, failures,
    last_failure, dead"""

CALLS: dict[str, tuple[str, ...]] = {
    "receive": (*NOW, *JOBS),
    "accept_within": (*NOW, *JOBS),
    "claim": (*NOW, "jsonb", "text", "integer", "integer", *PLAN),
    "finish": (*NOW, "text[]", "bigint[]", "bytea[]"),
    "commit": (*NOW, *OUTCOMES, *JOBS),
    "begin_within": ("text", "bigint"),
    "still_within": ("text",),
    "beat": (*NOW, "bigint", "jsonb", "text[]", "bigint[]"),
    "leave": (*NOW, "text"),
    "reclaim": (*NOW, "jsonb", "integer"),
    "reclaimed": ("text[]",),
    "promote": (*NOW, "integer"),
    "prune": (*NOW, "bigint", "integer", "bigint"),
    "look": (*NOW, "text", "boolean", "bigint"),
    "facts": (*NOW, "bigint"),
    "configure": ("text", "text"),
    "pause": ("text", "boolean"),
    "count": (*NOW, "bigint", "bigint", "text[]", "text[]", "text[]", "float8[]"),
    "counts": (*NOW, "bigint"),
    "switch": (
        *(*NOW, "text", "text", "boolean", "bigint", "integer", "bigint"),
        *("boolean", "integer", "bigint", "boolean"),
    ),
    "note": (*NOW, "text", "bytea", "bigint"),
    "notes": (*NOW, "text"),
    "get": ("text",),
    "arrivals": ("text",),
    "history": ("text",),
    "page": (*("text",) * 5, "bigint", "integer", "bigint", "integer"),
    "stats": NOW,
    "depth": (*NOW, "text", "integer"),
    "ahead": ("text",),
    "tail": ("text", "bigint"),
    "replay": (*NOW, "text[]"),
    "cancel": (*NOW, "text[]", "text"),
    "adopt": (*NOW, "jsonb"),
    "purge": (*NOW, "text[]"),
    "renew_tokens": (),
}


def places(kinds: tuple[str, ...]) -> str:
    """A typed placeholder for each parameter."""
    return ", ".join(f"%s::{kind}" for kind in kinds)


class Statements(dict[str, str]):
    """Every call in one schema, by the function's name."""

    def __init__(self, schema: str) -> None:
        name = sql.Identifier(schema).as_string().replace("%", "%%")
        super().__init__(
            (
                function,
                # the schema is quoted, all else is from the table above
                f"SELECT * FROM {name}.{function}({places(kinds)})",  # noqa: S608
            )
            for function, kinds in CALLS.items()
        )
        self["lean_page"] = self["page"].replace("*", LEAN, 1)
        self["place_of_page"] = self["page"].replace("*", "place", 1)
        self._commit = f"{name}.commit({places(CALLS['commit'])})"
        # Nothing but the end of the transaction follows, and what the job locked others wait for:
        # a client that was stopped right here is not waited for any longer than this.
        hurry = f"set_config('idle_in_transaction_session_timeout', '{HURRY}', true)"
        self["commit_last"] = f"SELECT {self._commit}, {hurry}"
        # answered when the disk has it, and before
        self["accept"] = f"CALL {name}.accept({places(CALLS['receive'])}, NULL)"
        self["accept_soon"] = self["receive"].replace(
            "*", "before, set_config('synchronous_commit', 'off', true)", 1
        )

    def commits(self, many: int) -> str:
        """So many commits in one statement, which PostgreSQL carries out in the order given."""
        return f"SELECT {', '.join([self._commit] * many)}"
