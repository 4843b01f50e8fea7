"""The order of a run: in each round every contender is measured once, in turn."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.progress import Progress

from benchmarks.contenders import Contender
from benchmarks.crash import crashes
from benchmarks.measures import MEASURES, ONCE, Figures, Sizes, measured
from tests.databases import url_variable

EVERYTHING = (*MEASURES, "raw", "crash")
RAW = Path(__file__).with_name("raw.py")


class Turns:
    """Collects the figures of each contender, a dictionary for each round."""

    def __init__(
        self, contenders: Sequence[Contender], options: argparse.Namespace, progress: Progress
    ) -> None:
        self._contenders = contenders
        self._whole = [each for each in contenders if not each.only]
        self._stores = list(dict.fromkeys(each.store for each in contenders))
        self._options = options
        self._only = options.only or EVERYTHING
        self._sizes = Sizes(options.scale)
        self._finished: set[tuple[str, str]] = set()
        self._rounds: dict[str, list[Figures]] = {each.key: [] for each in contenders}
        self._progress = progress
        self._bar = progress.add_task("measuring", total=self._steps())

    def take(self) -> dict[str, list[Figures]]:
        """All rounds; crashes once, at the end."""
        if "raw" in self._only:
            self._rounds |= {f"{store}/raw": [] for store in self._stores}
        for number in range(1, self._options.rounds + 1):
            for figures in self._rounds.values():
                figures.append({})
            for measure in MEASURES:
                for contender in self._contenders if measure in self._only else ():
                    self._show(f"{number}: {measure}: {contender.key}")
                    self._turn(contender, measure)
            for store in self._stores if "raw" in self._only else ():
                self._show(f"{number}: raw: {store}")
                self._rounds[f"{store}/raw"][-1] |= raw(store, self._sizes)
                self._advance()
        if "crash" in self._only:
            self._show("crash recovery, all at once")
            for key, found in crashes(self._whole, self._options.cap, self._advance).items():
                self._rounds[key][-1] |= found
        return self._rounds

    def _turn(self, contender: Contender, measure: str) -> None:
        turn = contender.key, measure
        if turn not in self._finished:
            figures = measured(contender, measure, self._sizes)
            self._rounds[contender.key][-1] |= figures
            # Where a wait was in vain once, its words stand for the other rounds too.
            vain = any(isinstance(v, str) for k, v in figures.items() if not k.endswith("_error"))
            if vain or measure in ONCE:
                self._finished.add(turn)
        self._advance()

    def _advance(self) -> None:
        self._progress.advance(self._bar)

    def _show(self, words: str) -> None:
        self._progress.update(self._bar, description=words)

    def _steps(self) -> int:
        measures = sum(measure in self._only for measure in MEASURES)
        a_round = len(self._contenders) * measures + len(self._stores) * ("raw" in self._only)
        crash = 2 * len(self._whole) * ("crash" in self._only)
        return int(self._options.rounds * a_round + crash)


def raw(store: str, sizes: Sizes) -> Figures:
    """The same rows and batches without mulligan."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"{folder}/raw.db" if store == "sqlite" else os.environ[url_variable(store)]
        jobs = sizes.of(20_000, 1000)
        command = [sys.executable, str(RAW), store, url, "--jobs", str(jobs)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"raw_error": done.stderr.strip().splitlines()[-1]}
    found: Figures = json.loads(done.stdout)
    return found
