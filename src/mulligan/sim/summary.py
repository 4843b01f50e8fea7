"""The summary of a run: numbers measured from its attempts."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from math import ceil, inf
from typing import Any

from mulligan.core.checks import rounded
from mulligan.core.fetch import Fifo
from mulligan.core.lane import ANYWHERE
from mulligan.sim.log import Attempt
from mulligan.sim.run import Run
from mulligan.sim.scenario import Region

FRESH = "fresh"


def summary(run: Run) -> dict[str, Any]:
    """The numbers of a run, which depend on the scenario alone, not on the machine."""
    log = run.log
    retries = [attempt for attempt in log.attempts if attempt.is_retry]
    fresh = [attempt for attempt in log.attempts if not attempt.is_retry]
    elsewhere = sum(attempt.region != attempt.before for attempt in retries)
    return {
        "jobs": run.jobs,
        "done": log.done,
        "failed": log.dead,
        "unfinished": run.jobs - log.done - log.dead,
        "attempts": len(log.attempts),
        "retries": len(retries),
        "reclaimed": log.reclaims,
        "makespan": makespan(run),
        "wait": {"fresh": spread(waits(fresh)), "retry": spread(waits(retries))},
        "cross_region_share": rounded(elsewhere / len(retries)) if retries else None,
        "time_saved": time_saved(run, retries),
        "starts_by_lane": dict(sorted(Counter(a.lane for a in log.attempts).items())),
        "largest_retry_backlog": largest_backlog(run),
        "regions": {region.name: of_region(run, region) for region in run.scenario.regions},
        "providers": {
            name: {"calls": calls.total, "refused": calls.refused}
            for name, calls in run.calls.items()
        },
        "keys": of_keys(run, fresh),
    }


def of_others(run: Run, attempts: Iterable[Attempt]) -> list[Attempt]:
    """The attempts of fairness keys but the one with most jobs; none where there are no keys."""
    if not run.keys:
        return []
    [(busiest, _)] = Counter(run.keys.values()).most_common(1)
    return [attempt for attempt in attempts if run.keys.get(attempt.job, busiest) != busiest]


def of_keys(run: Run, fresh: Iterable[Attempt]) -> dict[str, Any] | None:
    """How long first starts waited: of the fairness key with most jobs, and of all the others."""
    if not run.keys:
        return None
    [(busiest, jobs)] = Counter(run.keys.values()).most_common(1)
    own = [attempt for attempt in fresh if run.keys.get(attempt.job) == busiest]
    others = of_others(run, fresh)
    return {
        "busiest": {"key": busiest, "jobs": jobs, "wait": spread(waits(own))},
        "others": {"keys": len({*run.keys.values()}) - 1, "wait": spread(waits(others))},
    }


def of_region(run: Run, region: Region) -> dict[str, Any]:
    """A region's attempts, its breaker, and the retries that failed there during an outage.

    What has not happened by the end is null.
    """
    attempts = [attempt for attempt in run.log.attempts if attempt.region == region.name]
    failed = [attempt for attempt in attempts if attempt.ending in ("failed", "crashed")]
    breaker: list[dict[str, float | None]] = []
    for switch in run.log.switches:
        if switch.region == region.name and switch.opened:
            breaker.append({"opened": switch.at, "closed": None})
        elif switch.region == region.name:
            breaker[-1]["closed"] = switch.at
    outages = [
        {
            "begin": begin,
            "end": end,
            "last_failed_retry": max(
                (a.ended for a in failed if a.is_retry and begin <= a.started < end), default=None
            ),
        }
        for begin, end in region.outage
    ]
    return {
        "attempts": len(attempts),
        "failures": len(failed),
        "breaker": breaker,
        "outages": outages,
    }


def makespan(run: Run) -> float:
    """From the first arrival to the end of the last job; to the end of all if one is unfinished."""
    log = run.log
    last = log.last_end if log.done + log.dead == run.jobs else run.ended_at
    return rounded(last - run.first_arrival)


def waits(attempts: Iterable[Attempt]) -> list[float]:
    """How long each waited, from its due time to its start."""
    return [rounded(attempt.started - attempt.due) for attempt in attempts]


def spread(values: Sequence[float]) -> dict[str, float | None]:
    """Median, 99th percentile and largest; by rank, so that each is one of the values."""
    ranked = sorted(values)

    def at(share: float) -> float | None:
        return ranked[max(0, ceil(share * len(ranked)) - 1)] if ranked else None

    return {"p50": at(0.5), "p99": at(0.99), "max": at(1.0)}


def time_saved(run: Run, retries: Sequence[Attempt]) -> dict[str, float | int | None]:
    """How much earlier each retry started than if it had joined the end of the fresh lane.

    That is the last fresh job of the retry's own region, or of any region, that waited when the
    retry fell due. The difference is negative if that job started first. Retries that fell due
    when no job waited, or behind one that never started, are left out.
    """
    lines = fresh_lines(run.log.attempts)
    joins = isinstance(run.policy, Fifo)  # the retry is in the line itself
    saved = []
    for retry in retries:
        line = lines.get(retry.home) or lines[ANYWHERE]
        index = bisect_left(line, (retry.due, retry.sequence if joins else inf, 0.0)) - 1
        if index >= 0 and line[index][2] >= retry.due:
            saved.append(line[index][2] - retry.started)
    total = rounded(sum(saved))
    mean = rounded(total / len(saved)) if saved else None
    return {"total": total, "mean": mean, "retries": len(saved)}


def fresh_lines(attempts: Iterable[Attempt]) -> dict[str, list[tuple[float, float, float]]]:
    """The fresh jobs of each region in order: (due, sequence, start).

    Jobs for any region are in the list of every region.
    """
    lines: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for attempt in attempts:
        if attempt.lane == FRESH:
            lines[attempt.home].append((attempt.due, attempt.sequence, attempt.started))
    anywhere = list(lines[ANYWHERE])
    for region, line in lines.items():
        if region != ANYWHERE:
            line.extend(anywhere)
        line.sort()
    return lines


def backlog(run: Run, wanted: Sequence[str] | None = None) -> dict[str, list[tuple[float, int]]]:
    """How many due jobs waited in each lane over time: (time, how many from then on)."""
    changes: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for attempt in run.log.attempts:
        if attempt.started > attempt.due:
            changes[attempt.lane] += [(attempt.due, 1), (attempt.started, -1)]
    for waiting in run.log.waiting:
        if waiting.due < run.ended_at:
            changes[waiting.lane].append((waiting.due, 1))
    lanes = changes if wanted is None else wanted
    return {lane: steps(changes.get(lane, ())) for lane in sorted(lanes)}


def largest_backlog(run: Run) -> int:
    """The most retries that were due and had not started, at any time, in whatever lane."""
    due = [a for a in run.log.attempts if a.is_retry and a.started > a.due]
    left = [w.due for w in run.log.waiting if w.is_retry and w.due < run.ended_at]
    changes = chain(
        ((a.due, 1) for a in due), ((a.started, -1) for a in due), ((at, 1) for at in left)
    )
    return max((count for _, count in steps(changes)), default=0)


def steps(changes: Iterable[tuple[float, int]]) -> list[tuple[float, int]]:
    """Running sums of changes, one for each time; at one time, jobs that leave count first."""
    level = 0
    found: list[tuple[float, int]] = []
    for at, change in sorted(changes):
        level += change
        if found and found[-1][0] == at:
            found[-1] = (at, level)
        else:
            found.append((at, level))
    return found
