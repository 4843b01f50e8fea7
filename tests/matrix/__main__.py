"""`python -m tests.matrix [WORD]...`: run the tests with every version that is claimed.

A row is a version of Python, PostgreSQL, Redis or Valkey, or a resolution of the dependencies. It
is installed into `~/.cache/mulligan`, a part of the tests is run with it, and what came of it goes
into versions.md. WORDs choose rows by their names. Exit code 1 if a row failed, or if one that
was asked for by a word could not be had.
"""

from __future__ import annotations

import argparse
import sys

from tests.matrix.install import say
from tests.matrix.page import Result, keep, line
from tests.matrix.rows import ROWS, chosen
from tests.matrix.run import run_row


def main() -> int:
    """Run the rows, one after the other, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="a part of a row's name")
    parser.add_argument("--list", action="store_true", help="name the rows, and run none")
    parser.add_argument("--jobs", type=int, default=2, help="test processes (2)")
    parser.add_argument("--dry", action="store_true", help="leave versions.md as it is")
    options = parser.parse_args()
    if options.list:
        print("\n".join(row.name for row in ROWS))
        return 0
    try:
        rows = chosen(options.words)
    except ValueError as error:
        parser.error(str(error))
    results: list[Result] = []
    for place, row in enumerate(rows, 1):
        say(f"[{place}/{len(rows)}] {row.name}")
        result = run_row(row, options.jobs)
        results.append(result)
        say(f"[{place}/{len(rows)}] {summary(result)}")
        if not options.dry:
            keep(result)
    print("\n".join(line(each) for each in results))
    for each in results:
        for test in each.get("failed", ()):
            print(f"{each['name']}: failed: {test}")
        if "not_run" in each:
            print(f"{each['name']}: not run: {each['not_run']}")
    wanted = bool(options.words)
    return int(any(each.get("failed") or (wanted and "not_run" in each) for each in results))


def summary(result: Result) -> str:
    """A result in a line."""
    if "not_run" in result:
        return f"{result['name']}: not run: {result['not_run']}"
    return (
        f"{result['name']} ({result['version']}): {result['passed']} passed,"
        f" {len(result['failed'])} failed, {result['skipped']} skipped, {result['seconds']} s"
    )


if __name__ == "__main__":
    sys.exit(main())
