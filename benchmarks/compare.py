"""mulligan beside its peers in one run: interleaved, medians of three, as ratios.

    python benchmarks/compare.py                # SQLite: mulligan and Huey

Machines differ and are noisy; what counts is how the figures of one run relate to each other. Each
peer has a venv of its own in a cache folder, made at the first run from its pinned requirements.
"""

import argparse
import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "mulligan" / "peers"
FIGURES = ("enqueue_one_per_s", "enqueue_bulk_per_s", "drain_per_s", "drain_plain_per_s")


def main() -> None:
    """Run all, print the table, keep the JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=20_000, help="for peers; slow ones take less")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    console = Console()
    runs: dict[str, list[dict[str, float]]] = {"mulligan": [], "huey": [], "huey, no fsync": []}
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("measuring", total=3 * options.rounds + 1)
        python = peer_python("huey")
        progress.advance(bar)
        for _ in range(options.rounds):
            runs["mulligan"].append(run([sys.executable, "-m", "mulligan", "bench", "--json"]))
            progress.advance(bar)
            script = HERE / "peers" / "huey_sqlite.py"
            for name, fsync in (("huey", "on"), ("huey, no fsync", "off")):
                os.environ["HUEY_BENCH_FSYNC"] = fsync
                runs[name].append(run([python, str(script), str(options.jobs // 4)]))
                progress.advance(bar)
    found = {
        name: {f: median(r[f] for r in each) for f in FIGURES if f in each[0]}
        for name, each in runs.items()
    }
    peers = [name for name in found if name != "mulligan"]
    table = Table("SQLite, per second", "mulligan", *peers)
    for figure in FIGURES:
        ours = found["mulligan"][figure]
        table.add_row(
            figure, f"{ours:,.0f}", *(beside(ours, found[peer].get(figure)) for peer in peers)
        )
    console.print(table)
    if options.json:
        options.json.write_text(json.dumps({"medians": found, "runs": runs}, indent=2))


def beside(ours: float, theirs: float | None) -> str:
    """A peer's figure, and how many times as fast mulligan is."""
    return "-" if theirs is None else f"{theirs:,.0f} ({ours / theirs:.1f} x)"


def peer_python(peer: str) -> str:
    """The Python of the peer's venv, made and filled if it is not there."""
    home = CACHE / peer
    python = home / "bin" / "python"
    requirements = HERE / "peers" / f"{peer}.txt"
    if not python.exists():
        venv.create(home, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", requirements], check=True)
    return str(python)


def run(command: list[str]) -> dict[str, float]:
    """Run a benchmark that prints JSON."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()
