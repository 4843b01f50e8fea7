"""The columns in which rows of rules (`stores/rules/row.py`) are stored."""

from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from mulligan.stores.rules.row import Row

# The expression of each field that is not a column of `job` with the same name.
EXPRESSIONS = {
    "status": "CASE WHEN running.number IS NULL THEN coalesce(ended.status, 'pending')"
    " ELSE 'processing' END",
    "token": "coalesce(running.token, ended.token, job.token)",
    "committed": "CASE WHEN ended.status = 'done' THEN ended.token ELSE job.committed END",
    "started_at": "coalesce(running.started_at, ended.started_at, job.started_at)",
    "worker_region": "coalesce(running.worker_region, ended.worker_region, job.worker_region)",
    "last_retry_at": "CASE WHEN job.retry_count > 0"
    " THEN coalesce(running.started_at, ended.started_at, job.last_retry_at)"
    " ELSE job.last_retry_at END",
    "has_key": "job.key_queue IS NOT NULL",
    "cancel_reason": "ended.cancel_reason",
    "held": "running.limits",
}
# Fields that rules write and never read. They are the last fields of a row.
UNREAD = ("created_at", "worker", "ended_at", "result", "body", "kept")
READ = Row.__struct_fields__[: -len(UNREAD)]
# The position of a job in its queue, and the other fields that rules change.
POSITION = ("scope", "lane_priority", "due", "sequence")
DECIDED = (
    *POSITION,
    *("delayed", "retry_count", "replay", "snoozes", "trail", "limits", "fairness_key", "awaits"),
    *("members_failed", "members_cancelled"),
)
# What is known of the last attempt. The `ended` row has it for a job that is done.
ATTEMPTED = ("token", "committed", "started_at", "worker_region", "last_retry_at")
CHANGED = (*DECIDED, *ATTEMPTED)
PLAIN = (
    *("number", "id", "queue", "task", "region", "priority", "scope", "lane_priority", "due"),
    *("sequence", "delayed", "token", "created_at", "body"),
)
OPTIONS = (
    *("expires_at", "unique_key", "unique_in", "debounce_until", "unique_until", "limits"),
    *("fairness_key", "awaits", "gather", "gather_index", "return_exceptions", "keep"),
)
NEW = (*PLAIN, *OPTIONS)
# Fields that only a job of another store has when it is inserted.
HISTORY = tuple(name for name in CHANGED if name not in NEW)

decided_of = attrgetter(*DECIDED)
changed_of = attrgetter(*CHANGED)
plain_of = attrgetter(*PLAIN)
options_of = attrgetter(*OPTIONS)
new_of = attrgetter(*NEW)
history_of = attrgetter(*HISTORY)
lane_of = attrgetter("queue", *POSITION, "number", "delayed")
ended_of = attrgetter("number", "queue", "status", "ended_at", "token")

_EMPTY = Row(0, "", "", "", "", 0, "pending", "", 0, 0.0, 0, delayed=False, token=0)
NO_OPTIONS = options_of(_EMPTY)
NO_HISTORY = history_of(_EMPTY)

# The table of a job that is not pending.
TABLES = {"processing": "running", "done": "ended", "failed": "ended", "cancelled": "ended"}


def table_of(row: Row) -> str:
    """Return the table in which a job of this status waits, runs, or has ended."""
    if row.status != "pending":
        return TABLES[row.status]
    if row.awaits:
        return "arrivals"
    return "lane" if row.limits is None and row.fairness_key is None else "line"


class Stored(NamedTuple):
    """What the file has of a row: the table that it is in, and the fields that rules change."""

    table: str
    decided: tuple[Any, ...]
    has_key: bool

    def is_at(self, table: str, decided: tuple[Any, ...]) -> bool:
        """Whether the job stays in its table, at its position."""
        return self.table == table and self.decided[: len(POSITION)] == decided[: len(POSITION)]


_decided_in = itemgetter(*map(READ.index, DECIDED))
_status_in, _has_key_in = READ.index("status"), READ.index("has_key")
_awaits_in, _limits_in = READ.index("awaits"), READ.index("limits")
_fairness_key_in = READ.index("fairness_key")


def stored(kept: Any) -> Stored:
    """Return what the file has of a row: `kept` is that, or what was read of the row."""
    if isinstance(kept, Stored):
        return kept
    table = TABLES.get(kept[_status_in])
    if table is None:
        lined = kept[_limits_in] is not None or kept[_fairness_key_in] is not None
        table = "arrivals" if kept[_awaits_in] else "line" if lined else "lane"
    return Stored(table, _decided_in(kept), kept[_has_key_in])
