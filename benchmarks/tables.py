"""Results as tables, a store each: for people on a terminal, and as rows for the documentation."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from benchmarks.contenders import CONTENDERS
from benchmarks.figures import OURS, times_ours

Medians = Mapping[str, Mapping[str, float | str]]
STORES = {"redis": "Redis", "postgres": "PostgreSQL", "sqlite": "SQLite", "mongo": "MongoDB"}
# the heading, and the figures that stand below it
SPEED = {
    "enqueue, one by one": ("enqueue_one_per_s",),
    "enqueue, in bulk": ("enqueue_bulk_per_s",),
    "drain, coroutines": ("drain_per_s",),
    "drain, plain functions": ("drain_plain_per_s",),
    "drain, waits of 1 ms": ("drain_waiting_per_s",),
    "drain, two workers (times one)": ("drain_two_per_s",),
}
PROMPTNESS = {
    "pick-up": ("pick_up_p50_ms", "pick_up_p99_ms"),
    "retry late": ("late_p50_ms", "late_p99_ms"),
    "back after a kill, s": ("crash_s",),
    "idle, MiB": ("rss_mib",),
    "idle, CPU %": ("idle_cpu_percent",),
}
STORM = {
    "due retries wait": ("storm_retry_wait_p50_ms", "storm_retry_wait_p99_ms"),
    "fresh jobs wait": ("storm_fresh_wait_p50_ms", "storm_fresh_wait_p99_ms"),
    "all done, s": ("storm_total_s",),
}
TITLES = (
    ("jobs per second (and in units of mulligan's)", SPEED),
    ("promptness in ms, p50 / p99; cost of an idle worker", PROMPTNESS),
    ("a retry storm, in ms, p50 / p99", STORM),
)


def tables(result: Mapping[str, Any]) -> list[Table]:
    """All of them, for a terminal."""
    found = []
    for store, label in STORES.items():
        for title, columns in TITLES:
            lines = rows(result["medians"], store, columns)
            if lines:
                table = Table("", *columns, title=f"{label}: {title}", title_justify="left")
                for line in lines:
                    table.add_row(*line)
                found.append(table)
    for key, figures in result["medians"].items():
        for name, value in figures.items():
            if name.endswith("_error"):
                found.append(Table(f"{key}: {name.removesuffix('_error')}: {value}"))
    return found


def rows(medians: Medians, store: str, columns: Mapping[str, tuple[str, ...]]) -> list[list[str]]:
    """A line for each contender of the store that has such figures: its name and its cells."""
    ours = medians.get(f"{store}/{OURS}", {})
    names = [each.name for each in CONTENDERS if each.store == store]
    lines = []
    for name in [*names, "raw"]:
        if figures := medians.get(f"{store}/{name}"):
            cells = [cell(ours, figures, wanted) for wanted in columns.values()]
            if any(cells):
                lines.append([name, *cells])
    return lines


def cell(
    ours: Mapping[str, float | str], theirs: Mapping[str, float | str], wanted: tuple[str, ...]
) -> str:
    """The figures as people read them; beside a rate, how many times ours or one worker's it is."""
    values = [theirs[name] for name in wanted if name in theirs]
    shown = " / ".join(value if isinstance(value, str) else number(value) for value in values)
    if not wanted[0].endswith("per_s"):
        return shown
    if wanted[0] == "drain_two_per_s":
        one = theirs.get("drain_per_s", theirs.get("drain_plain_per_s"))
        times = times_ours(one, theirs.get(wanted[0]))
    else:
        times = None if theirs is ours else times_ours(ours.get(wanted[0]), theirs.get(wanted[0]))
    return shown if times is None else f"{shown} ({times:.2f})"


def number(value: float) -> str:
    """With as many digits as tell something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"  # noqa: PLR2004 - three digits
