"""The arithmetic of a comparison: percentiles of one round, medians over rounds, ratios to ours."""

from collections.abc import Mapping, Sequence
from statistics import median

OURS = "mulligan"
Figures = Mapping[str, float | str]


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of all does not exceed, between two where it falls between."""
    if not values:
        raise ValueError("no values have no percentile; measure at least one")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def spread(name: str, seconds: Sequence[float]) -> dict[str, float]:
    """The median and the 99th percentile, in milliseconds, under this name."""
    return {
        f"{name}_p50_ms": round(1000 * percentile(seconds, 0.50), 2),
        f"{name}_p99_ms": round(1000 * percentile(seconds, 0.99), 2),
    }


def over_rounds(rounds: Sequence[Figures]) -> dict[str, float | str]:
    """The median of each figure over the rounds that have it; words only where no number was."""
    found: dict[str, float | str] = {}
    for name in dict.fromkeys(name for each in rounds for name in each):
        values = [each[name] for each in rounds if name in each]
        numbers = [value for value in values if not isinstance(value, str)]
        found[name] = median(numbers) if len(numbers) * 2 > len(values) else last_word(values)
    return found


def last_word(values: Sequence[float | str]) -> str:
    """Where most rounds gave no number, what the last of those said instead."""
    return next(value for value in reversed(values) if isinstance(value, str))


def times_ours(ours: float | str | None, theirs: float | str | None) -> float | None:
    """Their figure in units of ours; None where one of them is not a number above 0."""
    if not isinstance(ours, int | float) or not isinstance(theirs, int | float) or ours <= 0:
        return None
    return theirs / ours
