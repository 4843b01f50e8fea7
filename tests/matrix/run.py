"""Running the tests of a row, and what came of it."""

from __future__ import annotations

import os
import re
import subprocess
import time
import xml.etree.ElementTree as ET  # the file is pytest's own
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.databases import Unavailable, url_variable
from tests.databases._server import leash
from tests.matrix.install import PROJECT, Environment, environment, home, say, server

if TYPE_CHECKING:
    from pathlib import Path

    from tests.matrix.rows import Row

VERSION = re.compile(r"\d+(?:\.\d+)+")
VARIABLES = ("MULLIGAN_TEST_REDIS_SERVER", "MULLIGAN_TEST_POSTGRES_PROGRAMS")
SHOWN_FAILURES = 20
# A version that is no number: which libraries there were.
LIBRARIES = "import importlib.metadata as m; print(*(f'{n} {m.version(n)}' for n in %r), sep=', ')"
NAMED = ("msgspec", "click", "redis", "psycopg", "pymongo", "starlette")


def run_row(row: Row, jobs: int) -> dict[str, Any]:
    """The result of a row, as it is kept."""
    began = time.monotonic()
    result: dict[str, Any] = {"name": row.name, "source": row.source, "at": today()}
    try:
        say(f"{row.name}: installing")
        made = environment(row)
        chosen = server(row)
        say(f"{row.name}: testing")
        found = test(row, made, chosen, jobs)
    except Unavailable as reason:
        return result | {"not_run": str(reason)}
    shown = version(row, made, chosen)
    return result | {"version": shown} | found | {"seconds": round(time.monotonic() - began)}


def test(row: Row, made: Environment, chosen: dict[str, str], jobs: int) -> dict[str, Any]:
    """Run the tests with the row's servers up; how many passed, and which failed."""
    report = home() / "reports" / f"{row.name.replace(' ', '-')}.xml"
    report.parent.mkdir(exist_ok=True)
    report.unlink(missing_ok=True)
    log = report.with_suffix(".log")
    pytest = [made.python, "-m", "pytest", "-q", "-n", str(jobs), f"--junitxml={report}"]
    command = [*made.prefix, made.python, "-m", "tests.databases", "run"]
    command += ["--stores", ",".join(row.stores), "--", *pytest, *row.tests]
    with log.open("wb") as output:
        done = subprocess.run(
            [*leash(), *(str(word) for word in command)],
            cwd=PROJECT,
            env=variables(row, chosen),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
        )
    if not report.exists():
        raise Unavailable(f"the tests did not run; see {log}")
    passed, failed, skipped = counts(report)
    if done.returncode != 0 and not failed:
        failed = [f"the run ended with code {done.returncode}: see {log}"]
    return {"passed": passed, "failed": failed[:SHOWN_FAILURES], "skipped": skipped}


def variables(row: Row, chosen: dict[str, str]) -> dict[str, str]:
    """The environment of the tests: a row's own server instead of one that is up already."""
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    if row.store is not None:
        kept.pop(url_variable(row.store), None)
    return kept | chosen | {"CI": "matrix", "PYTHONDONTWRITEBYTECODE": "1"}


def counts(report: Path) -> tuple[int, list[str], int]:
    """How many tests passed, the names of those that failed, and how many were skipped."""
    passed, skipped = 0, 0
    failed: list[str] = []
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - pytest's own
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('classname', '').replace('.', '/')}::{case.get('name')}")
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def version(row: Row, made: Environment, chosen: dict[str, str]) -> str:
    """What it calls itself."""
    if row.package is not None:
        return number(said([*made.prefix, made.python, "-c", LIBRARIES % ((row.package,),)]))
    if row.resolution is not None:
        return said([*made.prefix, made.python, "-c", LIBRARIES % (NAMED,)])
    if "MULLIGAN_TEST_POSTGRES_PROGRAMS" in chosen:
        program = f"{chosen['MULLIGAN_TEST_POSTGRES_PROGRAMS']}/postgres"
        return number(said([program, "--version"]))
    if "MULLIGAN_TEST_REDIS_SERVER" in chosen:
        return number(said([chosen["MULLIGAN_TEST_REDIS_SERVER"], "--version"]))
    return number(said([*made.prefix, made.python, "--version"]))


def number(text: str) -> str:
    """The first number of a version in a text."""
    found = VERSION.search(text)
    return found[0] if found else text


def said(command: list[Any]) -> str:
    """What a command prints."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def today() -> str:
    """The day, as results carry it."""
    return datetime.now(UTC).date().isoformat()
