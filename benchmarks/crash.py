"""A worker is killed while it runs a job and another one is idle: when does the job run again?

All contenders at once, as nearly all of the time is spent waiting; each has a store of its own.
"""

import time
from collections.abc import Callable, Sequence

from benchmarks.contender import Driver
from benchmarks.contenders import Contender

Figures = dict[str, float | str]
# The idle one is given so long to start; the job would run for so long.
STARTS_WITHIN, LASTS = 2.5, 900.0
JOB = "killed"


def crashes(
    contenders: Sequence[Contender], cap: float, advance: Callable[[], None]
) -> dict[str, Figures]:
    """Seconds until each contender's job runs again, or words for why it does not."""
    found: dict[str, Figures] = {}
    running: list[tuple[Driver, float]] = []
    try:
        for contender in contenders:
            try:
                driver = Driver(contender)
                running.append((driver, kill_the_busy_one(driver)))
            except (RuntimeError, TimeoutError, OSError) as error:
                found[contender.key] = {"crash_error": str(error)}
            advance()
        for driver, killed in running:
            found[driver.contender.key] = {"crash_s": back_after(driver, killed, cap)}
            driver.close()
            advance()
    finally:
        for driver, _ in running:
            driver.close()
    return found


def kill_the_busy_one(driver: Driver) -> float:
    """Have one of two workers run a job and kill it; the moment of it."""
    busy = driver.start_worker()
    driver.work(JOB, seconds=LASTS)
    if not driver.notes.wait_for(JOB, "start", within=30.0):
        raise TimeoutError(f"no job was started: {driver.said()}")
    driver.start_worker()
    time.sleep(STARTS_WITHIN)
    driver.kill(busy)
    return time.time()


def back_after(driver: Driver, killed: float, cap: float) -> float | str:
    """Seconds until the job runs again; if it does not by then, whether it is still there."""
    left = max(0.0, cap - (time.time() - killed))
    if driver.notes.wait_for(JOB, "start", within=left, times=2):
        back = round(driver.notes.times(JOB, "start")[1] - killed, 2)
        # Those whose turn to be looked at came late had longer; the cap is the same for all.
        return back if back <= cap else f"> {cap:.0f} s"
    return f"> {cap:.0f} s" if driver.count("left") else "lost"
