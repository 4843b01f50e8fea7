"""`python -m tests.chaos.operator_process`: an operator who pauses, cancels, replays and resumes.

SIGTERM ends it with nothing paused. If it is killed, the next one resumes what it has paused;
with `--leave`, that is all that it does.
"""

import random
import signal
import sys
import time
from collections.abc import Callable

from mulligan.core.errors import StoreError
from mulligan.core.job import Job, Status
from mulligan.core.page import Selection
from mulligan.stores.contract import Store
from tests.chaos.app import HALTING, app

LEAVE = "--leave"
EVERY = 0.4
SEEN = 100
CHOSEN = 3


def main() -> None:
    """One thing after the other, until told to stop."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    until_answered(resume)
    while not stopped and LEAVE not in sys.argv:
        for wish in (pause, cancel, replay):
            tried(wish)
            time.sleep(EVERY)
        until_answered(resume)
        time.sleep(EVERY)
    app.close()


def pause() -> None:
    """Have a queue stand still."""
    app.pause(HALTING)


def resume() -> None:
    """Have it go on."""
    app.resume(HALTING)


def cancel() -> None:
    """End some of the jobs that wait."""
    for job in some("pending"):
        app.job(job.id).cancel("no longer wanted")


def replay() -> None:
    """Give some dead letters a second chance, not a third."""
    jobs = [job.id for job in some("failed") if not job.replay]
    if jobs:
        app.replay(jobs)


def some(status: Status) -> list[Job]:
    """A few jobs of this status."""

    async def read(store: Store) -> list[Job]:
        return (await store.page(Selection(status=status), SEEN)).jobs

    jobs = app.run(lambda: app.access.acall(read))
    return random.sample(jobs, min(CHOSEN, len(jobs)))


def tried(wish: Callable[[], None]) -> bool:
    """Whether the store answered."""
    try:
        wish()
    except (StoreError, OSError) as error:
        print(f"operator: {error}", file=sys.stderr)
        return False
    return True


def until_answered(wish: Callable[[], None]) -> None:
    """Wish until the store answers."""
    while not tried(wish):
        time.sleep(EVERY)


if __name__ == "__main__":
    main()
