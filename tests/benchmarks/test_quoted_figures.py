"""Figures that pages quote are those of benchmarks/results/reference.json."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MEDIANS = json.loads((ROOT / "benchmarks/results/reference.json").read_text())["medians"]
FIGURES = {
    "jobs per second": "drain_per_s",
    "pick-up p99, ms": "pick_up_p99_ms",
    "retry late p99, ms": "late_p99_ms",
    "a retry is late, p99": "late_p99_ms",
    "back after a kill, s": "crash_s",
    "a killed worker's job is back": "crash_s",
    "in a storm, due retries wait p99, ms": "storm_retry_wait_p99_ms",
    "in a retry storm, retries wait, p99": "storm_retry_wait_p99_ms",
}
# How the pages call those that the results call otherwise.
NAMES = {"mulligan, coroutines": "mulligan", "Oban (Python)": "oban"}


def quoted(page: str):
    """Every figure in a table of the page: the store, the contender, the figure, and its text."""
    store = "redis"
    columns: list[str] = []
    for line in (ROOT / page).read_text().splitlines():
        if line.startswith("And on PostgreSQL"):
            store = "postgres"
        if not line.startswith("|"):
            columns = []
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not columns:
            columns = cells
        elif columns[1] == "jobs per second" and not set(line) <= set("|-: "):
            for column, cell in zip(columns[1:], cells[1:], strict=True):
                if cell:
                    yield store, cells[0], column, cell


QUOTED = [
    (page, *each)
    for page in ("README.md", "docs/concepts/why-not-celery.md")
    for each in quoted(page)
]


def test_both_pages_quote_figures():
    assert {page for page, *_ in QUOTED} == {"README.md", "docs/concepts/why-not-celery.md"}
    assert len(QUOTED) > 60


@pytest.mark.parametrize("page", ["README.md", "docs/concepts/why-not-celery.md"])
def test_each_figure_is_the_one_that_was_measured(page):
    for where, store, name, column, cell in QUOTED:
        if where == page:
            measured = value_of(store, name, column)
            assert says(cell, measured), f"{name}, {column}: {cell} stands there, not {measured}"


def value_of(store: str, name: str, column: str) -> float | str:
    """What was measured; jobs per second of plain functions where a contender has no coroutines."""
    if name == "mulligan, plain functions":
        name, figure = "mulligan", "drain_plain_per_s"
    else:
        name, figure = NAMES.get(name, name), FIGURES[column]
    key = re.sub(r", (.*)", r" (\1)", name).lower()
    found = MEDIANS[f"{store}/{key}"]
    if figure == "drain_per_s" and figure not in found:
        figure = "drain_plain_per_s"
    measured: float | str = found[figure]
    return measured


def says(cell: str, measured: float | str) -> bool:
    """Whether the text is the value, to as many digits as it has."""
    if isinstance(measured, str):
        return cell == measured
    number = re.fullmatch(r"([\d,]+(?:\.(\d+))?)(?: m?s)?", cell)
    if number is None:
        return False
    digits = len(number[2] or "")
    return abs(float(number[1].replace(",", "")) - measured) <= 0.5 * 0.1**digits + 1e-9
