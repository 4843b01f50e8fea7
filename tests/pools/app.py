"""An app whose tasks run in child processes, on any store; children import it by its name."""

import asyncio
import ctypes
import logging
import os
import signal
import stat
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from mulligan import (
    INJECTED,
    Delays,
    Fail,
    Mulligan,
    Resource,
    Retry,
    RetryAfter,
    Settings,
    Snooze,
    SoftTimeout,
    astep,
    current_job,
    step,
)

log = logging.getLogger("tests.pools.app")
ONCE = Retry(0)
KEPT: list[bytearray] = []
AT_ONCE = Retry(3, Delays((0,)))
# A lease that a busy machine keeps, and that is over soon enough.
SETTINGS = Settings(lease=4.0, beat=0.2, concurrency=10, pool_size=2)


def wait_for(file: str) -> None:
    """Compute until the file is there, as work that holds the processor does."""
    count = 0
    while not Path(file).exists():
        count += 1
        time.sleep(0.005)


Declared = list[tuple[Callable[..., Any], dict[str, Any]]]
DECLARED: Declared = []


def task(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a task of every app that `make` makes."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        DECLARED.append((function, options))
        return function

    return declare


def pooled(queue: str = "pool", **options: Any) -> Callable[..., Callable[..., Any]]:
    """Declare a task that runs in child processes."""
    return task(pool="process", queue=queue, **options)


def make(url: str) -> Mulligan:
    """The app on a store."""
    made = Mulligan(url, settings=SETTINGS)
    made.limit("tokens", rate=1000, per=60)
    for function, options in DECLARED:
        made.task(**options)(function)
    return made


@pooled(retry=ONCE)
def square(number: int) -> int:
    return number * number


@pooled(retry=ONCE)
def pid() -> int:
    return os.getpid()


@pooled(retry=ONCE)
async def coroutine(number: int) -> list[int]:
    await asyncio.sleep(0.001)
    return [number, os.getpid()]


@pooled(retry=ONCE)
def own_loop() -> str:
    async def main() -> str:
        return "ran"

    return asyncio.run(main())


@pooled(retry=ONCE)
def who() -> dict[str, str | int]:
    job = current_job()
    return {"id": job.id, "attempt": job.attempt, "worker": job.worker, "lane": job.lane}


@pooled(retry=Retry(1, Delays((0,))))
def die(how: str) -> str:
    if current_job().attempt > 1:
        return "lived"
    match how:
        case "segfault":
            ctypes.string_at(0)
        case "exit":
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "sys.exit":
            sys.exit(5)
        case "babble":
            sockets = [fd for fd in range(3, 256) if is_socket(fd)]
            for fd in sockets:
                os.write(fd, b"\0\0\0\2\xc1\xc1")
            signal.pause()
    return "still here"


def is_socket(fd: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError:  # it is not open
        return False


@pooled(retry=ONCE)
def signals(which: str) -> None:
    match which:
        case "RetryAfter":
            raise RetryAfter(60, "busy")
        case "Snooze":
            raise Snooze(60)
        case "Fail":
            raise Fail("never", "E7")
        case _:
            raise LookupError(which)


@pooled(retry=ONCE, timeout=0.3)
def hang() -> None:
    ctypes.CDLL(None).sleep(60)  # in C, where no exception of Python gets in


def not_late(error: Exception) -> bool:
    """A predicate of a policy."""
    return not isinstance(error, TimeoutError)


@pooled(retry=Retry(3, Delays((0,)), on=not_late), timeout=0.3)
def hang_for_good() -> None:
    time.sleep(60)


@pooled(retry=ONCE, max_memory="150 MiB")
def grow(mebibytes: int) -> int:
    kept = bytearray(mebibytes << 20)
    if mebibytes > 150:
        time.sleep(60)
    return len(kept) >> 20


@pooled(retry=ONCE)
def keep(mebibytes: int) -> int:
    KEPT.append(bytearray(mebibytes << 20))
    return os.getpid()


@pooled(retry=ONCE, soft_timeout=0.2, timeout=60)
def soft(catch: str) -> str:
    try:
        count = 0
        while True:
            count += 1
    except SoftTimeout:
        if catch == "catch":
            return "caught"
        raise


@pooled(retry=ONCE, soft_timeout=0.2)
async def soft_coroutine() -> str:
    try:
        await asyncio.sleep(60)
    except SoftTimeout:
        return "caught"
    return "slept"


@pooled(retry=AT_ONCE)
def hold(started: str, until: str) -> list[int]:
    """Write our own pid and that of a process of our own, and hold the processor."""
    grandchild = os.fork()
    if grandchild == 0:
        time.sleep(120)
        os._exit(0)
    Path(f"{started}.{current_job().attempt}").write_text(f"{os.getpid()} {grandchild}")
    if current_job().attempt == 1:
        wait_for(until)
    os.kill(grandchild, signal.SIGKILL)
    return [current_job().attempt]


@pooled(retry=ONCE)
def logs(text: str) -> None:
    log.warning("a child says %s", text, extra={"colour": "green"})
    try:
        int("inside")
    except ValueError:
        log.exception("it went wrong")


def note_run(file: str, name: str) -> str:
    """What a step does: it writes that it ran."""
    with Path(file).open("a") as runs:
        runs.write(f"{name}\n")
    return name


@pooled(retry=AT_ONCE)
def in_steps(file: str) -> list[object]:
    job = current_job()
    done = [step("one", note_run, file, "one")]
    job.progress(1, of=3, note="one is done")
    job.log("a line of a child")
    begin = job.last_checkpoint
    job.checkpoint(job.attempt)
    if job.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    done.append(step("two", note_run, file, "two"))
    return [*done, begin]


@pooled(retry=AT_ONCE)
async def in_async_steps(file: str) -> list[object]:
    job = current_job()
    done = [await astep("one", note_run, file, "one")]
    begin = await job.alast_checkpoint()
    await job.acheckpoint([job.attempt])
    if job.attempt == 1:
        raise ConnectionError("once more")
    done.append(await asyncio.to_thread(step, "two", note_run, file, "two"))
    return [*done, begin]


@pooled(retry=ONCE)
def steps_twice() -> None:
    for _ in range(2):
        step("one", int)


@pooled(retry=ONCE)
def spends(limit: str) -> str:
    current_job().spend(limit, 5)
    return limit


@pooled(retry=ONCE, soft_timeout=0.3, timeout=60)
def soft_in_steps() -> str:
    number = 0
    try:
        while True:
            number += 1
            step(f"step-{number}", int)
            current_job().progress(number)
            time.sleep(0.01)
    except SoftTimeout:
        return step("last", str, "caught")


@pooled(retry=AT_ONCE)
def hold_in_steps(started: str, until: str) -> str:
    """Record something again and again, until the lease is lost."""
    Path(started).write_text(f"{os.getpid()} {os.getpid()}")
    while not Path(until).exists():
        current_job().progress(1)
        time.sleep(0.01)
    return "ran on"


@pooled(retry=ONCE)
def enqueues(number: int) -> str:
    return app.tasks["square"].enqueue(number).id


@pooled(retry=ONCE)
def total(numbers: list[int]) -> int:
    return sum(numbers)


@pooled(retry=ONCE, accept=bool)
def refused() -> str:
    return ""


@pooled(queue="mixed", retry=ONCE)
def slow(until: str) -> str:
    wait_for(until)
    return "slow"


@task(queue="mixed", retry=ONCE)
async def quick() -> str:
    return "quick"


@task(queue="loop", retry=ONCE)
async def elsewhere() -> int:
    return os.getpid()


app = make(os.environ.get("TEST_STORE", "memory://"))

# -- an app with middleware and a lifespan, for children only -------------------------------


@asynccontextmanager
async def lifespan(_app: Mulligan) -> AsyncIterator[dict[str, Any]]:
    """Give each process a resource of its own."""
    yield {"owner": os.getpid()}


surrounded = Mulligan(os.environ.get("TEST_STORE", "memory://"), lifespan=lifespan)


@surrounded.middleware
async def around(call: Callable[[], Any], job: Any) -> Any:
    """Say on what it runs."""
    await asyncio.sleep(0)
    return {"around": os.getpid(), "value": await call()}


@surrounded.middleware(plain_only=True)
def inside(call: Callable[[], Any], job: Any) -> Any:
    """Say on what it runs."""
    return {"inside": os.getpid(), "value": call()}


@surrounded.task(pool="process")
def plain(*, owner: Annotated[int, Resource("owner")] = INJECTED) -> Any:
    """Run a loop of our own, inside of the middleware's."""

    async def own() -> int:
        return owner

    return {"owner": asyncio.run(own())}


@surrounded.task(pool="process")
async def awaited(*, owner: Annotated[int, Resource("owner")] = INJECTED) -> Any:
    """Say whose resource it has."""
    return {"owner": owner}
