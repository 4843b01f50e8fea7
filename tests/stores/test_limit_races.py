"""Limits hold among processes that run at once, and some of which are killed."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mulligan.core.limits import Limit
from mulligan.stores import make_store
from mulligan.stores.contract import Store
from tests.contract.builders import FRESH, REAPER, again, job
from tests.store_kit import fresh_url, require
from tests.stores.limit_racer import racer

MOST, RATE, PER = 3, 12, 0.5
TOTAL, KILLED, RACERS = 90, 3, 3


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    """A store on the same clock as that of other processes."""
    store = make_store(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


class Journal:
    """What the processes wrote down, in the order in which it happened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self.path.read_text().splitlines()]

    def held_by(self, name: str) -> list[str]:
        """The jobs that this process runs."""
        held: dict[str, str] = {}
        for sign, each, *more in self.lines():
            if sign == "+":
                held[each] = more[1]
            else:
                held.pop(each)
        return [each for each, holder in held.items() if holder == name]

    def let_go(self, ids: list[str]) -> None:
        with self.path.open("a") as file:
            file.writelines(f"- {each}\n" for each in ids)

    def most_at_a_time(self) -> int:
        most = 0
        running: set[str] = set()
        for sign, each, *_ in self.lines():
            if each.startswith("few"):
                running ^= {each}
                assert (each in running) is (sign == "+")
            most = max(most, len(running))
        return most

    def starts(self) -> list[float]:
        """When jobs of the rate started, by the store's clock."""
        return sorted(
            float(more[0]) for sign, each, *more in self.lines() if sign + each[-4:] == "+slow"
        )


@pytest.mark.prove
@pytest.mark.parametrize("name", ["sqlite", "postgres", "mongo"])
async def test_limits_hold_among_processes_of_which_some_are_killed(name, tmp_path):
    """Whoever dies keeps its permits until its jobs are reclaimed, and nobody else has them."""
    require(name)
    journal = Journal(tmp_path / "journal")
    async with fresh_url(name, tmp_path) as url, opened(url) as store:
        await store.set_limit("few", Limit(concurrency=MOST), declared=True)
        await store.set_limit("slow", Limit(rate=RATE, per=PER), declared=True)
        both, few = '{"few":1,"slow":1}', '{"few":1}'
        await store.enqueue(
            [
                job(f"few-{n}" + "-slow" * (n % 2), limits=both if n % 2 else few)
                for n in range(TOTAL)
            ]
        )

        async def begin(number: int) -> asyncio.subprocess.Process:
            program = (sys.executable, "-m", "tests.stores.limit_racer", url, f"racer-{number}")
            return await asyncio.create_subprocess_exec(*program, str(journal.path), str(TOTAL))

        racers = {number: await begin(number) for number in range(RACERS)}
        for number in range(KILLED):
            dead = f"racer-{number}"
            async with asyncio.timeout(60):
                while not journal.held_by(dead):  # noqa: ASYNC110 - another process writes it
                    await asyncio.sleep(0.001)
            killed = racers.pop(number)
            killed.kill()
            await killed.wait()
            held = journal.held_by(dead)
            limits = {each.name: each for each in await store.limits(9)}
            assert limits["few"].running >= len(held)
            journal.let_go(held)
            await store.leave(racer(dead))
            reclaimed = await store.reclaim(99, REAPER)
            assert {each.id for each in reclaimed} >= set(held)
            await store.commit([again(each, 0.0, FRESH) for each in reclaimed])
            racers[RACERS + number] = await begin(RACERS + number)
        assert {await each.wait() for each in racers.values()} == {0}
        assert (await store.stats()).ended == {("default", "done"): TOTAL}
        assert [each.running + each.waiting for each in await store.limits(9)] == [0, 0]
    assert journal.most_at_a_time() == MOST
    starts = journal.starts()
    assert len(starts) >= TOTAL // 2
    assert all(b - a >= PER - 1e-6 for a, b in zip(starts, starts[RATE:], strict=False))
