"""A process as the system sees it: its memory, its open files, the time it has used."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
MIB = 1024 * 1024


class Sample(NamedTuple):
    """One look: when, how many bytes of memory, how many open files, seconds of processor time."""

    at: float
    memory: int
    files: int
    busy: float


def look(pid: int) -> Sample:
    """The process now."""
    folder = Path(f"/proc/{pid}")
    pages = int((folder / "statm").read_text().split()[1])
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    busy = (int(fields[11]) + int(fields[12])) / TICKS
    return Sample(time.monotonic(), pages * PAGE, len(list((folder / "fd").iterdir())), busy)


def watch(pid: int, seconds: float, every: float) -> Iterator[Sample]:
    """Look at the process for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield look(pid)
        time.sleep(every)


def share_of_a_core(before: Sample, after: Sample) -> float:
    """Which part of the time between two looks the process was at work."""
    return (after.busy - before.busy) / (after.at - before.at)


class Growth(NamedTuple):
    """How a run went: memory at first, at most and at last in MiB, and the numbers of open files.

    "At first" is after the first quarter, when everything that is loaded once is loaded.
    """

    first: float
    most: float
    last: float
    fewest_files: int
    most_files: int

    @property
    def grown(self) -> float:
        """By how many MiB the memory grew since the first quarter."""
        return self.last - self.first


def growth_of(samples: list[Sample]) -> Growth:
    """The run in five numbers; the ends are means over an eighth of it, as memory jitters."""
    settled = samples[len(samples) // 4 :]
    part = max(1, len(samples) // 8)
    files = [sample.files for sample in settled]
    return Growth(
        mean(settled[:part]),
        max(sample.memory for sample in settled) / MIB,
        mean(settled[-part:]),
        min(files),
        max(files),
    )


def mean(samples: list[Sample]) -> float:
    """The mean memory in MiB."""
    return round(sum(sample.memory for sample in samples) / len(samples) / MIB, 2)
