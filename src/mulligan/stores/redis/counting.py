"""What is counted by queue and region, as scripts write it and as readers see it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from mulligan.core.counts import Count, Counts
from mulligan.core.health import CLOSED, Breaker, Health, changes_plans
from mulligan.stores.redis.encoding import escape
from mulligan.stores.redis.server import Value

Place = tuple[str, str]


@lru_cache(maxsize=4096)
def place_name(queue: str, region: str) -> str:
    """The queue and the region as the name of a sum spells them."""
    return f"{escape(queue)}:{escape(region)}"


@lru_cache(maxsize=4096)
def place_of(name: str) -> Place:
    """The queue and the region that a name spells."""
    queue, region = name.split(":")
    return unquote(queue), unquote(region)


def count_values(counts: Iterable[Count]) -> list[Value]:
    """Three values for each count."""
    values: list[Value] = []
    for queue, region, name, value in counts:
        values += (place_name(queue, region), name, repr(float(value)))
    return values


def healths_of(rows: Iterable[Sequence[Any]]) -> dict[Place, Health]:
    """The health of each place, as shared/counting.lua gives it."""
    return {
        place_of(name): Health(int(succeeded), int(failed), breaker_of(breaker))
        for name, succeeded, failed, breaker in rows
    }


def breaker_of(text: str) -> Breaker:
    """A breaker as it is kept; one that was never switched is closed."""
    if not text:
        return CLOSED
    position, since, probes, probed_at = text.split()
    return Breaker(position == "open", float(since), int(probes), float(probed_at))


def switch_values(before: Breaker, after: Breaker) -> tuple[str | int, ...]:
    """What switch.lua reads after the place."""
    return (
        *(position(before), repr(float(before.since)), before.probes, seconds(before)),
        *(position(after), after.probes, seconds(after)),
        int(changes_plans(before, after)),
    )


def position(breaker: Breaker) -> str:
    """The word by which a breaker is kept."""
    return "open" if breaker.open else "closed"


def seconds(breaker: Breaker) -> str:
    """When the last probe started, as it is kept."""
    return repr(float(breaker.probed_at))


def counts_of(answer: list[list[bytes]]) -> Counts:
    """What counts.lua gave: the sums since ever, then those of each recent slot."""
    ever, *slots = answer
    return Counts(sums_of([ever]), sums_of(slots))


def sums_of(hashes: Iterable[list[bytes]]) -> dict[tuple[str, str, str], float]:
    """Hashes of sums, added up."""
    sums: dict[tuple[str, str, str], float] = defaultdict(float)
    for cells in hashes:
        for field, value in zip(cells[::2], cells[1::2], strict=True):
            queue, region, name = field.decode().split(":", 2)
            sums[unquote(queue), unquote(region), name] += float(value)
    return dict(sums)
