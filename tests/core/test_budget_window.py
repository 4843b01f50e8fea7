"""The retry budget over time, on the reference store and a virtual clock."""

from itertools import count

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mulligan.core.answers import Claimed
from mulligan.core.budget import Budget
from mulligan.core.facts import QueueSettings
from mulligan.core.fairness import Carry, plan_claim
from mulligan.core.fetch import RetryFirst
from mulligan.core.job import NewJob
from mulligan.core.lane import Priority
from mulligan.core.worker import Worker
from mulligan.stores.memory import MemoryStore
from tests.core.strategies import steady

WORKERS = (Worker("w1"), Worker("w2"))


class Storm:
    """A queue with a budget, two workers, and a clock that the test moves."""

    def __init__(self, budget: Budget) -> None:
        self.now = 1000.0
        self.budget = budget
        self.store = MemoryStore(clock=lambda: self.now)
        self.starts: dict[Priority, list[float]] = {p: [] for p in Priority}
        self._ids = count()

    async def begin(self) -> None:
        await self.store.configure("default", QueueSettings(RetryFirst(), self.budget))
        for worker in WORKERS:
            await self.store.beat(worker, [])

    async def add(self, number: int, priority: Priority = Priority.RETRY) -> None:
        await self.store.enqueue(
            [
                NewJob(str(next(self._ids)), "default", "ask", b"{}", priority=priority)
                for _ in range(number)
            ]
        )

    async def claim(self, demand: int, worker: Worker = WORKERS[0]) -> Claimed:
        plan = plan_claim(demand, "default", [("default", Carry())], await self.store.facts())
        claimed = await self.store.claim(plan, worker)
        for claim in claimed.claims:
            self.starts[Priority(claim.lane_priority)].append(claim.started_at)
        return claimed

    def started_in_window(self, per: float, priority: Priority = Priority.RETRY) -> int:
        return sum(at > self.now - per for at in self.starts[priority])


moves = st.lists(
    st.tuples(
        st.integers(0, 3000),
        st.integers(0, 10),
        st.integers(1, 20),
        st.sampled_from(WORKERS),
    ),
    max_size=60,
)


@steady
@given(st.integers(1, 8), st.sampled_from([0.3, 1.0, 2.2, 60.0]), moves)
async def test_in_no_window_do_more_retries_start_than_the_budget_allows(limit, per, moves):
    """All workers together, over any claims; and none waits while the window has room."""
    storm = Storm(Budget(limit, per=per))
    await storm.begin()
    waiting = 0
    for milliseconds, retries, demand, worker in moves:
        storm.now = round(storm.now + milliseconds / 1000, 6)
        await storm.add(retries)
        waiting += retries
        room = limit - storm.started_in_window(per - 1e-9)
        started = len((await storm.claim(demand, worker)).claims)
        assert started <= min(room, waiting, demand)
        waiting -= started
    times = storm.starts[Priority.RETRY]
    for first, at in enumerate(times):
        assert sum(t < at + per - 1e-9 for t in times[first:]) <= limit


@steady
@given(st.integers(1, 5), st.integers(1, 10**6), st.integers(0, 10**6), st.integers(1, 30))
@example(1, 2200, 1100, 2)
async def test_every_retry_starts_if_its_worker_sleeps_for_as_long_as_it_is_told(
    limit, per, offset, retries
):
    """None is dropped, and no claim that was told to wait finds the gate still closed."""
    storm = Storm(Budget(limit, per=per / 1000))
    storm.now = offset / 1000
    await storm.begin()
    await storm.add(retries)
    for _ in range(-(-retries // limit)):
        claimed = await storm.claim(100)
        assert claimed.claims
        storm.now += claimed.again_in or 0.0
    assert len(storm.starts[Priority.RETRY]) == retries


async def test_a_budget_counts_retries_when_they_start_and_holds_back_no_fresh_job():
    storm = Storm(Budget(2, per=60))
    await storm.begin()
    await storm.add(5)
    await storm.add(3, Priority.NORMAL)
    claimed = await storm.claim(10)
    assert len(claimed.claims) == 5
    assert storm.started_in_window(60) == 2
    assert claimed.again_in == 60
    storm.now += 59.999
    assert (await storm.claim(10)).claims == []
    storm.now += 0.001
    assert len((await storm.claim(10)).claims) == 2


async def test_retries_of_urgent_jobs_count_against_the_budget():
    storm = Storm(Budget(2, per=60))
    await storm.begin()
    await storm.add(2, Priority.URGENT_RETRY)
    await storm.add(2)
    assert len((await storm.claim(10)).claims) == 2
    assert storm.started_in_window(60, Priority.URGENT_RETRY) == 2


@pytest.mark.parametrize(("fresh", "allowed"), [(0, 10), (40, 10), (50, 10), (100, 20), (104, 20)])
async def test_a_ratio_allows_a_share_of_fresh_starts_and_always_ten_a_minute(fresh, allowed):
    storm = Storm(Budget(ratio=0.2))
    await storm.begin()
    await storm.add(fresh, Priority.NORMAL)
    await storm.claim(200)
    await storm.add(50)
    assert len((await storm.claim(200)).claims) == allowed
