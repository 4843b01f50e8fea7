"""Producers beside each other in one run: one by one, by 100 coroutines, and behind a web server.

    python -m tests.databases run --stores redis,postgres -- python -m benchmarks.producers

Jobs per second that one client process enqueues, nobody working them off: in a loop; by 100
coroutines that each await one enqueue after the other; and requests per second of a small
Starlette app (`peers/web.py`, one process) that enqueues one job a request, asked by 64 connections
of a client on this machine. A peer whose client is not awaited enqueues one by one in a coroutine
too. In each round every contender is measured once, in turn, on a store that was just emptied.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.compare import able, words
from benchmarks.contender import Driver
from benchmarks.contenders import CONTENDERS, Contender
from benchmarks.environments import PEERS, install, with_pip
from benchmarks.figures import OURS, over_rounds, times_ours
from benchmarks.tables import number
from tests.databases._server import free_port

CALLERS, CONNECTIONS = 100, 64
UP_WITHIN = 20.0
PEERS_OF_PRODUCERS = ("mulligan", "huey", "pgqueuer", "arq", "saq", "taskiq", "celery")
# Their clients are not awaited.
PLAIN = ("huey", "celery")
REQUEST = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n"
MEASURES = {
    "one_per_s": "one by one, awaited",
    "plain_per_s": "one by one, plain code",
    "together_per_s": "100 coroutines",
    "requests_per_s": "web requests",
}


def main() -> None:
    """Measure, and print a table a store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=words(PEERS_OF_PRODUCERS))
    parser.add_argument("--stores", type=words(("redis", "postgres", "sqlite")))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="that each measurement takes")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    console = Console(width=140)
    contenders, versions, left_out = able(chosen(options), console)
    rounds: dict[str, list[dict[str, float | str]]] = {each.key: [] for each in contenders}
    for turn in range(options.rounds):
        for contender in contenders:
            console.print(f"{turn + 1}: {contender.key}", style="dim")
            rounds[contender.key].append(measured(contender, options.seconds))
    medians = {key: over_rounds(each) for key, each in rounds.items()}
    for store in dict.fromkeys(each.store for each in contenders):
        console.print(table(store, contenders, medians))
    if options.json:
        result = {"versions": versions, "left_out": left_out, "medians": medians, "rounds": rounds}
        options.json.write_text(json.dumps(result, indent=1) + "\n")


def chosen(options: argparse.Namespace) -> list[Contender]:
    """One setting of each peer: how jobs are worked off does not matter here."""
    found: dict[tuple[str, str, bool], Contender] = {}
    for each in CONTENDERS:
        if each.only or each.peer not in (options.peers or PEERS_OF_PRODUCERS):
            continue
        if each.store in (options.stores or ("redis", "postgres", "sqlite")):
            found.setdefault((each.peer, each.store, each.variant == "no fsync"), each)
    return list(found.values())


def measured(contender: Contender, seconds: float) -> dict[str, float | str]:
    """What one contender does, on one emptied store."""
    driver = Driver(contender)
    try:
        driver.work("first")
        one = "plain_per_s" if contender.peer in PLAIN else "one_per_s"
        figures: dict[str, float | str] = {
            one: rate(lambda many: driver.call("enqueue_one", many), seconds),
            "together_per_s": rate(
                lambda many: driver.call("enqueue_together", many, CALLERS), seconds
            ),
        }
        if contender.peer == OURS:
            plain = rate(lambda many: driver.call("enqueue_plain", many), seconds)
            figures["plain_per_s"] = plain
        return figures | web(driver, seconds)
    finally:
        driver.close()


def rate(enqueue: Callable[[int], object], seconds: float) -> float:
    """Jobs per second: a few to learn how many, then about so many as take the time."""
    began = time.perf_counter()
    enqueue(2 * CALLERS)
    many = 2 * CALLERS * seconds / (time.perf_counter() - began)
    whole = max(1, round(many / CALLERS)) * CALLERS
    began = time.perf_counter()
    enqueue(whole)
    return round(whole / (time.perf_counter() - began))


def web(driver: Driver, seconds: float) -> dict[str, float | str]:
    """Requests per second of a web server that enqueues one job a request."""
    port = free_port()
    packages = install("web", PEERS / "web.txt", with_pip) / "lib"
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    path = os.pathsep.join(
        (driver.variables["PYTHONPATH"], str(packages / python / "site-packages"))
    )
    driver.start_role("web", BENCH_PORT=str(port), PYTHONPATH=path)
    try:
        asyncio.run(asked(port, 0.3))
        return {"requests_per_s": round(asyncio.run(asked(port, seconds)))}
    except OSError:
        return {"requests_per_s": f"failed: {driver.said()}"}


async def asked(port: int, seconds: float) -> float:
    """Requests per second, by connections that each send the next when the last is answered."""
    streams = [await connected(port) for _ in range(CONNECTIONS)]
    began = time.perf_counter()
    answered = await asyncio.gather(*(ask(*each, began + seconds) for each in streams))
    took = time.perf_counter() - began
    for _, writer in streams:
        writer.close()
    return sum(answered) / took


async def connected(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the server, once it is up."""
    until = time.monotonic() + UP_WITHIN
    while True:
        try:
            return await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.05)


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, until: float) -> int:
    """How many requests were answered until then."""
    answered = 0
    while time.perf_counter() < until:
        writer.write(REQUEST)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 204"):
            raise ConnectionError(head.decode(errors="replace"))
        answered += 1
    return answered


def table(
    store: str, contenders: list[Contender], medians: dict[str, dict[str, float | str]]
) -> Table:
    """A row for each contender, with how many times ours it is."""
    shown = Table(title=f"{store}: per second, and in units of mulligan's")
    for name in ("", *MEASURES.values()):
        shown.add_column(name, justify="left" if not name else "right")
    ours = medians.get(f"{store}/{OURS}", {})
    for contender in contenders:
        if contender.store == store:
            theirs = medians[contender.key]
            cells = [beside(ours.get(name), theirs.get(name)) for name in MEASURES]
            shown.add_row(contender.name, *cells)
    return shown


def beside(ours: float | str | None, theirs: float | str | None) -> str:
    """The figure, and what part of ours it is."""
    if theirs is None or isinstance(theirs, str):
        return theirs or "-"
    times = times_ours(ours, theirs)
    return number(theirs) if times is None else f"{number(theirs)} ({times:.2f})"


if __name__ == "__main__":
    main()
