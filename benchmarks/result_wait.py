"""How long after its commit a job's result reaches who waits for it, beside a ping in the same run.

    python -m benchmarks.result_wait [STORE_URL ...] [--jobs 300] [--callers 1000]

Without URLs: memory, an empty SQLite file, and the servers that MULLIGAN_TEST_*_URL name. One
process calls `result()`, another claims and commits one job after the other, each a while after the
wait has begun. Told are milliseconds from the commit's answer to the caller, in the median and at
99 %; a ping is one read of a job. Then many coroutines of one process wait at once, each for a job
of its own, and all jobs are committed together.
"""

import argparse
import asyncio
import multiprocessing
import os
import random
import secrets
import sys
import tempfile
import threading
import time
from urllib.parse import urlsplit

from mulligan import Mulligan
from mulligan.core.job import encode
from mulligan.core.lane import Lane
from mulligan.core.outcome import Done
from mulligan.core.plan import ClaimPlan, Group, Source, Take
from mulligan.core.worker import Worker
from mulligan.stores import make_store

QUEUE = "wait"
ME = Worker("bench", queues=(QUEUE,), lease=600.0)
# The wait has begun long before, and no pause of a poll falls together with it.
BEFORE_COMMIT = (0.02, 0.08)


def main():
    """Measure each store, and print a line about it."""
    options = read_options()
    print(f"{'store':12}{'ping p50':>10}{'p50':>8}{'p99':>8}{'many p50':>11}{'many p99':>10}   ms")
    for url in options.urls:
        ping, waits, many = measure(url, options)
        shown = (part(ping, 0.5), part(waits, 0.5), part(waits, 0.99))
        together = (part(many, 0.5), part(many, 0.99))
        print(
            f"{url.split(':')[0]:12}{shown[0]:10.2f}{shown[1]:8.2f}{shown[2]:8.2f}"
            f"{together[0]:11.2f}{together[1]:10.2f}",
            flush=True,
        )


def read_options():
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("urls", nargs="*")
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--callers", type=int, default=1000)
    options = parser.parse_args()
    options.urls = options.urls or list(known_stores())
    return options


def known_stores():
    """The URL of an empty place in each store that there is."""
    mark = secrets.token_hex(4)
    yield "memory://"
    yield f"sqlite:///{tempfile.mkdtemp()}/wait.db"
    for name, place in (("REDIS", f"?prefix={mark}"), ("POSTGRES", f"?schema=wait_{mark}")):
        if url := os.environ.get(f"MULLIGAN_TEST_{name}_URL"):
            yield url + place
    if url := os.environ.get("MULLIGAN_TEST_MONGO_URL"):
        yield urlsplit(url)._replace(path=f"/wait_{mark}").geturl()


def measure(url, options):
    """Seconds of pings, of waits one after the other, and of many waits at once."""
    app = Mulligan(url)

    @app.task(queue=QUEUE)
    def answer() -> int:
        return 1

    ours, theirs = multiprocessing.Pipe()
    if url.startswith("memory:"):
        other = threading.Thread(target=commit_what_is_named, args=(app, theirs), daemon=True)
    else:
        spawn = multiprocessing.get_context("spawn")
        other = spawn.Process(target=commit_what_is_named, args=(url, theirs), daemon=True)
    other.start()
    ours.recv()
    handle = answer.enqueue()
    pings = [timed(handle.info) for _ in range(options.jobs)]
    handle.cancel()
    waits = [wait_for_one(answer, ours) for _ in range(options.jobs)]
    many = asyncio.run(wait_for_many(answer, ours, options.callers))
    ours.send(None)
    other.join()
    app.close()
    return pings, waits, many


def timed(call):
    """How many seconds it takes."""
    before = time.monotonic()
    call()
    return time.monotonic() - before


def wait_for_one(answer, other):
    """How long after its commit one result is here."""
    handle = answer.enqueue()
    other.send((1, random.uniform(*BEFORE_COMMIT)))
    handle.result(timeout=60)
    got = time.monotonic()
    return max(got - other.recv(), 0.0)


async def wait_for_many(answer, other, callers):
    """How long after their commit each of many results is here."""
    handles = [await answer.aenqueue() for _ in range(callers)]

    async def wait(handle):
        await handle.aresult(timeout=120)
        return time.monotonic()

    waits = [asyncio.create_task(wait(handle)) for handle in handles]
    await asyncio.sleep(3)
    other.send((callers, 0.0))
    got = await asyncio.gather(*waits)
    ended = other.recv()
    return [max(each - ended, 0.0) for each in got]


def commit_what_is_named(where, pipe):
    """Claim and commit so many jobs, each time that it is asked for."""
    asyncio.run(commit_on_demand(where, pipe))


async def commit_on_demand(where, pipe):
    """The same, on a store of its own unless one is lent."""
    lent = isinstance(where, Mulligan)
    store = where.access._opened() if lent else make_store(where)  # noqa: SLF001
    if not lent:
        await store.open()
    pipe.send("ready")
    while (asked := await asyncio.to_thread(pipe.recv)) is not None:
        count, pause = asked
        claims = []
        while len(claims) < count:
            claims += await claimed(store, count - len(claims))
        await asyncio.sleep(pause)
        await store.commit([Done(each.lease, encode(1)) for each in claims])
        pipe.send(time.monotonic())
    if not lent:
        await store.close()


async def claimed(store, count):
    """So many jobs, or those that there are."""
    lane = Lane(QUEUE, "*", 0)
    epoch = (await store.facts()).epoch
    group = Group(QUEUE, "fresh", ((Source(lane),),))
    plan = ClaimPlan(count, (group,), (Take(0, count),), epoch)
    answer = await store.claim(plan, ME)
    if not answer.claims:
        await asyncio.sleep(0.002)
    return answer.claims


def part(values, share):
    """The value that so large a share is not above, in milliseconds."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)] * 1000


if __name__ == "__main__":
    sys.exit(main())
