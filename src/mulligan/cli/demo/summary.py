"""The last lines of the demo."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from mulligan.cli.demo.totals import Totals


def summary(result: Totals, url: str | None, seconds: float) -> Iterator[str]:
    """The totals in words, the dead letter, and commands to try if the store was kept."""
    good = click.style("✓", fg="green")
    yield ""
    yield click.style(f"{result.jobs} questions in {seconds:.1f} s:", bold=True)
    yield f"  {good} {result.done} done, {len(result.dead)} failed for good"
    yield (
        f"  {good} {result.retries} retries, {result.elsewhere} of them run by another region than"
        " the one that had failed"
    )
    yield (
        f"  {good} a retry that was due waited {result.median_wait * 1000:.0f} ms (median),"
        f" {result.longest_wait * 1000:.0f} ms at most"
    )
    yield f'  {good} {result.refused} answers said "Error"; they were refused and asked again'
    yield f"  {good} {result.lost} taken from a killed worker and finished by others"
    if not result.problems:
        yield f"  {good} nothing lost, nothing twice"
    for job, history in result.dead:
        last = history[-1]
        yield ""
        yield f"Dead letter {job.id}: {last.type}: {last.message}, {len(history)} attempts."
    if url is not None:
        yield ""
        yield "Look around; the store is still there:"
        yield f"  export MULLIGAN_STORE={url}"
        yield f"  {program()} status"
        for job, _ in result.dead[:1]:
            yield f"  {program()} job {job.id}"
            yield f"  {program()} dead replay {job.id}  # once the cause is fixed"
        yield f"  {program()} jobs --text 'timed out'"


def program() -> str:
    """The command by which the shell called this program."""
    called = Path(sys.argv[0])
    if called.name != "mulligan":
        return "python -m mulligan"
    found = shutil.which("mulligan")
    if found is not None and Path(found).resolve() == called.resolve():
        return "mulligan"
    return os.path.relpath(called)
