"""Many seeds, on several processes, added up."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, NamedTuple

from tests.dst.day import live, uncollected

CHUNK = 10


class Lived(NamedTuple):
    """What is kept of a day: figures, and each violation as (invariant, job, words)."""

    seed: int
    jobs: int
    attempts: int
    stale: int
    events: int
    faults: "Counter[str]"
    violations: list[tuple[str, str, str]]
    seconds: float


def lived(seeds: Iterable[int], store: str = "memory://") -> list[Lived]:
    """Live through these days, one after the other, in this process."""
    with uncollected():
        return [summary(seed, store) for seed in seeds]


def summary(seed: int, store: str) -> Lived:
    """One day, without its events."""
    day = live(seed, store)
    told = [(each.invariant, each.job, each.words) for each in day.violations]
    return Lived(
        seed, day.jobs, day.attempts, day.stale, len(day.events), day.faults, told, day.seconds
    )


def spread(seeds: Sequence[int], processes: int, store: str) -> Iterator[list[Lived]]:
    """Live through many days on several processes; some at a time, as they are over."""
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    with ProcessPoolExecutor(processes) as pool:
        for future in as_completed([pool.submit(lived, chunk, store) for chunk in chunks]):
            yield future.result()


class Total:
    """The sum of many days."""

    def __init__(self) -> None:
        self.figures: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.broken: list[Lived] = []

    def add(self, days: Iterable[Lived]) -> None:
        """Add them."""
        for day in days:
            self.figures.update(
                seeds=1,
                jobs=day.jobs,
                attempts=day.attempts,
                stale_commits_refused=day.stale,
                events=day.events,
            )
            self.faults.update(day.faults)
            if day.violations:
                self.broken.append(day)

    def as_json(self) -> dict[str, Any]:
        """All of it, for other programs."""
        return {
            **self.figures,
            "faults": dict(sorted(self.faults.items())),
            "violations": [
                {"seed": day.seed, "invariant": name, "job": job, "words": words}
                for day in sorted(self.broken)
                for name, job, words in day.violations
            ],
        }
