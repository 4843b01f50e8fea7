"""The page of the documentation that says what was run, written from the results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.databases._debian import locked
from tests.matrix.install import home
from tests.matrix.rows import DJANGO, NOT_RUN, ROWS, SERVER, SHARED, WIDE

RESULTS = Path(__file__).parent / "results.json"
PAGE = Path(__file__).parents[2] / "docs/reference/versions.md"
Result = dict[str, Any]
HEAD = """# Versions

*For you if you ask whether it runs with your Python, your server, your framework.*

What mulligan has been run with, written by `make matrix`: each row installs what it names into
`~/.cache/mulligan` and runs a part of the tests that speaks for it. `make matrix ARGS=postgres`
runs the rows with this word in their name; `make matrix ARGS=--list` names them all.

| what | version | passed | failed | skipped | from | run on |
|---|---|---|---|---|---|---|
"""
TAIL = """A row of Django runs `{}`. Each of the others runs `{}`.

A row of a server runs them on its store, with `{}`
and the tests of this store alone, on Python 3.11 with the dependencies that are pinned.

The others run them on memory, SQLite, Redis and PostgreSQL, with
`{}`.
"""


def read() -> dict[str, Result]:
    """The results that are kept, by the name of their row."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def keep(result: Result) -> None:
    """Put a result in the place of the one before it, and write the page anew."""
    with locked(home() / "results.lock"):
        found = read() | {result["name"]: result}
        known = {row.name: found[row.name] for row in ROWS if row.name in found}
        RESULTS.write_text(json.dumps(known, indent=2, ensure_ascii=False) + "\n")
        PAGE.write_text(page(known))


def page(results: dict[str, Result]) -> str:
    """The whole page."""
    lines = [line(results[row.name]) for row in ROWS if row.name in results]
    failed = {name: each["failed"] for name, each in results.items() if each.get("failed")}
    parts = [HEAD + "\n".join(lines) + "\n"]
    for name, tests in failed.items():
        parts.append(f"{name} failed:\n\n" + "\n".join(f"- `{test}`" for test in tests) + "\n")
    missing = NOT_RUN | {n: each["not_run"] for n, each in results.items() if "not_run" in each}
    missing |= {row.name: "not yet" for row in ROWS if row.name not in results}
    parts.append("Not run:\n\n" + "\n".join(f"- {n}: {why}." for n, why in missing.items()) + "\n")
    parts.append(TAIL.format(*map("`, `".join, (DJANGO, SHARED, SERVER, WIDE))))
    return "\n".join(parts)


def line(result: Result) -> str:
    """A row of the table."""
    if "not_run" in result:
        return f"| {result['name']} | | | | | {result['source']} | not run |"
    cells = (
        *(result["name"], result["version"], str(result["passed"]), str(len(result["failed"]))),
        *(str(result["skipped"]), result["source"], result["at"]),
    )
    return f"| {' | '.join(cells)} |"
