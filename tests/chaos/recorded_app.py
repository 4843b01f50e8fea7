"""An app whose processes write down all that they ask of their store, and all that tasks do."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Literal

from mulligan import Fail, Mulligan, current_job
from mulligan.stores.contract import Store
from tests.history import Attempt, Clerk, InFile, recorded
from tests.history.events import StepRun

# The folder of the history; unset, nothing is written.
HISTORY = "MULLIGAN_CHAOS_HISTORY"
_numbers = count()


class Recorded(Mulligan):
    """Every handle on the store has a file of its own, which outlives its process."""

    def make_store(self, *, inline: bool = False) -> Store:
        """A handle that writes down what is asked of it."""
        store = super().make_store(inline=inline)
        if HISTORY not in os.environ:
            return store
        name = new_name()
        return recorded(store, InFile(Path(os.environ[HISTORY]) / f"{name}.jsonl"), name)


def new_name() -> str:
    """A name for one writer of one process, never used again."""
    return f"{os.getpid()}-{next(_numbers)}-{time.time_ns():x}"


@cache
def clerk() -> Clerk | None:
    """Who writes down what the tasks of this process do."""
    if HISTORY not in os.environ:
        return None
    name = new_name()
    return Clerk(InFile(Path(os.environ[HISTORY]) / f"{name}.jsonl"), name, time.monotonic)


class Ending:
    """How an attempt ends, if no error ends it; a task that is told off says `refused`."""

    def __init__(self) -> None:
        self.said: Literal["succeeded", "refused"] = "succeeded"


@contextmanager
def attempt() -> Iterator[Ending]:
    """Write down that the current attempt starts, and how it ends."""
    writer, job, ending = clerk(), current_job(), Ending()
    if writer is None:
        yield ending
        return
    writer.note(Attempt(job=job.id, token=job.token, said="started"))
    try:
        yield ending
    except Exception as error:
        said: Literal["gave up", "failed"] = "gave up" if isinstance(error, Fail) else "failed"
        writer.note(Attempt(job=job.id, token=job.token, said=said))
        raise
    writer.note(Attempt(job=job.id, token=job.token, said=ending.said))


def step_runs(name: str) -> None:
    """Write down that the function of a step is called."""
    writer, job = clerk(), current_job()
    if writer is not None:
        writer.note(StepRun(job=job.id, token=job.token, name=name))
