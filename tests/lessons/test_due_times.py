"""Due times: neither early nor twice, whatever else waits."""

import asyncio
from itertools import chain

import pytest

from mulligan import Mulligan
from mulligan.core.budget import Budget
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import RetryFirst
from mulligan.core.lane import Lane
from mulligan.core.retry import Retry
from mulligan.core.worker import Worker
from tests.contract.builders import (
    ANN,
    BOB,
    again,
    begin,
    body,
    claim,
    job,
    jobs,
    names,
    run_by_policy,
    start,
)

# As many as are stored within seconds.
MANY = {"memory": 100_000, "mongodb": 2_000}
FEWER = 10_000
BATCH = 1000
BODY = body()


async def test_requeueing_delayed_jobs_never_doubles_them(store, another, clock):
    """dramatiq#431: delayed messages that were put back on shutdown were there twice."""
    many = [f"j{n}" for n in range(20)]
    await store.enqueue(jobs(*many, delay=5.0))
    clock.advance(5)
    await asyncio.gather(*(each.promote(100) for each in (store, another) * 3))
    claimed = await asyncio.gather(
        claim(store, demand=20, worker=ANN), claim(another, demand=20, worker=BOB)
    )
    assert sorted(chain(*map(names, claimed))) == sorted(many)
    assert names(await claim(store, demand=20)) == []


async def test_delays_under_five_seconds_are_honoured(store, clock):
    """river#105: a retry due in less than the scheduler's five seconds ran at once."""
    [first] = await begin(store, job("a"))
    await store.commit([again(first, 0.25)])
    claimed = await claim(store)
    assert (names(claimed), claimed.again_in) == ([], 0.25)
    clock.advance(0.125)
    assert names(await claim(store)) == []
    clock.advance(0.125)
    second = await start(store)
    assert (second.due, second.started_at) == (clock.now, clock.now)


async def test_retries_in_backoff_count_against_the_budget_when_they_wake(store, clock):
    """envoy#30205: retries that only waited used up the budget of those that could run."""
    taken = await begin(store, *jobs("r1", "r2", "r3", "later"))
    await store.commit([again(each, 0.0 if each.id != "later" else 90.0) for each in taken])
    settings = QueueSettings(RetryFirst(), Budget(2, 60))
    claimed = await run_by_policy(store, 5, settings=settings)
    assert (names(claimed), claimed.again_in) == (["r1", "r2"], 60.0)
    clock.advance(60)
    assert names(await run_by_policy(store, 5)) == ["r3"]
    clock.advance(30)
    assert names(await run_by_policy(store, 5)) == ["later"]


@pytest.mark.prove
async def test_a_hundred_thousand_retries_do_not_delay_other_works_due_times(store, clock):
    """sidekiq#3889: one long set of retries held up all that was scheduled behind it."""
    many = MANY.get(store.url.partition(":")[0], FEWER)
    for first in range(0, many, BATCH):
        names_of = [f"r{first + place}" for place in range(BATCH)]
        taken = await begin(store, *jobs(*names_of, body=BODY))
        # Half of them are due at once, half in an hour.
        await store.commit([again(each, 3600.0 * (n % 2)) for n, each in enumerate(taken)])
    mail = Worker("mailer", queues=("mail",))
    await store.enqueue([job("fresh"), job("timely", queue="mail", delay=1.0)])
    lane = Lane("mail", "default", 0)
    waits = await claim(store, lane, worker=mail)
    assert (names(waits), waits.again_in) == ([], 1.0)
    clock.advance(1)
    assert (await start(store, lane, worker=mail)).due == clock.now
    assert "fresh" in names(await run_by_policy(store, 2))


def test_retries_of_jobs_that_failed_together_do_not_come_back_together():
    """sidekiq#480: all jobs that an outage had failed came back in the same second."""
    app = Mulligan("memory://")
    count = 400

    @app.task  # the default policy: up to 2 s, drawn evenly
    async def away() -> None:
        raise ConnectionError("away")

    with app.testing(concurrency=count) as t:
        app.enqueue_many([away.call() for _ in range(count)])
        t.advance(0.001)
        dues = sorted(job.due - job.created_at for job in t.jobs() if job.retry_count)
    slots = [sum(slot <= due * 5 < slot + 1 for due in dues) for slot in range(10)]
    assert len(dues) == count
    assert max(slots) < 2 * count / 10, slots
    assert Retry().max_retries == 5
