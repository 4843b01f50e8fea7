"""mulligan beside its peers in one run: interleaved, medians over rounds, as ratios.

    python -m tests.databases run --stores redis,postgres,mongo -- python -m benchmarks.compare

Machines differ and are noisy; what counts is how the figures of one run relate to each other. In
each round every contender is measured once, in turn, on a store that has just been emptied. Each
peer has an environment of its own in a cache folder, made at the first run from its pins.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.contender import Driver
from benchmarks.contenders import CONTENDERS, Contender
from benchmarks.emptied import PLACES
from benchmarks.environments import MissingError
from benchmarks.figures import over_rounds
from benchmarks.tables import tables
from benchmarks.turns import EVERYTHING, Turns
from tests.databases import unavailable_variable, url_variable

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    """Install, measure, print the tables, keep the JSON."""
    options = arguments()
    console = Console()
    contenders, versions, left_out = able(chosen(options), console)
    result: dict[str, Any] = {"machine": machine(), "options": vars(options) | {"json": None}}
    result |= {"left_out": left_out, "versions": versions}
    began = time.time()
    with progress_bar(console) as progress:
        rounds = Turns(contenders, options, progress).take()
    result["seconds"] = round(time.time() - began)
    result["medians"] = {key: over_rounds(each) for key, each in rounds.items() if each}
    result["rounds"] = rounds
    options.json.parent.mkdir(exist_ok=True)
    options.json.write_text(json.dumps(result, indent=1) + "\n")
    for table in tables(result):
        console.print(table)
    console.print(f"{result['seconds']} s; kept in {options.json}")


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=words(EVERYTHING), help=f"of {','.join(EVERYTHING)}")
    names = tuple(dict.fromkeys(each.peer for each in CONTENDERS))
    parser.add_argument("--peers", type=words(names), help=f"of {','.join(names)}")
    parser.add_argument("--stores", type=words(tuple(PLACES)), help=f"of {','.join(PLACES)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of jobs")
    parser.add_argument("--cap", type=float, default=120.0, help="seconds to wait after a crash")
    name = time.strftime("%Y-%m-%d-%H%M%S.json")
    parser.add_argument("--json", type=Path, default=RESULTS / name)
    return parser.parse_args()


def words(known: tuple[str, ...]) -> Callable[[str], list[str]]:
    """A parser of words between commas, each of which must be known."""

    def parse(text: str) -> list[str]:
        for word in text.split(","):
            if word not in known:
                raise argparse.ArgumentTypeError(f"{word!r} is not one of {', '.join(known)}")
        return text.split(",")

    return parse


def chosen(options: argparse.Namespace) -> list[Contender]:
    """The contenders that were asked for."""
    return [
        each
        for each in CONTENDERS
        if (not options.peers or each.peer in options.peers)
        and (not options.stores or each.store in options.stores)
    ]


def able(
    contenders: list[Contender], console: Console
) -> tuple[list[Contender], dict[str, str], dict[str, str]]:
    """Those that can run on this machine, installed; their versions; why the others cannot."""
    fit: list[Contender] = []
    versions: dict[str, str] = {}
    left_out: dict[str, str] = {}
    with console.status("installing the peers") as status:
        for contender in contenders:
            status.update(f"preparing {contender.key}")
            try:
                versions[contender.peer] = prepare(contender)
                fit.append(contender)
            except (MissingError, RuntimeError) as error:
                left_out[contender.key] = str(error)
                console.print(f"left out: {contender.key}: {error}")
    return fit, versions, left_out


def prepare(contender: Contender) -> str:
    """Install it and start its client; the version that this one tells."""
    store = contender.store
    if store != "sqlite" and url_variable(store) not in os.environ:
        why = os.environ.get(unavailable_variable(store), "start it with tests.databases")
        raise MissingError(f"no {store} server: {why}")
    driver = Driver(contender)
    driver.close()
    return driver.version


def progress_bar(console: Console) -> Progress:
    """What is being measured, and how long it may still take."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}"))
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(*columns, *times, console=console, transient=True)


def machine() -> dict[str, str | int]:
    """What the figures depend on."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": next((x.partition(": ")[2] for x in info if x.startswith("model name")), "?"),
        "cores": os.cpu_count() or 0,
        "memory_gib": round(memory),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }


if __name__ == "__main__":
    main()
