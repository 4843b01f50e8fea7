"""What is measured, each on an emptied store with processes of its own; a measure gives figures."""

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contender import Driver
from benchmarks.contenders import BOTH, Contender
from benchmarks.figures import spread
from tests.databases._server import family

Figures = dict[str, float | str]
DRAINED_WITHIN, STORM_WITHIN, LATE_WITHIN, PICKED_UP_WITHIN = 60.0, 40.0, 15.0, 5.0
LATE_DELAY, STORM_DELAY = 2.0, 0.5
STORM_CONCURRENCY = 4
# work that waits: jobs of so many seconds, so many at a time, and how many at most
WAIT, WAIT_CONCURRENCY, MOST_WAITING = 0.001, 100, 20_000
# Graphile Worker has a backoff of its own
FIXED_DELAYS = {"graphile": 2.718281828}


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of each to do; a scale below 1 does less."""

    scale: float = 1.0

    def of(self, count: float, least: int) -> int:
        """So many, scaled, in whole multiples of the least."""
        return max(1, round(count * self.scale / least)) * least


def throughput(driver: Driver, sizes: Sizes) -> Figures:
    """Enqueue one by one, enqueue in bulk, then drain all of it with one worker."""
    contender = driver.contender
    driver.work("first")
    single = sizes.of(min(1000, contender.rate), 100)
    figures: Figures = {
        "enqueue_one_per_s": rate(single, lambda: driver.call("enqueue_one", single))
    }
    plain = "async" not in contender.kinds
    many = sizes.of(1.5 * contender.rate, 100)
    bulk = rate(many, lambda: driver.fill(many, plain=plain))
    if contender.bulk:
        figures["enqueue_bulk_per_s"] = bulk
    figures["drain_plain_per_s" if plain else "drain_per_s"] = drain(driver, 1)
    return figures


def plain_functions(driver: Driver, sizes: Sizes) -> Figures:
    """Drain plain functions, where coroutines were drained before."""
    driver.work("first")
    driver.fill(sizes.of(min(1.5 * driver.contender.rate, 30_000), 100), plain=True)
    return {"drain_plain_per_s": drain(driver, 1)}


def work_that_waits(driver: Driver, sizes: Sizes) -> Figures:
    """Coroutines of 1 ms, a hundred at a time, which note when they begin and end."""
    count = sizes.of(min(driver.contender.rate, MOST_WAITING), 100)
    jobs = [f"wait-{number}" for number in range(count)]
    driver.call("enqueue_work", [[job, WAIT, 0.0] for job in jobs])
    driver.start_worker(WAIT_CONCURRENCY)
    begins, ends = begun_and_ended(driver, jobs, DRAINED_WITHIN)
    return {"drain_waiting_per_s": round(count / (max(ends) - min(begins)), 1)}


def begun_and_ended(
    driver: Driver, jobs: list[str], within: float
) -> tuple[list[float], list[float]]:
    """When each of the jobs first began, and when it ended."""
    notes, give_up = driver.notes, time.monotonic() + within
    while left := sum(not notes.times(job, "end") for job in jobs):
        if time.monotonic() > give_up:
            raise TimeoutError(f"{left:,} of {len(jobs):,} left: {driver.said()}")
        time.sleep(0.1)
        notes.read()
    begins = [notes.times(job, "start")[0] for job in jobs]
    return begins, [notes.times(job, "end")[-1] for job in jobs]


def two_workers(driver: Driver, sizes: Sizes) -> Figures:
    """Drain with two worker processes; beside one, it shows what a second adds."""
    driver.work("first")
    plain = "async" not in driver.contender.kinds
    driver.fill(sizes.of(1.5 * driver.contender.rate, 100), plain=plain)
    return {"drain_two_per_s": drain(driver, 2)}


def latency(driver: Driver, sizes: Sizes) -> Figures:
    """An idle worker: how soon it picks a job up, how late a retry starts."""
    driver.idle_worker()
    return {**pick_up(driver, sizes.of(100, 5)), **lateness(driver, sizes.of(100, 5))}


def storm(driver: Driver, sizes: Sizes) -> Figures:
    """2,000 jobs of 2 ms at concurrency 4, of which half fail once and ask for half a second."""
    count = sizes.of(2000, 20)
    jobs = [f"storm-{number}" for number in range(count)]
    calls = [[job, 0.002, STORM_DELAY if n % 2 == 0 else 0.0] for n, job in enumerate(jobs)]
    driver.call("enqueue_work", calls)
    driver.start_worker(STORM_CONCURRENCY)
    notes = driver.notes
    give_up = time.monotonic() + STORM_WITHIN
    while left := sum(not notes.times(job, "end") for job in jobs):
        if time.monotonic() > give_up:
            return {"storm_total_s": f"> {STORM_WITHIN:.0f} s, {left:,} left"}
        time.sleep(0.05)
        notes.read()
    begin = min(notes.times(job, "start")[0] for job in jobs)
    fresh = [notes.times(job, "start")[0] - begin for job in jobs]
    end = max(notes.times(job, "end")[-1] for job in jobs)
    return {
        **spread("storm_retry_wait", retry_waits(driver, jobs[::2], STORM_DELAY)),
        **spread("storm_fresh_wait", fresh),
        "storm_total_s": round(end - begin, 3),
    }


def idle(driver: Driver, sizes: Sizes) -> Figures:
    """Memory of a worker with all its processes, and the CPU it uses while nothing happens."""
    pid, seconds = driver.idle_worker().pid, min(4.0, 4.0 * sizes.scale)
    time.sleep(seconds / 4)
    before = cpu_seconds(pid)
    time.sleep(seconds)
    return {
        "idle_cpu_percent": round(100 * (cpu_seconds(pid) - before) / seconds, 2),
        "rss_mib": round(sum(rss_mib(each) for each in family(pid)), 1),
    }


MEASURES: dict[str, Callable[[Driver, Sizes], Figures]] = {
    "throughput": throughput,
    "plain": plain_functions,
    "waits": work_that_waits,
    "two": two_workers,
    "latency": latency,
    "storm": storm,
    "idle": idle,
}
# What hardly varies is measured in the first round only.
ONCE = ("idle",)


def measured(contender: Contender, measure: str, sizes: Sizes) -> Figures:
    """The figures, or in their place what went wrong."""
    if measure == "plain" and contender.kinds != BOTH:
        return {}
    if measure == "waits" and "async" not in contender.kinds:
        return {}
    if contender.only and measure not in contender.only:
        return {}
    driver = None
    try:
        driver = Driver(contender)
        return MEASURES[measure](driver, sizes)
    except (RuntimeError, TimeoutError, OSError) as error:
        return {f"{measure}_error": str(error)}
    finally:
        if driver is not None:
            driver.close()


def rate(count: int, act: Callable[[], object]) -> float:
    """So many in a second, seen from outside."""
    begin = time.perf_counter()
    act()
    return round(count / (time.perf_counter() - begin), 1)


def drain(driver: Driver, workers: int) -> float:
    """Jobs per second from the first start until the store holds none that is not done."""
    total = driver.count("left")
    for _ in range(workers):
        driver.start_worker()
    if not driver.notes.wait_for("first", "start", within=30.0):
        raise TimeoutError(f"no job was started: {driver.said()}")
    [begin] = driver.notes.times("first", "start")
    while left := driver.count("left"):
        spent = time.time() - begin
        if spent > DRAINED_WITHIN:
            raise TimeoutError(f"{left:,} of {total:,} left after {spent:.0f} s: {driver.said()}")
        # Looking costs the contender time: seldom at first, often towards the end.
        expected = spent * left / max(1, total - left)
        time.sleep(min(0.3, max(0.01, expected / 3)))
    spent = time.time() - begin
    if failed := driver.count("failed"):
        raise RuntimeError(f"{failed:,} of {total:,} jobs failed: {driver.said()}")
    return round(total / spent, 1)


def pick_up(driver: Driver, count: int) -> Figures:
    """From just before a job is enqueued until it starts, one at a time."""
    waits: list[float] = []
    give_up = time.monotonic() + PICKED_UP_WITHIN
    for number in range(count):
        job = f"pick-up-{number}"
        driver.work(job)
        if not driver.notes.wait_for(job, "end", within=PICKED_UP_WITHIN):
            break
        waits.append(driver.notes.times(job, "start")[0] - driver.before)
        if time.monotonic() > give_up:
            break  # enough of them
        time.sleep(random.uniform(0.005, 0.015))
    if not waits:
        return {"pick_up_p50_ms": f"> {PICKED_UP_WITHIN:.0f} s"}
    return dict(spread("pick_up", waits))


def lateness(driver: Driver, count: int) -> Figures:
    """How long after its due time a retry starts; below 0 it was early."""
    jobs = [f"late-{number}" for number in range(count)]
    for job in jobs:
        driver.work(job, delay=LATE_DELAY)
        time.sleep(0.02)
    give_up = time.monotonic() + LATE_DELAY + LATE_WITHIN
    for job in jobs:
        if not driver.notes.wait_for(job, "end", within=give_up - time.monotonic()):
            return {"late_p50_ms": f"> {LATE_WITHIN:.0f} s"}
    return dict(spread("late", retry_waits(driver, jobs, LATE_DELAY)))


def retry_waits(driver: Driver, jobs: list[str], delay: float) -> list[float]:
    """For each job that failed once, from its due time until its second start."""
    delay = FIXED_DELAYS.get(driver.contender.peer, delay)
    notes = driver.notes
    return [notes.times(job, "start")[1] - notes.times(job, "fail")[0] - delay for job in jobs]


def rss_mib(pid: int) -> float:
    """Resident memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(x.split()[1]) / 1024 for x in lines if x.startswith("VmRSS")), 0.0)


def cpu_seconds(pid: int) -> float:
    """CPU time used so far by a process and its children."""
    ticks = 0
    for each in family(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
