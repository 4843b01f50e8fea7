"""Deterministic simulation from the command line.

`python -m tests.dst --seed 7` tells the story of one seed; `--seeds 2000 --jobs 2` runs many;
`--zoo` lets loose one planted bug after the other and says after how many seeds each was caught.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from tests.dst.day import live
from tests.dst.many_seeds import Total, spread
from tests.dst.story import tell
from tests.dst.zoo import SEEDS, ZOO, catch

STORES = {"memory": "memory://", "sqlite": "sqlite://", "shards": "memory://?shards=4"}


def main() -> int:
    """Do what is asked; 1 if an invariant was broken, or a bug of the zoo was not caught."""
    options = parsed()
    console = Console(stderr=options.json)
    if options.zoo:
        return zoo(console, as_json=options.json)
    if options.seed is not None:
        return one(console, options)
    return many(console, options)


def parsed() -> argparse.Namespace:
    """What is asked."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.dst",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, help="tell the story of this one")
    parser.add_argument("--job", help="with --seed: only what is about this job")
    parser.add_argument("--bug", choices=sorted(ZOO), help="with --seed: with this bug planted")
    parser.add_argument("--seeds", type=int, default=200, help="how many to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--store", choices=sorted(STORES), default="memory")
    parser.add_argument("--zoo", action="store_true", help="let the planted bugs loose")
    parser.add_argument("--json", action="store_true", help="figures for other programs")
    return parser.parse_args()


def one(console: Console, options: argparse.Namespace) -> int:
    """One seed, told as a story."""
    planted = ZOO[options.bug].let_loose() if options.bug else contextlib.nullcontext()
    with planted:
        store = ZOO[options.bug].store if options.bug else STORES[options.store]
        day = live(options.seed, store)
    if options.json:
        write(
            {
                "seed": day.seed,
                "commit": commit(),
                "jobs": day.jobs,
                "attempts": day.attempts,
                "stale_commits_refused": day.stale,
                "events": len(day.events),
                "faults": dict(day.faults),
                "violations": [
                    {"invariant": each.invariant, "job": each.job, "words": each.words}
                    for each in day.violations
                ],
            }
        )
    else:
        tell(day, console, options.job)
        say_commit(console)
    return int(bool(day.violations))


def many(console: Console, options: argparse.Namespace) -> int:
    """Many seeds, added up."""
    total = Total()
    seeds = range(options.first, options.first + options.seeds)
    columns = (
        TextColumn("days"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[broken]} broken"),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("days", total=len(seeds), broken=0)
        for days in spread(seeds, options.jobs, STORES[options.store]):
            total.add(days)
            progress.update(bar, advance=len(days), broken=len(total.broken))
    if options.json:
        write({"commit": commit(), **total.as_json()})
    else:
        console.print(figures(total))
        for day in sorted(total.broken)[:20]:
            name, job, words = day.violations[0]
            console.print(f"[red]seed {day.seed}[/]: {name}: {job}: {words}", highlight=False)
        say_commit(console)
    return int(bool(total.broken))


def figures(total: Total) -> Table:
    """What there was, and what was done to it."""
    table = Table(title="simulated days")
    table.add_column("what")
    table.add_column("how many", justify="right")
    for name, value in total.figures.items():
        table.add_row(name.replace("_", " "), f"{value:,}")
    table.add_row("seeds with violations", f"{len(total.broken):,}")
    table.add_section()
    for name, value in total.faults.most_common():
        table.add_row(name, f"{value:,}")
    return table


def zoo(console: Console, *, as_json: bool) -> int:
    """Every planted bug, and after how many seeds it was caught."""
    table = Table("bug", "what it does", "seeds", "seen by", title=f"bug zoo: {len(ZOO)}")
    told: list[dict[str, Any]] = []
    for bug in ZOO.values():
        with console.status(f"{bug.name} is loose"):
            caught = catch(bug)
        seeds = "[red]never[/]" if caught.seeds is None else str(caught.seeds)
        table.add_row(bug.name, bug.words, seeds, ", ".join(caught.invariants))
        told.append({"bug": bug.name, "seeds": caught.seeds, "invariants": caught.invariants})
    if as_json:
        write(told)
    else:
        console.print(table)
        say_commit(console)
    missed = [each["bug"] for each in told if each["seeds"] is None]
    if missed:
        console.print(f"[red]not caught within {SEEDS} seeds:[/] {', '.join(missed)}")
    return int(bool(missed))


def say_commit(console: Console) -> None:
    """Which code was run: a seed is a day of one commit."""
    console.print(f"commit {commit()}", highlight=False)


def commit() -> str:
    """The commit that is checked out, and whether there are changes; of no use without git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        told = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return told.stdout.strip()


def write(value: Any) -> None:
    """As JSON."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
