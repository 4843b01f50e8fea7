"""The summary of a run: numbers measured from its attempts."""

from collections.abc import Iterable, Iterator
from itertools import count, groupby
from math import ceil, fsum, inf
from operator import itemgetter
from typing import Any

from mulligan.core.checks import rounded
from mulligan.core.fetch import Fifo
from mulligan.core.lane import ANYWHERE
from mulligan.sim.attempts import Attempts
from mulligan.sim.run import Run
from mulligan.sim.scenario import Region

# Conditions of attempts.
RETRY, FRESH = "before IS NOT NULL", "before IS NULL"
OF_KEY = "fairness_key = ?"
OF_OTHERS = "fairness_key <> ?"  # not true of a job without a key
# The changes of how many due jobs wait in a lane. At one time, those that leave count first.
CHANGES = """
    SELECT lane, due AS at, 1 AS change FROM attempt WHERE started > due AND {attempts}
    UNION ALL
    SELECT lane, started, -1 FROM attempt WHERE started > due AND {attempts}
    UNION ALL
    SELECT lane, due, 1 FROM waiting WHERE due < ? AND {waiting}
"""
FRESH_LINE = """
    SELECT due, sequence, started FROM attempt WHERE lane = 'fresh' AND home IN (?, ?)
    ORDER BY due, sequence, started
"""
RETRIES = (
    f"SELECT due, sequence, started FROM attempt WHERE {RETRY} AND home = ? ORDER BY due, sequence"
)


def summary(run: Run) -> dict[str, Any]:
    """The numbers of a run, which depend on the scenario alone, not on the machine."""
    log = run.log
    attempts = log.attempts
    retries, elsewhere = next(
        attempts.rows(f"SELECT count(*), total(region <> before) FROM attempt WHERE {RETRY}")
    )
    return {
        "jobs": run.jobs,
        "done": log.done,
        "failed": log.dead,
        "unfinished": run.jobs - log.done - log.dead,
        "attempts": len(attempts),
        "retries": retries,
        "reclaimed": log.reclaims,
        "makespan": makespan(run),
        "wait": {"fresh": waits(attempts, FRESH), "retry": waits(attempts, RETRY)},
        "cross_region_share": rounded(elsewhere / retries) if retries else None,
        "time_saved": time_saved(run),
        "starts_by_lane": dict(
            attempts.rows("SELECT lane, count(*) FROM attempt GROUP BY lane ORDER BY lane")
        ),
        "largest_retry_backlog": largest_backlog(run),
        "regions": {region.name: of_region(run, region) for region in run.scenario.regions},
        "providers": {
            name: {"calls": calls.total, "refused": calls.refused}
            for name, calls in run.calls.items()
        },
        "keys": of_keys(run),
    }


def of_keys(run: Run) -> dict[str, Any] | None:
    """How long first starts waited: of the fairness key with most jobs, and of all the others."""
    busiest = run.busiest_key
    if busiest is None:
        return None
    attempts = run.log.attempts
    return {
        "busiest": {
            "key": busiest,
            "jobs": run.keys[busiest],
            "wait": waits(attempts, f"{FRESH} AND {OF_KEY}", busiest),
        },
        "others": {
            "keys": len(run.keys) - 1,
            "wait": waits(attempts, f"{FRESH} AND {OF_OTHERS}", busiest),
        },
    }


def of_region(run: Run, region: Region) -> dict[str, Any]:
    """A region's attempts, its breaker, and the retries that failed there during an outage.

    What has not happened by the end is null.
    """
    attempts = run.log.attempts
    failed = "region = ? AND ending IN ('failed', 'crashed')"
    breaker: list[dict[str, float | None]] = []
    for switch in run.log.switches:
        if switch.region == region.name and switch.opened:
            breaker.append({"opened": switch.at, "closed": None})
        elif switch.region == region.name:
            breaker[-1]["closed"] = switch.at
    last_failed = (
        f"SELECT max(ended) FROM attempt WHERE {failed} AND {RETRY}"
        " AND started >= ? AND started < ?"
    )
    return {
        "attempts": attempts.value("SELECT count(*) FROM attempt WHERE region = ?", region.name),
        "failures": attempts.value(f"SELECT count(*) FROM attempt WHERE {failed}", region.name),
        "breaker": breaker,
        "outages": [
            {
                "begin": begin,
                "end": end,
                "last_failed_retry": attempts.value(last_failed, region.name, begin, end),
            }
            for begin, end in region.outage
        ],
    }


