"""Long lists in parts: of a store with very many names, a document shows some and says so."""

from collections.abc import Callable, Iterable, Mapping
from heapq import nlargest
from typing import Annotated, Any, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

T = TypeVar("T")
MOST = 1000
MOST_AT_ONCE = 10_000
WAITING = ("fresh", "urgent", "retry", "running", "failed")


class ListQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Up to `limit` entries in order of names, those that come after `after`."""

    limit: Annotated[int, Meta(ge=1, le=MOST_AT_ONCE)] = MOST
    after: Annotated[str, Meta(max_length=1000)] | UnsetType = UNSET


def part_of(
    entries: Iterable[T], key: Callable[[T], str], query: ListQuery
) -> tuple[list[T], str | UnsetType]:
    """The part of the entries that a query asks for, and what to ask for next, if anything."""
    after = query.after
    keyed = [(key(each), each) for each in entries]
    left = sorted(
        (each for each in keyed if after is UNSET or each[0] > after), key=lambda each: each[0]
    )
    shown = left[: query.limit]
    return [each for _, each in shown], shown[-1][0] if len(left) > len(shown) else UNSET


def named_part(named: Mapping[str, T], query: ListQuery) -> tuple[dict[str, T], str | UnsetType]:
    """The same for entries by name."""
    names, after = part_of(named, str, query)
    return {name: named[name] for name in names}, after


def bounded(overview: Mapping[str, Any], most: int = MOST) -> dict[str, Any]:
    """The overview with at most so many entries of each kind, and how many were left out.

    Those with the most jobs stay; of health the open breakers, of workers those that live.
    """
    shown = dict(overview)
    omitted: dict[str, int] = {}
    for part, weight in WEIGHTS.items():
        entries = overview[part]
        if len(entries) <= most:
            continue
        omitted[part] = len(entries) - most
        if isinstance(entries, dict):
            names = nlargest(most, entries, key=lambda name: weight(entries[name]))
            shown[part] = {name: entries[name] for name in sorted(names)}
        else:
            places = nlargest(most, range(len(entries)), key=lambda at: weight(entries[at]))
            shown[part] = [entries[at] for at in sorted(places)]
    if omitted:
        many = ", ".join(f"{number:,} {part}" for part, number in omitted.items())
        said = f"too many to show here: {many} more; /api/queues and the like list them in parts"
        shown["warnings"] = [*shown["warnings"], said]
    return shown | {"omitted": omitted}


def equal(_: Any) -> int:
    """The weight of entries of which the first stay."""
    return 0


# What decides which entries of a part stay.
WEIGHTS: dict[str, Callable[[Any], float]] = {
    "regions": lambda each: each["processing"] + each["queue_size"] + each["retry_queue_size"],
    "queues": lambda each: sum(each[name] for name in WAITING),
    "delayed": lambda each: each["total"],
    "gathering": float,
    "recent": lambda each: sum(region["started"] for region in each.values()),
    "lanes": lambda each: each["ready"] + each["delayed"],
    "health": lambda each: each["breaker"]["open"],
    "workers": lambda each: each["live"],
    "alerts": equal,
    "warnings": equal,
}
