"""Limits that jobs name, and fairness keys: what apps and operators set, and what readers see."""

from typing import Any

import msgspec
from msgspec.structs import replace

from mulligan.core.checks import seconds
from mulligan.core.lane import Lane
from mulligan.core.limits import (
    FOREVER,
    KeyView,
    Limit,
    LimitState,
    LimitView,
    StoredLimit,
    view_of,
)
from mulligan.core.lines import TURN
from mulligan.stores.postgres.database import Database
from mulligan.stores.postgres.fields import micros

# A time that never comes, in the tables.
NEVER = 2**63 - 1
decode = msgspec.json.Decoder(Limit).decode


async def set_limit(database: Database, name: str, limit: Limit | None, *, declared: bool) -> None:
    """Store what an app declares or an operator sets."""
    await database.call("set_limit", in_name=name, in_limit=text_of(limit), in_declared=declared)


async def pause_limit(database: Database, name: str, length: float, *, at_least: bool) -> None:
    """Start nobody of the limit for so long; 0 ends a pause."""
    micros = pause_micros(length)
    await database.call("pause_limit", in_name=name, length=micros, at_least=at_least)


async def spend(database: Database, name: str, cost: int) -> None:
    """Charge a limit so much."""
    await database.call("spend", in_name=name, cost=cost)


async def limits(database: Database, most: int) -> list[LimitView]:
    """The limits that are stored or in use, in order of names."""
    return [view(*row) for row in await database.call("limits", most=most)]


async def keys(database: Database, queue: str, most: int) -> list[KeyView]:
    """The fairness keys of the queue with work waiting, those with most work first."""
    rows = await database.call("keys", in_queue=queue, most=most)
    return [
        KeyView(Lane(queue, scope, priority), key, jobs, max(0, turn - present) / TURN)
        for scope, priority, key, jobs, turn, present in rows
    ]


def view(  # noqa: PLR0917 - the columns of `limits`
    name: str,
    declared: str | None,
    set_instead: str | None,
    holds: str | None,
    used: int,
    starts: list[int],
    costs: list[int],
    full_at: int,
    paused_until: int,
    jobs: int,
    now: int,
) -> LimitView:
    """A row of `limits`."""
    stored = StoredLimit(limit_from(declared), limit_from(set_instead))
    until = FOREVER if paused_until == NEVER else paused_until
    state = LimitState(used, list(zip(starts, costs, strict=True)), full_at, until)
    return view_of(name, stored, limit_from(holds), state, waiting=jobs, now=now / 1e6)


def pause_micros(length: float) -> int | None:
    """How long a pause is; None if it has no end."""
    return None if length == FOREVER else micros(length)


def text_of(limit: Limit | None) -> str | None:
    """A limit as it is kept, so that equal ones are the same text."""
    if limit is None:
        return None
    return msgspec.json.encode(replace(limit, per=float(seconds(limit.per)))).decode()


def limit_from(text: Any) -> Limit | None:
    """A limit as it was kept."""
    return None if text is None else decode(text)
