"""The metrics of limits, with a bound on how many names they have."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from mulligan.core.counts import LIMIT_STARTED, MOST_COUNTED_LIMITS, OTHER
from mulligan.core.limits import LimitView, covering
from mulligan.core.metric import Metric, Sample, gauge


def limit_metrics(limits: Iterable[LimitView]) -> list[Metric]:
    """What limits hold up; the names of a family are counted together, under its pattern.

    The first limits by name have a label of their own, and all others share one.
    """
    views = list(limits)
    stored = [view.name for view in views if view.stored.in_force is not None]
    shown, in_force = set(stored[:MOST_COUNTED_LIMITS]), set(stored)
    waiting: dict[str, int] = defaultdict(int)
    running: dict[str, int] = defaultdict(int)
    used: dict[str, int] = defaultdict(int)
    paused: dict[str, float] = defaultdict(float)
    for view in views:
        by = covering(view.name, in_force)
        if by is not None:
            name = by if by in shown else OTHER
            waiting[name] += view.waiting
            running[name] += view.running
            used[name] += view.used
            paused[name] = max(paused[name], view.paused_until or 0.0)
    numbers: tuple[tuple[str, str, Mapping[str, float]], ...] = (
        ("mulligan_limit_waiting_jobs", "due jobs for which a limit has no room", waiting),
        ("mulligan_limit_running_jobs", "jobs that hold a permit of a limit", running),
        ("mulligan_limit_used_cost", "the cost that counts against the rate of a limit now", used),
        (
            "mulligan_limit_paused_until_seconds",
            "when the pause of a limit ends, in seconds since 1970; 0 if it is not paused",
            paused,
        ),
    )
    return [
        gauge(name, words, (Sample({"limit": limit}, value) for limit, value in values.items()))
        for name, words, values in numbers
    ]


def started_by_limit(counts: Mapping[tuple[str, str, str], float]) -> dict[str, int]:
    """How many attempts began, by limit as it is declared, in all queues and regions."""
    found: dict[str, int] = defaultdict(int)
    for (_, _, name), value in sorted(counts.items()):
        if name.startswith(LIMIT_STARTED):
            found[name.removeprefix(LIMIT_STARTED)] += int(value)
    return dict(found)
