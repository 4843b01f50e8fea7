"""The measurements of `bench`, with a real worker process, counted in the store."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from statistics import quantiles
from typing import Any

from msgspec import Struct

from mulligan.app import JobHandle, Mulligan
from mulligan.core.job import Job

LOOK_EVERY = 0.05
GIVE_UP_AFTER = 300.0
# The gap between jobs whose lateness is measured: the worker is idle in between.
APART = 0.03
WORKER = (sys.executable, "-m", "mulligan", "worker", "mulligan.cli.bench_app:app")


class Sizes(Struct, frozen=True):
    """How many jobs or seconds each measurement takes."""

    single: int = 1000
    bulk: int = 20_000
    plain: int = 5_000
    pick_up: int = 200
    late: int = 200
    late_delay: float = 2.0
    storm: int = 2_000


class Bench:
    """One store, one app, one worker process at a time."""

    def __init__(self, url: str, policy: str, sizes: Sizes, step: Callable[[str], None]) -> None:
        # The app reads it when it is imported, here and in the worker process.
        os.environ.update(MULLIGAN_BENCH_URL=url, MULLIGAN_BENCH_POLICY=policy)
        self._tasks: Any = import_module("mulligan.cli.bench_app")
        self._app: Mulligan = self._tasks.app
        self._sizes = sizes
        self._step = step

    def run(self) -> dict[str, Any]:
        """Measure everything, in a fixed order."""
        found: dict[str, Any] = {}
        try:
            found["enqueue_one_per_s"] = self._enqueue_one_by_one()
            found["enqueue_bulk_per_s"], jobs = self._enqueue_bulk(
                self._tasks.noop, self._sizes.bulk
            )
            found["drain_per_s"] = self._drain(jobs)
            _, plain = self._enqueue_bulk(self._tasks.plain_noop, self._sizes.plain)
            found["drain_plain_per_s"] = self._drain(plain)
            with self._worker() as process:
                found["pick_up_ms"] = self._pick_up()
                found["retry_lateness_ms"] = self._lateness()
                found["worker_rss_mib"] = rss_mib(process.pid)
                found["idle_cpu_percent"] = self._idle_cpu(process.pid)
            found["storm"] = self._storm()
        finally:
            self._app.close()
        return found

    def _enqueue_one_by_one(self) -> float:
        self._step("enqueue one by one")
        begin = time.perf_counter()
        handles = [self._tasks.noop.enqueue(n) for n in range(self._sizes.single)]
        rate = self._sizes.single / (time.perf_counter() - begin)
        for handle in handles:
            handle.cancel()
        return rate

    def _enqueue_bulk(self, task: Any, count: int) -> tuple[float, list[JobHandle[None]]]:
        self._step(f"enqueue {count:,} in bulk")
        begin = time.perf_counter()
        handles = self._app.enqueue_many(task.call(n) for n in range(count))
        return count / (time.perf_counter() - begin), handles

    def _drain(self, handles: list[JobHandle[None]]) -> float:
        """Jobs per second from the first start to the last commit, both by the store's clock."""
        self._step(f"drain {len(handles):,} jobs")
        with self._worker():
            last = self._until_ended(handles[-1])
            ends = [self._until_ended(handle).ended_at or 0.0 for handle in handles[-200:]]
        first = handles[0].info()
        assert last.status == first.status == "done"  # noqa: S101 - nothing to report otherwise
        return len(handles) / (max(ends) - (first.started_at or 0.0))

    def _pick_up(self) -> dict[str, float]:
        self._step("pick-up latency of an idle worker")
        waits = []
        for _ in range(self._sizes.pick_up):
            before = time.time()
            waits.append(self._tasks.stamp.enqueue().result(timeout=30) - before)
        return spread(waits)

    def _lateness(self) -> dict[str, float]:
        self._step("retry lateness of an idle worker")
        delay = self._sizes.late_delay
        handles = []
        for _ in range(self._sizes.late):
            handles.append(self._tasks.late.enqueue(delay))
            time.sleep(APART)
        started = [(handle.result(timeout=60), handle.info().due) for handle in handles]
        return spread([start - due for start, due in started])

    def _idle_cpu(self, pid: int) -> float:
        self._step("CPU of an idle worker")
        before = cpu_seconds(pid)
        time.sleep(5)
        return 100 * (cpu_seconds(pid) - before) / 5

    def _storm(self) -> dict[str, Any]:
        """How long due retries and fresh jobs wait while half of all jobs fail once."""
        self._step("retry storm")
        begin = time.time()
        calls = [self._tasks.storm.call(fails=n % 2 == 0) for n in range(self._sizes.storm)]
        handles = self._app.enqueue_many(calls)
        with self._worker("--concurrency", "4"):
            jobs = [self._until_ended(handle) for handle in handles]
        waits = [job.value() - job.due for job in jobs if job.retry_count]
        total = max(job.ended_at or 0.0 for job in jobs) - begin
        return {"retry_wait_ms": spread(waits), "total_s": round(total, 3)}

    def _until_ended(self, handle: JobHandle[None]) -> Job:
        give_up = time.monotonic() + GIVE_UP_AFTER
        while (job := handle.info()).status in ("pending", "processing"):
            if time.monotonic() > give_up:
                raise TimeoutError(f"job {handle.id} has not ended: {handle.explain()}")
            time.sleep(LOOK_EVERY)
        return job

    @contextmanager
    def _worker(self, *options: str) -> Iterator["subprocess.Popen[str]"]:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [*WORKER, "--log-level", "error", *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            # The worker is ready once it has run a job.
            self._tasks.stamp.using(priority="urgent").enqueue().result(timeout=60)
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


def spread(seconds: list[float]) -> dict[str, float]:
    """The median, the 99th percentile and the largest, in milliseconds."""
    marks = quantiles(seconds, n=100, method="inclusive")
    return {
        "p50": round(1000 * marks[49], 2),
        "p99": round(1000 * marks[98], 2),
        "max": round(1000 * max(seconds), 2),
    }


def rss_mib(pid: int) -> float:
    """Resident memory of a process, where /proc tells; 0 elsewhere."""
    try:
        with open(f"/proc/{pid}/status") as status:  # noqa: PTH123 - not a file of ours
            lines = dict(line.split(":", 1) for line in status)
    except OSError:
        return 0.0
    return round(int(lines["VmRSS"].split()[0]) / 1024, 1)


def cpu_seconds(pid: int) -> float:
    """CPU time used by a process so far, where /proc tells; 0 elsewhere."""
    try:
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123 - not a file of ours
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
