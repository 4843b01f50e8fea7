"""What an open breaker asks of its region: histories with a probe too soon, or one that costs."""

from typing import Any

import pytest
from msgspec.structs import replace

from mulligan.core.health import CLOSED, Breaker
from mulligan.core.lane import ANYWHERE, Lane, Priority
from mulligan.core.worker import Worker
from tests.history.story import RETRY, Story, lease

ANYONE = Lane("default", ANYWHERE, Priority.NORMAL)
# The worker of the region that is open, and that of a healthy one.
EVE = Worker("eve", "EU", lease=1000.0)
UMA = Worker("uma", "US", lease=1000.0)
OPEN = Breaker(open=True)


def opened(*, workers: tuple[Worker, ...] = (EVE, UMA)) -> Story:
    """Jobs for any region, of which EU is open."""
    story = Story()
    for worker in workers:
        story.beat(worker)
    for name in "abcd":
        story.enqueue(name, lane=ANYONE)
    return story.switch("EU", CLOSED, OPEN)


def probes(story: Story, *times: float) -> Story:
    """Probes of EU that start so many seconds after the first one may."""
    first = story.now + 10
    story.now = first + max(times)
    for name, after in zip("abcd", times, strict=False):
        at = first + after
        story.claim(lease(name, 1, lane=ANYONE, due=1.0, started_at=at), worker=EVE)
    return story


# -- probes are paced ------------------------------------------------------------------------


@pytest.mark.parametrize(("failed", "pause"), [(0, 1), (1, 1), (2, 2), (3, 4), (6, 30), (50, 30)])
def test_a_probe_starts_no_sooner_than_a_pause_after_the_one_before(failed, pause):
    def story(after: float) -> Story:
        return probes(opened().switch("EU", OPEN, replace(OPEN, probes=-failed)), 0, after)

    assert story(pause).broken() == set()
    assert story(pause - 0.1).broken() == {"probes are paced"}


def test_the_pause_is_that_of_the_region_that_is_open_alone():
    story = opened().claim(lease("a", 1, lane=ANYONE, started_at=20.0, due=1.0), worker=EVE)
    for name in "bcd":
        story.claim(lease(name, 1, lane=ANYONE, started_at=20.1, due=1.0), worker=UMA)
    assert story.broken() == set()


def test_after_a_probe_that_went_well_the_shortest_pause_is_enough_once():
    def story(*after: float) -> Story:
        begun = opened().switch("EU", OPEN, replace(OPEN, probes=-3))
        begun.claim(lease("a", 1, lane=ANYONE, started_at=20.0, due=1.0), worker=EVE)
        begun.commit("a", 1, "done")
        begun.now = 30.0
        for name, at in zip("bcd", after, strict=False):
            begun.claim(lease(name, 1, lane=ANYONE, started_at=20 + at, due=1.0), worker=EVE)
        return begun

    assert story(1).broken() == set()
    assert story(0.9).broken() == {"probes are paced"}
    assert story(1, 5).broken() == set()
    assert story(1, 2).broken() == {"probes are paced"}


def test_what_started_before_the_region_opened_is_no_probe():
    closed = opened().switch("EU", OPEN, CLOSED)
    assert probes(closed, 0, 0.1).broken() == set()
    again = probes(opened(), 0).switch("EU", OPEN, CLOSED).switch("EU", CLOSED, OPEN)
    started = again.now + 0.1
    again.claim(lease("b", 1, lane=ANYONE, started_at=started, due=1.0), worker=EVE)
    assert again.broken() == set()


@pytest.mark.parametrize("workers", [(EVE,), (EVE, replace(UMA, queues=("other",)))])
def test_where_no_healthy_region_serves_all_serve_as_usual(workers):
    assert probes(opened(workers=workers), 0, 0.1).broken() == set()
    story = opened(workers=workers).claim(lease("a", 1, lane=ANYONE), worker=EVE).again("a", 1)
    story.claim(lease("a", 2, lane=RETRY, retry_count=1), worker=EVE)
    assert story.broken() == set()


