"""Counts, breakers and the numbers that follow, from the real engine on the virtual clock."""

import asyncio
from collections import Counter
from types import SimpleNamespace

import pytest

from mulligan import Delays, Fail, Mulligan, Retry, RetryAfter, current_job
from mulligan.core.alerts import alerts
from mulligan.core.counts import Count
from mulligan.core.errors import StoreUnavailableError
from mulligan.core.facts import Facts
from mulligan.core.health import Breaker, Health, Probe
from mulligan.core.job import Attempt
from mulligan.core.metrics import summary
from mulligan.core.outcome import Again, Done, Failed, Succeeded
from mulligan.engine.breakers import Ending
from mulligan.engine.reporter import Reporter, ending_of
from mulligan.stores.memory import MemoryStore
from mulligan.testing import Testing as Harness
from tests.core.test_decide import claimed

REGIONS = ("US", "EU", "ASIA")


class Fleet:
    """An app whose attempts fail in the regions that are down, and what ran where."""

    def __init__(self) -> None:
        self.app = Mulligan("memory://")
        self.down = {"US"}
        self.error: BaseException = ConnectionError("away")
        self.runs: list[tuple[str, str]] = []
        self.most: Counter[str] = Counter()
        running: Counter[str] = Counter()

        @self.app.task(queue="q", region="US", retry=Retry(0))
        async def ask() -> str:
            here = current_job().worker_region
            running[here] += 1
            self.most[here] = max(self.most[here], running[here])
            self.runs.append((here, current_job().id))
            await asyncio.sleep(0.1)
            running[here] -= 1
            if here in self.down:
                raise self.error
            return here

        self.ask = ask

    def send(self, count: int) -> None:
        self.app.enqueue_many([self.ask.call() for _ in range(count)])

    def ran_in(self, since: int = 0) -> Counter[str]:
        return Counter(region for region, _ in self.runs[since:])


@pytest.fixture
def fleet():
    return Fleet()


def breaker(t: Harness, region: str = "US") -> Breaker:
    facts = t.run(t.store.facts())
    return facts.health_of("q", region).breaker


def trip(fleet: Fleet, t: Harness) -> None:
    """Let twenty attempts fail in US, which opens its breaker."""
    fleet.send(20)
    t.drain()
    t.advance(5)
    assert breaker(t).open


def test_a_breaker_opens_after_twenty_attempts_of_which_most_failed(fleet):
    with fleet.app.testing(regions=REGIONS) as t:
        fleet.send(19)
        t.drain()
        t.advance(3)
        assert not breaker(t).open
        fleet.send(1)
        t.drain()
        t.advance(3)
        assert breaker(t).open
        assert set(fleet.ran_in()) == {"US"}
        assert alerts(t.run(t.store.stats()), t.run(t.store.facts())) == [
            "the breaker of queue q in region US has been open for 3.0 s, 0 of 3 probes"
        ]


def test_healthy_regions_take_the_fresh_jobs_of_an_open_one_which_takes_one_at_a_time(fleet):
    with fleet.app.testing(regions=REGIONS, concurrency=5) as t:
        trip(fleet, t)
        before = len(fleet.runs)
        fleet.most.clear()
        fleet.send(100)
        t.drain()
        taken = fleet.ran_in(before)
        assert taken["EU"] + taken["ASIA"] > taken["US"] > 0
        assert (fleet.most["US"], fleet.most["EU"]) == (1, 5)


def test_three_good_probes_close_the_breaker(fleet):
    with fleet.app.testing(regions=REGIONS) as t:
        trip(fleet, t)
        fleet.down.clear()
        for _ in range(3):
            assert breaker(t).open
            fleet.send(2)
            t.advance(1)
        assert not breaker(t).open
        assert alerts(t.run(t.store.stats()), t.run(t.store.facts())) == []
        before = len(fleet.runs)
        fleet.send(9)
        t.drain()
        assert set(fleet.ran_in(before)) == {"US"}


