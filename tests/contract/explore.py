"""Compare stores with the memory store by commands that nobody has drawn before.

`make test` draws the same programs everywhere; this draws new ones until the time is up, the same
for each store, which all get the same time. The first program that a store answers otherwise than
memory does is made as short as possible and printed, with the command that repeats it. Ctrl-C ends
it with what was counted so far.
"""

import argparse
import math
import os
import secrets
import sys
import tempfile
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from msgspec import Struct

from tests.contract import steps
from tests.contract.programs import LENGTH, Difference, Program, compare, parsed
from tests.store_kit import STORES, require

SEEDS = 2**32
# Seconds between two lines of progress.
PAUSE = 10.0


class Turn(Struct):
    """What one store is to do, and how far it has come."""

    store: str
    chance: Random
    length: int
    before: int
    seconds: float = 0.0
    programs: int = 0

    @property
    def commands(self) -> int:
        """How many commands were compared."""
        return steps.compared(self.store) - self.before

    def next(self, folder: Path) -> Difference | None:
        """Compare the next program."""
        began = time.monotonic()
        self.programs += 1
        program = Program(self.chance.randrange(SEEDS), tuple(range(self.length)))
        differing = compare(self.store, program, folder)
        self.seconds += time.monotonic() - began
        return differing

    def __str__(self) -> str:
        counts = f"{self.commands:,} commands, {self.programs:,} programs"
        return f"{self.store} against memory: {counts}"


def main() -> int:
    """Explore, or repeat one program; 1 if a store differs."""
    parser = parser_of()
    options = parser.parse_args()
    try:
        for store in options.stores:
            require(store)
    except pytest.skip.Exception as missing:
        parser.error(str(missing))
    with tempfile.TemporaryDirectory(prefix="mulligan-explore-") as folder:
        if options.program is not None:
            differing = repeat(options.stores, options.program, Path(folder))
        else:
            differing = explore(options, Path(folder))
    print(*differing, sep="\n\n")
    return int(bool(differing))


def parser_of() -> argparse.ArgumentParser:
    """What may be asked."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.contract.explore",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="how long, for all stores")
    parser.add_argument("--commands", type=int, help="stop a store after so many")
    parser.add_argument("--stores", type=stores, default=stores(), help="such as sqlite,redis")
    parser.add_argument("--length", type=int, default=LENGTH, help="commands of a program")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time")
    parser.add_argument("--seed", type=int, help="draw what a run with this seed drew")
    parser.add_argument("--program", type=parsed, help="run only this one, as a failure names it")
    return parser


def stores(text: str = "") -> list[str]:
    """The stores that are named, or those that `tests.databases run` was told of."""
    names = (text or os.environ.get("MULLIGAN_TEST_STORES") or ",".join(STORES)).split(",")
    for name in names:
        if name not in STORES:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(STORES)}")
    return [name for name in names if text or name != "memory"]


def repeat(names: list[str], program: Program, folder: Path) -> list[Difference]:
    """Run one program on each store."""
    differing = [found for name in names if (found := compare(name, program, folder))]
    alike = set(names) - {each.store for each in differing}
    print(*(f"{name} answers as memory does" for name in sorted(alike)), sep="\n")
    return differing


def explore(options: argparse.Namespace, folder: Path) -> list[Difference]:
    """Draw programs until the time is up, every store has done enough, or one differs."""
    seed = secrets.randbelow(SEEDS) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    turns = [
        Turn(name, Random(seed), options.length, steps.compared(name)) for name in options.stores
    ]
    most = options.commands or math.inf
    began = shown = time.monotonic()
    differing: list[Difference] = []
    running: set[Future[Difference | None]] = set()
    with suppress(KeyboardInterrupt), ThreadPoolExecutor(options.jobs) as pool:
        while going := [turn for turn in turns if turn.commands < most]:
            if differing or time.monotonic() - began > 60 * options.minutes:
                break
            turn = min(going, key=lambda each: each.seconds)
            running.add(pool.submit(turn.next, folder))
            if len(running) == options.jobs:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                differing += [found for each in done if (found := each.result())]
            if time.monotonic() - shown > PAUSE:
                shown = time.monotonic()
                show(turns, shown - began)
        differing += [found for each in running if (found := each.result())]
    print(*turns, sep="\n")
    return differing


def show(turns: list[Turn], seconds: float) -> None:
    """Say how far it has come."""
    counts = ", ".join(f"{each.store} {each.commands:,}" for each in turns)
    print(f"{seconds / 60:.1f} min: {counts} commands", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