def test_while_it_is_not_known_whether_the_region_is_open_nothing_is_said():
    story = opened().switch("EU", OPEN, CLOSED, lost=True)
    assert probes(story, 0, 0.1).broken() == set()


# -- open takes no global retry --------------------------------------------------------------


def retried(worker: Worker, lane: Lane = RETRY) -> Story:
    """A job that failed before EU opened, and whose retry the worker takes after."""
    story = Story().beat(EVE).beat(UMA).enqueue("a", lane=ANYONE)
    story.claim(lease("a", 1, lane=ANYONE), worker=UMA).again("a", 1, lane=lane)
    story.switch("EU", CLOSED, OPEN)
    return story.claim(lease("a", 2, lane=lane, retry_count=1), worker=worker)


@pytest.mark.parametrize("scope", ["*", "*-US", "*+EU"])
def test_an_open_region_takes_no_retry_that_another_may_take(scope):
    assert retried(EVE, RETRY._replace(scope=scope)).broken() == {"open takes no global retry"}
    assert retried(UMA, RETRY._replace(scope=scope)).broken() == set()


def test_an_open_region_may_take_a_retry_that_is_pinned_to_it():
    assert retried(EVE, RETRY._replace(scope="EU")).broken() == set()


def test_a_region_that_closed_again_takes_any_retry():
    story = Story().beat(EVE).beat(UMA).enqueue("a", lane=ANYONE)
    story.claim(lease("a", 1, lane=ANYONE), worker=UMA).again("a", 1)
    story.switch("EU", CLOSED, OPEN).switch("EU", OPEN, CLOSED)
    assert story.claim(lease("a", 2, lane=RETRY, retry_count=1), worker=EVE).broken() == set()


# -- failed probes are free ------------------------------------------------------------------


def failed_probes(*costs: str, **of: Any) -> Story:
    """A job that fails as a probe again and again, each time with a retry or free."""
    story, pinned = opened(), ANYONE._replace(scope="EU")
    for token, cost in enumerate(costs, 1):
        snoozes = costs[: token - 1].count("free")
        used = token - 1 - snoozes
        lane = ANYONE if token == 1 else pinned
        taken = lease("a", token, lane=lane, retry_count=used, snoozes=snoozes)
        story.wait(30).claim(taken, worker=EVE)
        story.again("a", token, lane=pinned, number=used + 1, free=cost == "free", **of)
    return story


def test_a_failed_probe_uses_no_retry_three_times_a_job():
    assert failed_probes("free", "free", "free", "retry").broken() == set()
    assert failed_probes("free", "free", "free", "free").broken() == {"failed probes are free"}
    for before in range(3):
        assert failed_probes(*["free"] * before, "retry").broken() == {"failed probes are free"}


@pytest.mark.parametrize("type_", ["ValueError", "KeyError", "RetryAfter", "Refused"])
def test_what_says_nothing_about_the_region_uses_a_retry(type_):
    assert failed_probes("retry", type=type_).broken() == set()


def test_a_failed_probe_makes_no_dead_letter():
    def story(worker: Worker, type_: str) -> Story:
        begun = opened().claim(lease("a", 1, lane=ANYONE), worker=worker)
        return begun.commit("a", 1, "dead", type=type_, number=1)

    assert "failed probes are free" in story(EVE, "TimeoutError").broken()
    assert "failed probes are free" not in story(EVE, "Fail").broken()
    assert "failed probes are free" not in story(UMA, "TimeoutError").broken()


def test_a_lost_probe_uses_a_retry():
    def story(*, free: bool) -> Story:
        begun = opened().claim(lease("a", 1, lane=ANYONE), worker=EVE)
        begun.wait(EVE.lease).reclaim(lease("a", 2, lane=ANYONE))
        return begun.again("a", 2, free=free, type="Lost")

    assert story(free=False).broken() == set()
    assert story(free=True).broken() == {"failed probes are free"}


def test_a_failure_after_the_region_closed_uses_a_retry():
    story = opened().claim(lease("a", 1, lane=ANYONE), worker=EVE).switch("EU", OPEN, CLOSED)
    assert story.again("a", 1).broken() == set()
