"""Limits that are not made use of: jobs that are left waiting, and such as had to wait."""

import pytest

from mulligan.core.limits import Limit
from tests.history import events as told
from tests.history.events import Fault
from tests.history.story import FRESH, Story, lease

K = {"k": 1}
RATE = Limit(rate=2, per=60.0)
BUCKET = Limit(rate=1, per=30.0, burst=2)


def limited(limit: Limit, *names: str) -> Story:
    """Jobs that name limit k."""
    story = Story().tell(told.SetLimit(name="k", limit=limit, declared=True))
    for name in names:
        story.enqueue(name, limits=K)
    return story


def idle(story: Story) -> Story:
    """A worker asks, and gets nothing though it looked into every lane."""
    return story.claim(worker="v", emptied=[FRESH])


@pytest.mark.parametrize("limit", [Limit(concurrency=1), RATE, BUCKET])
def test_a_job_that_has_room_is_not_left_waiting(limit):
    story = idle(limited(limit, "a"))
    assert story.claim(lease("a", 1)).broken() == {"room is used"}


def test_one_that_came_later_was_not_left():
    story = idle(limited(RATE)).enqueue("a", limits=K)
    assert story.claim(lease("a", 1)).broken() == set()


def test_who_looked_elsewhere_has_not_left_it():
    story = limited(RATE, "a").claim(worker="v")
    assert story.claim(lease("a", 1)).broken() == set()


@pytest.mark.parametrize("limit", [Limit(concurrency=2), RATE, BUCKET])
def test_without_room_it_waits(limit):
    story = limited(limit, "a", "b", "c").claim(lease("a", 1)).claim(lease("b", 1))
    idle(story).commit("a", 1, "done").wait(60)
    assert story.claim(lease("c", 1)).broken() == set()


@pytest.mark.parametrize("limit", [RATE, BUCKET])
def test_what_is_returned_has_used_nothing(limit):
    story = limited(limit, "a", "b", "c").claim(lease("a", 1)).claim(lease("b", 1))
    idle(story.commit("a", 1, "returned"))
    assert story.claim(lease("c", 1)).broken() == {"room is used"}


@pytest.mark.parametrize("limit", [RATE, BUCKET])
def test_after_a_while_there_is_room_again(limit):
    story = limited(limit, "a", "b", "c").claim(lease("a", 1)).claim(lease("b", 1))
    idle(story.wait(60))
    assert story.claim(lease("c", 1)).broken() == {"room is used"}


def test_a_permit_that_was_freed_can_be_had():
    story = limited(Limit(concurrency=1), "a", "b").claim(lease("a", 1))
    idle(story.commit("a", 1, "done"))
    assert story.claim(lease("b", 1)).broken() == {"room is used"}


def test_there_must_be_room_for_the_dearest_that_may_be_first():
    story = limited(RATE).enqueue("a", limits=K).enqueue("dear", limits={"k": 2})
    story.enqueue("b", limits=K).claim(lease("a", 1))
    assert idle(story).claim(lease("b", 1)).broken() == set()


def test_one_that_names_two_limits_may_wait_for_the_other():
    story = idle(limited(RATE).enqueue("a", limits={"k": 1, "l": 1}))
    assert story.claim(lease("a", 1)).broken() == set()


def test_a_paused_limit_has_no_room():
    story = limited(RATE, "a").tell(told.PauseLimit(name="k", seconds=30.0))
    assert idle(story).wait(60).claim(lease("a", 1)).broken() == set()
    resumed = limited(RATE, "a").tell(told.PauseLimit(name="k", seconds=30.0))
    resumed.tell(told.PauseLimit(name="k", seconds=0.0))
    assert idle(resumed).claim(lease("a", 1)).broken() == {"room is used"}


@pytest.mark.parametrize(
    "said", [{"spent": {"k": 2}}, {"pauses": {"k": 30.0}}, {"retry_after": 30.0}]
)
def test_what_a_job_spends_or_pauses_is_counted(said):
    story = limited(RATE, "a", "b").claim(lease("a", 1)).commit("a", 1, "done", **said)
    assert idle(story).wait(60).claim(lease("b", 1)).broken() == set()


@pytest.mark.parametrize("said", [{"spent": {"k": 2}}, {"pauses": {"k": 30.0}}])
def test_so_is_what_it_may_have(said):
    story = limited(RATE, "a", "b").claim(lease("a", 1)).commit("a", 1, "done", "lost", **said)
    assert idle(story).wait(600).claim(lease("b", 1)).broken() == set()


def test_a_claim_without_an_answer_may_hold_everything():
    story = idle(limited(RATE, "a").claim_lost())
    assert story.claim(lease("a", 1)).broken() == set()


def test_when_a_clock_is_set_nobody_knows():
    story = idle(limited(RATE, "a").tell(Fault(what="clock", seconds=-600.0)))
    assert story.claim(lease("a", 1)).broken() == set()


def test_a_rate_that_was_changed_may_count_otherwise():
    story = limited(RATE, "a", "b").claim(lease("a", 1))
    story.tell(told.SetLimit(name="k", limit=Limit(rate=3, per=60.0), declared=False))
    assert idle(story).claim(lease("b", 1)).broken() == set()


def test_one_that_was_declared_after_its_first_job_came_is_known():
    story = Story().enqueue("a", limits=K)
    story.tell(told.SetLimit(name="k", limit=RATE, declared=True))
    assert idle(story).claim(lease("a", 1)).broken() == {"room is used"}


def test_a_job_of_a_pool_may_have_waited_for_a_process():
    story = idle(limited(RATE, "a")).claim(lease("a", 1))
    assert story.broken(pools=["default"]) == set()


def test_limits_that_a_job_was_given_later_are_counted():
    story = limited(Limit(concurrency=1), "b").enqueue("a").claim(lease("a", 1))
    story.commit("a", 1, "returned", limits=K).claim(lease("a", 2))
    assert idle(story).wait(60).claim(lease("b", 1)).broken() == {"limits hold"}


def test_who_looks_while_another_gives_back_may_find_no_room_yet():
    story = limited(Limit(concurrency=1), "a", "b").claim(lease("a", 1)).commit("a", 1, "done")
    story.events[-1].ended = story.now + 1.5
    idle(story).wait(5)
    assert story.claim(lease("b", 1)).broken() == set()


def test_who_looks_while_another_takes_may_find_no_room_any_more():
    story = idle(limited(Limit(concurrency=1), "a", "b"))
    story.events[-1].ended = story.now + 1.5
    story.claim(lease("a", 1)).wait(5).commit("a", 1, "done")
    assert story.claim(lease("b", 1)).broken() == set()
