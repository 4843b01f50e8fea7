"""The figures of a run, as a document and as a table."""

from typing import Any

from rich.console import Console
from rich.table import Table

from tests.chaos.faults import Faults
from tests.chaos.verdict import Judgement


def summary(
    store: str, seed: int, seconds: float, faults: Faults, verdict: Judgement
) -> dict[str, Any]:
    """The run in one document."""
    return {
        "store": store,
        "seed": seed,
        "seconds": round(seconds, 1),
        "faults": dict(sorted(faults.done.items())),
        "faults that never struck": faults.missing,
        "deadlocks broken": faults.deadlocks.ours,
        "jobs": verdict.jobs,
        "done": verdict.done,
        "failed": verdict.failed,
        "cancelled": verdict.cancelled,
        "lost": verdict.lost,
        "stale commits refused": verdict.stale,
        "leases reclaimed": verdict.reclaimed,
        "operations without an answer": verdict.unanswered,
        "longest from a fault to the next finished job": round(verdict.longest_silence, 2),
        "longest from a kill to its jobs running again": round(verdict.longest_return, 2),
        "longest that others left a dead worker its jobs": round(verdict.longest_left, 2),
        "events checked": verdict.events,
        "violations": len(verdict.violations),
        "kinds of violations": sorted({each.invariant for each in verdict.violations}),
    }


def show(result: dict[str, Any]) -> None:
    """The run as a table."""
    table = Table("", "", title=f"chaos on {result['store']}, seed {result['seed']}")
    table.show_header = False
    for name, value in result.items():
        match value:
            case dict():
                for kind, times in value.items():
                    table.add_row(f"fault: {kind}", str(times))
            case list():
                if value:
                    table.add_row(name, ", ".join(value))
            case _:
                table.add_row(name, str(value))
    Console().print(table)
