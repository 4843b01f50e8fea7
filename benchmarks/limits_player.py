"""One place of a store and a worker on it, told by `benchmarks.limits` what to do.

    MULLIGAN_BENCH_URL=... python -m benchmarks.limits_player

Reads a request a line, `[verb, ...]`, and answers each by a line. It runs with an older mulligan
too, that knows no limits: then only plain jobs are there.
"""

import asyncio
import json
import os
import random
import sys
import time

from mulligan import Mulligan
from mulligan.app.worker import new_worker, run_loop, work
from mulligan.engine.current import running

PAUSE = (0.005, 0.015)
KEYS = int(os.environ.get("MULLIGAN_BENCH_KEYS", "10000"))
app = Mulligan(os.environ.get("MULLIGAN_BENCH_URL", "memory://"))
state = {"left": 0, "begin": 0.0}
ended = asyncio.Event()


async def count(_number: int) -> None:
    """Begin the time with the first, end it with the last."""
    if not state["begin"]:
        state["begin"] = time.perf_counter()
    state["left"] -= 1
    if not state["left"]:
        ended.set()


plain = app.task(name="plain")(count)
calls = {"plain": plain.call}
if hasattr(app, "limit"):
    app.limit("permits", concurrency=10_000)
    app.limit("starts", rate=1_000_000, per=1)
    app.limit("stuck", rate=1, per=86_400)
    told = os.environ.get("MULLIGAN_BENCH_LIMIT", '{"rate": 500, "per": 1}')
    app.limit("storm", **json.loads(told))
    for name, options in {
        "permits": {"limits": "permits"},
        "starts": {"limits": "starts"},
        "stuck": {"limits": "stuck"},
        "one key": {"fairness_key": "acme"},
        "many keys": {"fairness_key": lambda number: f"customer-{number % KEYS}"},
    }.items():
        calls[name] = app.task(name=name.replace(" ", "_"), **options)(count).call

    @app.task(name="storm", limits="storm", keep=60)
    async def storm(_number: int) -> None:
        """Write down when it was claimed by the store's clock, and when it began by ours."""
        line = f"{running().started_at:.6f} {time.time():.6f}\n"
        os.write(notes, line.encode())

    calls["storm"] = storm.call
    if folder := os.environ.get("MULLIGAN_BENCH_NOTES"):
        notes = os.open(folder, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


async def fill(kind, many):
    """Enqueue so many; how many a second."""
    begin = time.perf_counter()
    await app.aenqueue_many(calls[kind](number) for number in range(many))
    return many / (time.perf_counter() - begin)


async def drain(many):
    """Run a worker until so many have started; how many a second."""
    expect(many)
    async with at_work():
        async with asyncio.timeout(300):
            await ended.wait()
        return many / (time.perf_counter() - state["begin"])


async def pick_up(many):
    """Milliseconds from before an enqueue until the start, on an idle worker, each."""
    async with at_work():
        return [await picked_up() for _ in range(many)]


async def picked_up():
    """The same, of one job."""
    await asyncio.sleep(random.uniform(*PAUSE))
    expect(1)
    begin = time.perf_counter()
    await plain.aenqueue(0)
    await ended.wait()
    return (time.perf_counter() - begin) * 1000


async def ping(many):
    """Milliseconds of a read of one job, each."""
    job = await plain.using(delay=86_400).aenqueue(0)
    times = []
    for _ in range(many):
        begin = time.perf_counter()
        await job.ainfo()
        times.append((time.perf_counter() - begin) * 1000)
    await job.acancel()
    return times


class at_work:  # noqa: N801 - it is used as a function
    """A worker of this process, until the block ends."""

    async def __aenter__(self):
        ready = asyncio.get_running_loop().create_future()
        worker = new_worker(app, concurrency=100)
        self.task = asyncio.create_task(work(app, worker, ready.set_result))
        self.engine = await ready

    async def __aexit__(self, *_error):
        self.engine.stop()
        await self.task


def expect(many):
    """Count from here."""
    state.update(left=many, begin=0.0)
    ended.clear()


async def serve():
    """Answer requests until there are no more."""
    loop = asyncio.get_running_loop()
    verbs = {each.__name__: each for each in (fill, drain, pick_up, ping)}
    async with app.connected():
        await app.aconfigure()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            verb, *words = json.loads(line)
            print(json.dumps(await verbs[verb](*words)), flush=True)


if __name__ == "__main__":
    run_loop(serve)
