"""Limiters of peers beside ours: how many starts above the limit, and how much of it was used.

    python -m benchmarks.limiters [--peers mulligan,bullmq] [--seconds 20] [--rate 200]

Two worker processes each. First at most `--rate` starts a second (BullMQ's `limiter`, Celery's
`rate_limit`, a limit of ours), then at most 8 jobs of 20 ms at a time (PgQueuer's
`concurrency_limit`, a limit of ours). Starts and ends are noted by the jobs themselves, by one
clock: a job that starts late, after it was allowed to, counts where it starts. So a limit of ours
is measured as a bucket, too: a few less a second, and these few at once. SAQ has neither, PgQueuer
no rate. The peers are installed in ~/.cache/mulligan/peers.
"""

import argparse
import time

from benchmarks.contender import Driver
from benchmarks.contenders import CONTENDERS
from benchmarks.environments import MissingError
from benchmarks.windows import over_window, used

PERMITS, RUNTIME, BURST = 8, 0.02, 10
RATED = ("redis/mulligan", "redis/bullmq", "redis/celery (prefork)", "postgres/mulligan")
COUNTED = ("postgres/mulligan", "postgres/pgqueuer")


def main():
    """Measure all, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peers", default="mulligan,bullmq,celery,pgqueuer")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rate", type=int, default=200)
    options = parser.parse_args()
    there = {each.key: each for each in CONTENDERS if each.peer in options.peers.split(",")}
    print(f"{options.rate} starts a second:  most in a second, starts above, used")
    for key in RATED:
        if key in there:
            tell(key, there[key], rated, options)
            if there[key].peer == "mulligan":
                tell(f"{key} in bursts", there[key], in_bursts, options)
    print(f"{PERMITS} at a time:  most at a time, used")
    for key in COUNTED:
        if key in there:
            tell(key, there[key], counted, options)


def tell(key, contender, measure, options):
    """Print a line."""
    try:
        words = measure(contender, options)
    except (MissingError, RuntimeError, TimeoutError) as error:
        words = str(error)
    print(f"  {key:30}{words}", flush=True)


def in_bursts(contender, options):
    """How many started in any second, of a bucket that lets as many start."""
    return rated(contender, options, BURST)


def rated(contender, options, burst=0):
    """How many started in any second."""
    many = int(options.rate * (options.seconds + 5)) * 2
    limit = {"BENCH_RATE": str(options.rate - burst), "BENCH_BURST": str(burst)}
    spans = worked(contender, limit, many, 0.0, options.seconds)
    starts = sorted(start for start, _ in spans)
    most, over = over_window(starts, options.rate, 1.0)
    share = used(starts, options.rate, options.seconds)
    return f"{most:6}{over:8}{100 * share:8.1f} %"


def counted(contender, options):
    """How many ran at a time."""
    many = int(PERMITS / RUNTIME * options.seconds) + 100
    spans = worked(contender, {"BENCH_PERMITS": str(PERMITS)}, many, RUNTIME, options.seconds)
    begin = min(start for start, _ in spans)
    spans = [span for span in spans if span[0] < begin + options.seconds]
    steps = sorted([(s, 1) for s, _ in spans] + [(e, -1) for _, e in spans])
    running = most = 0
    for _, step in steps:
        running += step
        most = max(most, running)
    share = sum(end - start for start, end in spans) / (PERMITS * options.seconds)
    return f"{most:6}{100 * share:8.1f} %"


def worked(contender, limit, many, runtime, seconds):
    """When jobs began and ended, of two workers, for so long."""
    driver = Driver(contender, limit)
    try:
        jobs = [f"limited-{number}" for number in range(many)]
        for start in range(0, many, 1000):
            driver.call("enqueue_work", [[job, runtime, 0.0] for job in jobs[start : start + 1000]])
        for _ in range(2):
            driver.start_worker()
        give_up = time.monotonic() + 60
        while not driver.notes.of and time.monotonic() < give_up:
            time.sleep(0.05)
            driver.notes.read()
        time.sleep(seconds + 1)
        driver.notes.read()
        found = [driver.notes.of.get(job, ()) for job in jobs]
        spans = [
            (dict(each)["start"], dict(each).get("end", time.time())) for each in found if each
        ]
        if not spans:
            raise TimeoutError(f"no job was started: {driver.said()}")
        return spans
    finally:
        driver.close()


if __name__ == "__main__":
    main()
