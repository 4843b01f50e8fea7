"""A region that fails fast is no black hole: the real engine on the virtual clock."""

import asyncio
from bisect import bisect_left
from collections import Counter

import pytest

from mulligan import Exponential, Mulligan, Retry, current_job
from mulligan.core.alerts import alerts
from mulligan.testing import Testing as Harness

TWICE = Retry(3, Exponential(2, 2, 60, jitter="none"))
REGIONS = ("US", "EU")
TAKES = 0.1


class Hole:
    """An app whose attempts fail in US, after so long, until it has recovered."""

    def __init__(self, fails_after: float = 0.0025, retry: Retry = TWICE) -> None:
        self.app = Mulligan("memory://")
        self.failing = True
        self.failed: list[float] = []
        self.worked: list[tuple[str, float]] = []

        @self.app.task(queue="q", retry=retry)
        async def ask() -> None:
            now, region = asyncio.get_running_loop().time(), current_job().worker_region
            if region == "US" and self.failing:
                self.failed.append(now)
                if fails_after:
                    await asyncio.sleep(fails_after)
                raise ConnectionError("US is out of order")
            self.worked.append((region, now))
            await asyncio.sleep(TAKES)

        self.ask = ask

    def send(self, count: int, region: str = "US") -> None:
        self.app.enqueue_many([self.ask.using(region=region).call() for _ in range(count)])

    def worked_in(self, region: str, since: float = 0.0) -> list[float]:
        return [at for where, at in self.worked if where == region and at >= since]


def dead_letters(t: Harness) -> int:
    return t.run(t.store.stats()).ended.get(("q", "failed"), 0)


def is_open(t: Harness) -> bool:
    return t.run(t.store.facts()).is_open("q", "US")


@pytest.mark.parametrize("fails_after", [0.0, 0.0025])
@pytest.mark.parametrize("retry", [TWICE, Retry(0)], ids=["three-retries", "none"])
def test_a_burst_beside_a_region_that_fails_fast_costs_few_attempts_and_no_job(fails_after, retry):
    hole = Hole(fails_after, retry if fails_after else TWICE)
    with hole.app.testing(regions=REGIONS, concurrency=4) as t:
        began = t.run(now())
        hole.send(500, "US")
        hole.send(500, "EU")
        for _ in range(20):
            t.advance(5)
            hole.send(50, "US")
        wasted = [at - began for at in hole.failed]
        first = bisect_left(wasted, 10.0)
        assert first <= 60
        later = wasted[first:]
        assert all(bisect_left(later, at + 60.0) - n <= 3 for n, at in enumerate(later))
        # Those whose attempts failed before it opened may have had no retry left.
        assert dead_letters(t) == 0 or retry == Retry(0)
        assert dead_letters(t) <= 24
        busy = Counter(int(at - began) for at in hole.worked_in("EU"))
        assert all(busy[second] >= 36 for second in range(1, 24))


async def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_region_that_recovers_is_tried_within_a_pause_and_back_at_work_seconds_later():
    hole = Hole()
    with hole.app.testing(regions=REGIONS, concurrency=4) as t:
        hole.send(400)
        t.advance(10)
        assert is_open(t)
        breaker = t.run(t.store.facts()).health_of("q", "US").breaker
        hole.failing = False
        recovered = t.run(now())
        for _ in range(12):
            hole.send(80)
            t.advance(1)
        back = hole.worked_in("US", recovered)
        assert back[0] - recovered <= breaker.pause
        assert [round(at - back[0]) for at in back[:3]] == [0, 1, 2]
        assert not is_open(t)
        closed = back[2] + TAKES
        assert len([at for at in back if closed <= at < closed + 1]) >= 36
        said = alerts(t.run(t.store.stats()), t.run(t.store.facts()))
        assert not any("breaker" in each for each in said)


def test_probes_are_a_second_apart_and_then_twice_as_far():
    hole = Hole()
    with hole.app.testing(regions=REGIONS, concurrency=4) as t:
        hole.send(2000)
        t.advance(40)
        opened = t.run(t.store.facts()).health_of("q", "US").breaker.since
        began = t.run(t.store.facts()).now - t.run(now())
        probes = [at + began - opened for at in hole.failed if at + began > opened]
        assert probes == pytest.approx([1, 2, 4, 8, 16, 32], abs=0.05)


def test_a_queue_that_rests_keeps_its_worker_from_no_other():
    hole = Hole()

    @hole.app.task(queue="other", region="US")
    async def greet() -> str:
        return current_job().worker_region

    with hole.app.testing(regions=REGIONS, concurrency=4) as t:
        hole.send(100)
        t.advance(9)
        assert is_open(t)
        job = greet.enqueue()
        t.advance(0.01)
        assert job.status == "done"
        assert job.result() == "US"


def test_an_idle_healthy_region_takes_fresh_work_of_a_resting_one_at_once():
    hole = Hole()
    with hole.app.testing(regions=REGIONS, concurrency=4) as t:
        hole.send(40)
        t.advance(5)
        assert is_open(t)
        hole.send(1)
        t.advance(0.05)  # the probe that was due
        before, wasted = len(hole.worked), len(hole.failed)
        hole.send(1)
        t.advance(0.05)
        assert [region for region, _ in hole.worked[before:]] == ["EU"]
        assert len(hole.failed) == wasted


def test_a_region_that_is_alone_serves_as_usual_however_much_fails():
    hole = Hole()
    with hole.app.testing(regions=("US",), concurrency=4) as t:
        hole.send(100)
        t.advance(2)
        assert len(hole.failed) == 100
