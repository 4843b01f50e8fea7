"""What a job is: each of its fields, once.

The structs of `core/job.py`, the columns of every store, the API's shapes and `copy` carry these
fields; tests hold them to this table. A new field is a line here.
"""

from enum import Flag, auto
from typing import Any, Literal

from msgspec import UNSET, Struct

# A time is in seconds since 1970 by the store's clock; seconds are a duration.
Kind = Literal["text", "integer", "flag", "bytes", "time", "seconds"]


class Carrier(Flag):
    """The structs that carry a field."""

    NEW_JOB = auto()
    CLAIM = auto()
    JOB = auto()


NEW_JOB, CLAIM, JOB = Carrier.NEW_JOB, Carrier.CLAIM, Carrier.JOB
ALL = NEW_JOB | CLAIM | JOB


class Field(Struct, frozen=True):
    """A field of a job; its default is UNSET where it must be said.

    - `option`: most new jobs leave it out, and stores write nothing then.
    - `changes`: it is written again after the job was enqueued.
    - `shown`: it is in the answers of the API.
    - `readers_only`: nothing runs by it, so that a job runs whatever another program wrote there.
    - `free_text`: it may hold secrets, which the server hides.
    - `kept`: stores keep it; otherwise it only decides what enqueuing does.
    """

    name: str
    kind: Kind
    carriers: Carrier
    default: Any = UNSET
    option: bool = False
    changes: bool = False
    shown: bool = True
    readers_only: bool = False
    free_text: bool = False
    kept: bool = True


FIELDS = (
    Field("id", "text", ALL),
    Field("queue", "text", ALL),
    Field("task", "text", ALL),
    Field("body", "bytes", ALL),
    Field("region", "text", ALL, "*"),
    Field("priority", "integer", ALL, 0),
    Field("delay", "seconds", NEW_JOB, 0.0),
    Field("unique_key", "text", NEW_JOB | JOB, None, option=True),
    # The limits that it names: a JSON object of costs by name, in order of names.
    Field("limits", "text", ALL, None, option=True, changes=True),
    Field("fairness_key", "text", NEW_JOB | JOB, None, option=True, changes=True),
    Field("expires", "seconds", NEW_JOB, None, option=True),
    Field("unique_in", "text", NEW_JOB | JOB, None, option=True, shown=False, readers_only=True),
    Field("awaits", "integer", NEW_JOB | JOB, 0, option=True, changes=True),
    Field("gather", "text", NEW_JOB | JOB, None, option=True),
    Field("gather_index", "integer", NEW_JOB | JOB, 0, option=True, shown=False),
    # Failures of its members arrive too, as values; and how many of these have ended so.
    Field("return_exceptions", "flag", NEW_JOB | JOB, default=False, option=True),
    Field("members_failed", "integer", JOB, 0, changes=True, readers_only=True),
    Field("members_cancelled", "integer", JOB, 0, changes=True, readers_only=True),
    # In whole seconds.
    Field("keep", "integer", NEW_JOB | JOB, None, option=True, readers_only=True),
    # A debounced job is put off no longer than this after it was accepted; its delay is what it is
    # put off by each time.
    Field("debounce_max", "seconds", NEW_JOB, None, option=True),
    # The id of the only job that may take over its call.
    Field("debounces", "text", NEW_JOB, None, option=True, shown=False, kept=False),
    # A throttled one holds its unique key at least for this long.
    Field("unique_for", "seconds", NEW_JOB, None, option=True),
    # Where it stands.
    Field("status", "text", JOB, changes=True),
    Field("scope", "text", CLAIM | JOB, changes=True),
    Field("lane_priority", "integer", CLAIM | JOB, changes=True, shown=False),
    Field("due", "time", CLAIM | JOB, changes=True),
    Field("sequence", "integer", JOB, changes=True, shown=False),
    # The limit that has no room for it, or for those before it in its line.
    Field("waits_for", "text", JOB, None, changes=True, readers_only=True),
    # What has become of it so far.
    Field("token", "integer", CLAIM | JOB, changes=True),
    Field("retry_count", "integer", CLAIM | JOB, changes=True),
    Field("replay", "integer", CLAIM | JOB, changes=True),
    Field("snoozes", "integer", CLAIM | JOB, changes=True),
    Field("worker", "text", CLAIM | JOB, None, changes=True),
    Field("worker_region", "text", CLAIM | JOB, None, changes=True),
    Field("trail", "text", CLAIM | JOB, "", changes=True, shown=False),
    Field("created_at", "time", JOB, readers_only=True),
    Field("expires_at", "time", JOB, None),
    Field("debounce_until", "time", JOB, None, readers_only=True),
    Field("unique_until", "time", JOB, None, readers_only=True),
    Field("started_at", "time", CLAIM | JOB, None, changes=True),
    Field("last_retry_at", "time", JOB, None, changes=True, readers_only=True),
    Field("ended_at", "time", JOB, None, changes=True, readers_only=True),
    Field("result", "bytes", JOB, None, changes=True, readers_only=True),
    Field("last_failure_reason", "text", JOB, None, changes=True, free_text=True),
    Field("cancel_reason", "text", JOB, None, changes=True, readers_only=True, free_text=True),
)


OPTIONS = tuple(field.name for field in FIELDS if field.option)


def fields_of(carrier: Carrier) -> tuple[Field, ...]:
    """The fields that a struct carries."""
    return tuple(field for field in FIELDS if carrier in field.carriers)


def names_of(carrier: Carrier, kind: Kind | None = None) -> tuple[str, ...]:
    """Their names; with a kind, of those alone that are of it."""
    return tuple(field.name for field in fields_of(carrier) if kind in (None, field.kind))
