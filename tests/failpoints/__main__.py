"""`python -m tests.failpoints --store redis`: every point, who died there, and what came of it."""

# ruff: noqa: T201 - a command-line tool speaks by printing

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.failpoints.killed_play import Performance
from tests.failpoints.one_death import Outcome
from tests.failpoints.places import places
from tests.failpoints.plays import EVERYWHERE, PLAYS, Play


def main() -> None:
    """Kill at every point of one store; exit 1 if anything was wrong afterwards."""
    parser = argparse.ArgumentParser(prog="python -m tests.failpoints", description=__doc__)
    parser.add_argument("--store", choices=EVERYWHERE, default="sqlite")
    parser.add_argument("--role", help="only this role")
    parser.add_argument("--play", help="only this play")
    parser.add_argument("--json", action="store_true", dest="as_json")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, places(options.store, Path(folder)) as made:
        played = [
            (play, asyncio.run(Performance(play, made, Path(folder)).run()))
            for play in PLAYS
            if options.store in play.stores
            and options.role in (None, play.role)
            and options.play in (None, play.name)
        ]
    report = summary(options.store, played, time.monotonic() - began)
    if options.as_json:
        print(json.dumps(report, indent=2))
    else:
        show(report)
    sys.exit(bool(report["wrong"]))


def summary(store: str, played: list[tuple[Play, list[Outcome]]], seconds: float) -> dict[str, Any]:
    """The run in one document."""
    rows = [
        {
            "role": play.role,
            "play": play.name,
            "point": outcome.point,
            "outcome": "; ".join(outcome.wrong) or ("recovered" if outcome.died else "not reached"),
        }
        for play, outcomes in played
        for outcome in outcomes
    ]
    every = [outcome for _, outcomes in played for outcome in outcomes]
    return {
        "store": store,
        "points": len(every),
        "killed": sum(outcome.died for outcome in every),
        "wrong": sum(bool(outcome.wrong) for outcome in every),
        "seconds": round(seconds, 1),
        "rows": rows,
    }


def show(report: dict[str, Any]) -> None:
    """The run as a table: point by role, and what came of it."""
    title = (
        f"{report['store']}: {report['killed']} kills at {report['points']} points,"
        f" {report['wrong']} wrong, {report['seconds']} s"
    )
    table = Table("role", "play", "point", "outcome", title=title)
    for row in report["rows"]:
        colour = {"recovered": "green", "not reached": "yellow"}.get(row["outcome"], "red")
        table.add_row(row["role"], row["play"], row["point"], f"[{colour}]{row['outcome']}[/]")
    Console().print(table)


if __name__ == "__main__":
    main()