def makespan(run: Run) -> float:
    """From the first arrival to the end of the last job; to the end of all if one is unfinished."""
    log = run.log
    last = log.last_end if log.done + log.dead == run.jobs else run.ended_at
    return rounded(last - run.first_arrival)


def waits(attempts: Attempts, which: str, *values: str) -> dict[str, float | None]:
    """How long attempts waited, from the due time to the start.

    Median, 99th percentile and largest; by rank, so that each is one of the values.
    """
    counted = attempts.rows(
        f"SELECT wait, count(*) FROM attempt WHERE {which} GROUP BY wait ORDER BY wait", *values
    )
    total = attempts.value(f"SELECT count(*) FROM attempt WHERE {which}", *values)
    ranks = {"p50": ceil(0.5 * total), "p99": ceil(0.99 * total), "max": total}
    found: dict[str, float | None] = dict.fromkeys(ranks)
    passed = 0
    for wait, many in counted:
        for name, rank in ranks.items():
            if passed < rank <= passed + many:
                found[name] = wait
        passed += many
    return found


def time_saved(run: Run) -> dict[str, float | int | None]:
    """How much earlier each retry started than if it had joined the end of the fresh lane.

    That is the last fresh job of the retry's own region, or of any region, that waited when the
    retry fell due. The difference is negative if that job started first. Retries that fell due
    when no job waited, or behind one that never started, are left out.
    """
    homes = run.log.attempts.rows(f"SELECT DISTINCT home FROM attempt WHERE {RETRY}")
    saved = (each for [home] in homes for each in times_saved(run, home))
    counted = count()  # as far as `saved` goes
    total = rounded(fsum(each for each, _ in zip(saved, counted, strict=False)))
    many = next(counted)
    if not many:
        return {"total": 0, "mean": None, "retries": 0}
    return {"total": total, "mean": rounded(total / many), "retries": many}


def times_saved(run: Run, home: str) -> Iterator[float]:
    """The same of each retry of a region: both it and the fresh lane are read in order."""
    joins = isinstance(run.policy, Fifo)  # the retry is in the line itself
    line = run.log.attempts.rows(FRESH_LINE, home, ANYWHERE)
    before: tuple[Any, ...] | None = None
    behind = next(line, None)
    for due, sequence, started in run.log.attempts.rows(RETRIES, home):
        joined_at = (due, sequence if joins else inf, 0.0)
        while behind is not None and behind < joined_at:
            before, behind = behind, next(line, None)
        if before is not None and before[2] >= due:
            yield before[2] - started


def backlog(run: Run) -> dict[str, list[tuple[float, int]]]:
    """How many due jobs waited in each lane over time: (time, how many from then on)."""
    changes = CHANGES.format(attempts="true", waiting="true")
    found = run.log.attempts.rows(f"{changes} ORDER BY lane, at, change", run.ended_at)
    return {
        lane: list(steps((at, change) for _, at, change in of_lane))
        for lane, of_lane in groupby(found, key=itemgetter(0))
    }


def largest_backlog(run: Run) -> int:
    """The most retries that were due and had not started, at any time, in whatever lane."""
    changes = CHANGES.format(attempts=RETRY, waiting="is_retry")
    found = run.log.attempts.rows(
        f"SELECT at, change FROM ({changes}) ORDER BY at, change", run.ended_at
    )
    return max((level for _, level in steps(found)), default=0)


def steps(changes: Iterable[tuple[Any, ...]]) -> Iterator[tuple[float, int]]:
    """Running sums of changes in order, one for each time."""
    level = 0
    for at, together in groupby(changes, key=itemgetter(0)):
        level += sum(change for _, change in together)
        yield at, level
