"""Limits between processes, and what they cost."""

import asyncio
import json
import signal
import sys

import pytest
from msgspec.structs import replace
from redis.asyncio import Redis

from mulligan.core.job import Claim, NewJob
from mulligan.core.limits import Limit
from tests.contract.builders import REAPER, claim, done, job, jobs, names
from tests.stores.redis.kit import commands_of, counted, keys_of, opened

RACERS, JOBS = 3, 300
# What the keys begin with in which lines and turns are kept.
LINES = ("fair", "idle", "keys", "later", "line", "lined", "lines", "ready", "turns")


async def raced(url: str) -> tuple[int, list[float]]:
    """The highest number of leases that a racer saw, and when all jobs started."""
    command = [sys.executable, "-m", "tests.stores.redis.racer", url, str(JOBS)]
    pipe = asyncio.subprocess.PIPE
    racers = [
        await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
        for _ in range(RACERS)
    ]
    said = []
    for racer in racers:
        out, err = await racer.communicate()
        assert racer.returncode == 0, err.decode()
        said.append(json.loads(out))
    return max(each["highest"] for each in said), sorted(
        at for each in said for at in each["starts"]
    )


@pytest.mark.prove
@pytest.mark.parametrize("burst", [None, 25])
async def test_racing_processes_never_exceed_a_limit(url, burst):
    async with opened(url) as store:
        limit = Limit(concurrency=4, rate=20, per=0.2, burst=burst)
        await store.set_limit("k*", limit, declared=True)
        new = [
            job(f"j{n}", limits='{"k1":1}', fairness_key=("x", "y", None)[n % 3])
            for n in range(JOBS)
        ]
        await store.enqueue(new)
        highest, starts = await raced(url)
        assert len(starts) == JOBS
        assert 1 < highest <= 4
        # One more than the window holds takes longer than it; of a bucket, as long as its refill.
        most, least = (20, 0.2) if burst is None else (25 + 20, 0.2)
        for first, last in zip(starts, starts[most:], strict=False):
            assert last - first >= least - 1e-6
        assert {(each.running, each.waiting) for each in await store.limits(9)} == {(0, 0)}


async def killed_holder(url: str, demand: int, lease: float) -> int:
    """How many jobs a process claimed that was killed while it held them."""
    command = [sys.executable, "-m", "tests.stores.redis.holder", url, str(demand), str(lease)]
    pipe = asyncio.subprocess.PIPE
    holder = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert holder.stdout is not None
    held = int(await holder.stdout.readline())
    holder.kill()
    await holder.communicate()
    assert holder.returncode == -signal.SIGKILL
    return held


@pytest.mark.prove
async def test_permits_survive_a_killed_process_until_its_jobs_are_reclaimed(url):
    async with opened(url) as store:
        await store.set_limit("k", Limit(concurrency=3, rate=40, per=0.2), declared=True)
        await store.enqueue(jobs(*(f"j{n}" for n in range(JOBS + 3)), limits='{"k":1}'))
        assert await killed_holder(url, demand=10, lease=2.0) == 3
        assert names(await claim(store, demand=10)) == []
        lost: list[Claim] = []
        while len(lost) < 3:
            await asyncio.sleep(0.02)
            assert (await store.limits(9))[0].running == 3
            lost += await store.reclaim(10, REAPER)
        assert (await store.limits(9))[0].running == 0
        highest, starts = await raced(url)
        assert len(starts) == JOBS
        assert 1 < highest <= 3
        for first, last in zip(starts, starts[40:], strict=False):
            assert last - first >= 0.2 - 1e-6
        assert await store.commit([done(each) for each in lost]) == ["written"] * 3
        assert {(each.running, each.waiting) for each in await store.limits(9)} == {(0, 0)}


async def test_a_claim_costs_the_same_however_many_wait_for_a_limit(own_server):
    async with counted(own_server.url) as store, Redis.from_url(own_server.url) as client:
        await store.set_limit("k", Limit(concurrency=1), declared=True)
        await store.enqueue(jobs("k1", "k2", limits='{"k":1}'))
        await store.enqueue(jobs(*(f"a{n}" for n in range(40))))
        assert names(await claim(store, demand=2)) == ["k1", "a0"]
        few = await commands_of(client, claim(store, demand=10))
        await store.enqueue(jobs(*(f"k{n}" for n in range(10, 1000)), limits='{"k":1}'))
        assert await commands_of(client, claim(store, demand=10)) <= few


async def test_many_jobs_of_one_line_cost_few_commands(own_server):
    async with counted(own_server.url) as store, Redis.from_url(own_server.url) as client:
        await store.set_limit("k", Limit(concurrency=1000, rate=1000), declared=True)
        await store.enqueue(jobs(*(f"k{n}" for n in range(400)), limits='{"k":1}'))
        await claim(store)
        few = await commands_of(client, claim(store, demand=10))
        assert await commands_of(client, claim(store, demand=200)) <= few + 5


async def test_many_fairness_keys_cost_few_commands(own_server):
    async with counted(own_server.url) as store, Redis.from_url(own_server.url) as client:

        def keyed(first: int, last: int) -> list[NewJob]:
            return [job(f"j{n}", fairness_key=f"key-{n}") for n in range(first, last)]

        await store.enqueue(keyed(0, 10))
        few = await commands_of(client, store.enqueue(keyed(10, 20)))
        # Each job has a state of its own, which is a command; nothing else is written one by one.
        assert await commands_of(client, store.enqueue(keyed(20, 400))) <= few + 370
        await claim(store)
        few = await commands_of(client, claim(store, demand=10))
        assert await commands_of(client, claim(store, demand=100)) <= few + 10


async def test_keys_that_were_used_once_leave_nothing_behind(own_server):
    client = Redis.from_url(own_server.url, decode_responses=True)
    async with opened(own_server.url) as store, client:
        for first in range(0, 60, 20):
            # Each key comes twice, and one job of each is in a line of its own with a limit.
            new = [job(f"j{n}", fairness_key=f"key-{n // 2}") for n in range(first, first + 20)]
            new += [job(f"k{n}", fairness_key=f"key-{n}", limits='{"k":1}') for n in (1, 2)]
            await store.enqueue([replace(each, id=f"{each.id}-{first}") for each in new])
            await store.commit([done(each) for each in (await claim(store, demand=15)).claims])
        while claims := (await claim(store, demand=15)).claims:
            await store.commit([done(each) for each in claims])
        left = {name.partition(":")[0] for name in await keys_of(client, store)}
        assert left.isdisjoint(LINES)


async def test_a_job_without_limits_costs_no_more_for_those_that_others_name(own_server):
    async with counted(own_server.url) as store, Redis.from_url(own_server.url) as client:

        async def cost(*ids: str) -> list[int]:
            """How many commands two jobs take to be enqueued, claimed and committed, at the least.

            What is due now and then is in one of three, and not in the others.
            """
            costs = []
            for name in ids:
                enqueued = await commands_of(client, store.enqueue(jobs(name, f"{name} too")))
                taken = asyncio.ensure_future(claim(store, demand=2))
                claimed = await commands_of(client, taken)
                outcomes = [done(each) for each in taken.result().claims]
                committed = await commands_of(client, store.commit(outcomes))
                costs.append((enqueued, claimed, committed))
            return [min(each) for each in zip(*costs, strict=True)]

        await cost("a")  # the server learns the scripts
        before = await cost("b", "c", "d")
        await store.set_limit("k*", Limit(concurrency=1), declared=True)
        await store.enqueue(jobs("k1", "k2", limits='{"k":1}', fairness_key="x", region="EU"))
        assert await cost("e", "f", "g") == before