def test_a_failed_probe_starts_the_count_anew(fleet):
    with fleet.app.testing(regions=("US", "EU"), concurrency=1) as t:
        trip(fleet, t)
        probes = []
        for good in (True, True, False, True, True, True):
            fleet.down = set() if good else {"US"}
            started = len(fleet.runs)
            while "US" not in fleet.ran_in(started):
                fleet.send(2)
                t.advance(1)
            t.drain()
            probes.append((breaker(t).open, breaker(t).probes))
        assert probes == [(True, 1), (True, 2), (True, -1), (True, 1), (True, 2), (False, 0)]


class TooManyError(Exception):
    """What a client raises that was told when to come back."""

    retry_after = 20


class RefusedError(Exception):
    """What an HTTP client raises: the answer is part of it."""

    response = SimpleNamespace(headers={"Retry-After": "20"})


@pytest.mark.parametrize(
    "error",
    [
        *(Fail("hopeless"), None, ValueError("no number"), KeyError("name"), AssertionError()),
        *(AttributeError("x"), TypeError("y"), RetryAfter(20), TooManyError(), RefusedError()),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_says_nothing_about_a_region_does_not_open_its_breaker(fleet, error):
    if error is None:
        fleet.down = set()
        fleet.ask.accept = lambda _: False
    else:
        fleet.error = error
    with fleet.app.testing(regions=REGIONS) as t:
        fleet.send(40)
        t.drain()
        t.advance(5)
        assert not breaker(t).open
        counts = t.run(t.store.counts())
        assert counts.ever["q", "US", "job-fault"] == 40
        assert ("q", "US", "failed") not in counts.ever


def test_where_every_region_is_open_all_serve(fleet):
    fleet.down = {"US", "EU"}
    with fleet.app.testing(regions=("US", "EU"), concurrency=5) as t:
        trip(fleet, t)
        fleet.app.enqueue_many([fleet.ask.using(region="EU").call() for _ in range(30)])
        t.drain()
        t.advance(5)
        assert breaker(t, "EU").open
        fleet.most.clear()
        fleet.send(40)
        t.drain()
        assert fleet.most["US"] == 5


def test_retries_of_an_open_region_run_elsewhere(fleet):
    with fleet.app.testing(regions=REGIONS) as t:
        trip(fleet, t)
        before = len(fleet.runs)
        plan = fleet.ask.using(retry=Retry(3, Delays((1,))))
        jobs = fleet.app.enqueue_many([plan.call() for _ in range(10)])
        t.drain()
        assert {job.status for job in jobs} == {"done"}
        retried = [job for region, job in fleet.runs[before:] if region == "US"]
        after = [
            region
            for place, (region, job) in enumerate(fleet.runs[before:])
            if (("US", job)) in fleet.runs[before : before + place]
        ]
        assert len(after) == len(retried) > 0
        assert "US" not in after


def test_counts_reach_the_store_and_the_summary(fleet):
    with fleet.app.testing(regions=("US", "EU")) as t:
        plan = fleet.ask.using(retry=Retry(1, Delays((1,))))
        fleet.app.enqueue_many([plan.call() for _ in range(3)])
        t.drain()
        t.advance(3)
        counts = t.run(t.store.counts())
        assert counts.ever == counts.recent
        counted = {(region, name): n for (_, region, name), n in counts.ever.items()}
        assert counted["US", "started.fresh"] == counted["US", "failed"] == 3
        assert counted["EU", "started.global-retry"] == counted["EU", "retry-elsewhere"] == 3
        assert counted["EU", "succeeded"] == counted["EU", "retry-succeeded"] == 3
        assert counted["EU", "retry-return.sum"] == pytest.approx(3.0, abs=0.2)
        shown = summary(counts, t.run(t.store.facts()))["q"]
        assert shown["US"]["success_rate"] == 0.0
        assert shown["EU"]["retry_success_rate"] == shown["EU"]["retries_elsewhere"] == 1.0
        assert shown["EU"]["retry_return_p50"] in (1.0, 2.0)


def test_a_lost_worker_is_counted_where_it_was_lost(fleet):
    with fleet.app.testing(regions=("US", "EU")) as t:
        [job] = fleet.app.enqueue_many([fleet.ask.using(retry=Retry(3, Delays((1,)))).call()])
        t.advance(0.05)  # it runs in US
        t.run(silence(t))
        t.drain()
        t.advance(3)
        ever = t.run(t.store.counts()).ever
        assert job.status == "done"
        assert (
            ever["q", "US", "reclaimed"]
            == ever["q", "US", "lost"]
            == ever["q", "US", "failed"]
            == 1
        )
        assert ever["q", "EU", "succeeded"] == 1


async def silence(t: Harness) -> None:
    """Kill the first worker: nothing more is heard of it."""
    engine, task = t._engines.pop(0)
    engine.slots.stop()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


# -- the reporter by itself -------------------------------------------------------------------


class Away(MemoryStore):
    """A store that does not answer some operations."""

    def __init__(self) -> None:
        super().__init__()
        self.away: set[str] = set()
        self.switched = 0

    async def count(self, counts):
        if "count" in self.away:
            raise StoreUnavailableError("away")
        return await super().count(counts)

    async def tail(self, lane, due):
        if "tail" in self.away:
            raise StoreUnavailableError("away")
        return await super().tail(lane, due)

    async def switch(self, queue, region, before, after):
        self.switched += 1
        if "switch" in self.away:
            # Another worker was quicker.
            self.away.discard("switch")
            await super().switch(queue, region, before, after)
        return await super().switch(queue, region, before, after)


US = ("default", "US")


async def test_nothing_is_told_where_there_is_nothing_to_tell():
    store = Away()
    store.away = {"count", "tail"}
    await Reporter(store).report()


async def test_counts_whose_answer_is_lost_are_not_told_twice():
    store = Away()
    reporter = Reporter(store)
    store.away = {"count"}
    reporter.answered(Ending(*US, ("succeeded",)), "written")
    await reporter.report()
    store.away.clear()
    reporter.answered(Ending(*US, ("failed",)), "written")
    await reporter.report()
    assert (await store.counts()).ever == {(*US, "failed"): 1}


async def test_counts_wait_while_the_store_is_away_before_they_are_told():
    store = Away()
    reporter = Reporter(store)
    store.away = {"tail"}
    reporter.started(claimed(retry_count=1, scope="*", lane_priority=1))
    await reporter.report()
    store.away.clear()
    await reporter.report()
    assert (await store.counts()).ever["questions", "US", "started.global-retry"] == 1


async def test_a_stale_outcome_counts_as_stale_and_as_nothing_else():
    store = Away()
    reporter = Reporter(store)
    reporter.answered(Ending(*US, ("succeeded",), Probe(succeeded=True, started_at=1.0)), "stale")
    reporter.answered(Ending(*US, ("succeeded",)), "already")
    await reporter.report()
    assert (await store.counts()).ever == {(*US, "stale"): 1, (*US, "succeeded"): 1}


async def test_of_two_workers_that_open_a_breaker_at_once_one_does():
    store = Away()
    await store.count([Count(*US, "failed", 19)])
    store.away = {"switch"}
    reporter = Reporter(store)
    reporter.answered(Ending(*US, ("failed",)), "written")
    await reporter.report()
    assert store.switched == 1
    assert (await store.facts()).health_of(*US).breaker.open


def ended(result: Succeeded | Failed, health: Health) -> Ending:
    claim = claimed()
    outcome = Done(claim.lease) if isinstance(result, Succeeded) else again(claim)
    return ending_of(claim, result, outcome, Facts(health={("questions", "US"): health}))


def again(claim) -> Again:
    failure = Attempt(1, 0, "US", "w", 100.0, "TimeoutError", "late")
    return Again(claim.lease, claim.lane, 0.0, failure)


OOPS = Failed("TimeoutError", "late")
REFUSED = Failed("Refused", "no", refused="1")


@pytest.mark.parametrize(
    ("result", "breaker", "probe"),
    [
        (Succeeded(b"1"), Breaker(open=True, since=100.0), (True, 101.0)),
        (OOPS, Breaker(open=True, since=100.0), (False, 101.0)),
        (REFUSED, Breaker(open=True, since=100.0), None),
        (OOPS, Breaker(open=True, since=102.0), None),  # it started before
        (OOPS, Breaker(since=100.0), None),
    ],
)
def test_an_attempt_that_started_while_the_breaker_was_open_is_a_probe(result, breaker, probe):
    assert ended(result, Health(breaker=breaker)).probe == probe
