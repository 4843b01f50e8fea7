"""What holds for a queue: histories with a broken order, share, gate or pause."""

import tracemalloc

import pytest

from mulligan import Budget
from mulligan.core.fetch import Balanced, Capped, Fifo, RetryFirst, Weighted
from mulligan.core.lane import Lane, Priority
from mulligan.core.limits import Limit
from mulligan.core.worker import Worker
from tests.history import events as told
from tests.history.book import Book
from tests.history.check import Reader
from tests.history.queues import LanesKeepOrder
from tests.history.shares import bound
from tests.history.story import FRESH, RETRY, Story, lease

URGENT = Lane("default", "default", Priority.URGENT)


class Compared(float):
    """A number that counts how often any of its kind is compared."""

    times = 0

    def __neg__(self) -> "Compared":
        return Compared(-float(self))

    def __lt__(self, other: float) -> bool:
        Compared.times += 1
        return float(self) < other

    def __gt__(self, other: float) -> bool:
        Compared.times += 1
        return float(self) > other

    def __ge__(self, other: float) -> bool:
        Compared.times += 1
        return float(self) >= other

    def __le__(self, other: float) -> bool:
        Compared.times += 1
        return float(self) <= other


def filled(*, retries: str = "", urgent: str = "", **settings: object) -> Story:
    story = Story().configure(**settings)
    for name in "abcdef":
        lane = RETRY if name in retries else URGENT if name in urgent else FRESH
        story.enqueue(name, lane=lane)
    return story


def test_nothing_is_claimed_from_a_queue_that_is_paused():
    story = Story().enqueue("a").pause()
    assert story.claim(lease("a", 1)).broken() == {"paused is left alone"}


def test_a_queue_that_was_resumed_is_served():
    story = Story().enqueue("a").pause().pause(paused=False)
    assert story.claim(lease("a", 1)).broken() == set()


def test_a_retry_is_claimed_from_the_lane_that_it_was_put_into():
    def story(lane: Lane) -> Story:
        failed = Story().enqueue("a").claim(lease("a", 1)).again("a", 1)
        return failed.claim(lease("a", 2, lane=lane, retry_count=1))

    assert story(RETRY).broken() == set()
    assert story(FRESH).broken() == {"lanes are kept"}
    assert story(RETRY._replace(scope="default")).broken() == {"lanes are kept"}


def test_a_job_that_may_have_been_tried_again_may_stand_in_either_lane():
    def story(lane: Lane, retry_count: int) -> Story:
        sent = Story().enqueue("a").claim(lease("a", 1)).again("a", 1, "lost")
        return sent.claim(lease("a", 2, lane=lane, retry_count=retry_count))

    assert story(RETRY, 1).broken() == set()
    assert story(FRESH, 1).broken() == {"lanes are kept"}


def test_a_job_of_which_nobody_was_told_stands_where_one_of_its_enqueues_put_it():
    there, elsewhere = (FRESH._replace(scope=region) for region in ("EU", "AS"))

    def story(lane: Lane) -> Story:
        told = Story().enqueue("a", lane=FRESH, lost=True).enqueue("a", lane=there, lost=True)
        return told.claim(lease("a", 1, lane=lane))

    assert story(FRESH).broken() == story(there).broken() == set()
    assert story(elsewhere).broken() == {"lanes are kept"}


def test_a_replayed_job_stands_in_the_lane_that_it_came_to():
    story = Story().enqueue("a").claim(lease("a", 1)).again("a", 1)
    story.claim(lease("a", 2, lane=RETRY, retry_count=1)).commit("a", 2, "dead", type="Fail")
    story.operate("replay", "a")
    assert story.claim(lease("a", 3, replay=1)).broken() == set()


def test_of_two_retries_the_one_that_fell_due_first_is_first():
    story = filled().claim(lease("b", 1, due=20.0, started_at=30.0))
    assert story.claim(lease("a", 1, due=10.0, started_at=31.0)).broken() == {"lanes keep order"}


def test_retries_in_order_of_their_due_times_are_in_order():
    story = filled().claim(lease("a", 1, due=10.0, started_at=30.0))
    assert story.claim(lease("b", 1, due=20.0, started_at=31.0)).broken() == set()


def test_a_job_that_joined_the_lane_later_was_not_passed():
    story = Story().enqueue("b").claim(lease("b", 1, due=20.0, started_at=30.0)).enqueue("a")
    assert story.claim(lease("a", 1, due=10.0, started_at=31.0)).broken() == set()


def test_a_job_that_its_key_holds_back_may_be_passed():
    story = Story().enqueue("a", limits=K).enqueue("b")
    story.claim(lease("b", 1, due=20.0, started_at=30.0))
    assert story.claim(lease("a", 1, due=10.0, started_at=31.0)).broken() == set()


def test_what_one_claim_costs_does_not_grow_with_the_claims_before_it():
    def cost(claims: int) -> tuple[int, int]:
        """How often due times are compared, and how many bytes are used, by the last claim."""
        story = Story()
        for number in range(claims):
            story.enqueue(str(number))
        for number in range(claims):  # the later it is claimed, the earlier it was due
            due = Compared(claims - number)
            story.claim(lease(str(number), 1, due=due, started_at=1e9))
        *before, last = story.events
        reader = Reader([LanesKeepOrder], Book())
        for event in before:
            reader.read(event)
        Compared.times = 0
        tracemalloc.start()
        reader.read(last)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return Compared.times, most

    few, many = cost(64), cost(2048)
    assert many[0] <= few[0] + 5  # each doubling of what is searched takes one look more
    assert many[1] < 8_192  # a copy of them would take twice that


@pytest.mark.parametrize(("share", "others"), [(0.5, 1), (0.2, 4), (0.8, 1), (1.0, 0)])
def test_a_share_bounds_how_many_others_go_before(share, others):
    assert bound(share) == others


def test_a_retry_does_not_wait_behind_two_fresh_starts():
    story = filled(policy=Balanced())
    story.claim(lease("a", 1), left=[("default", "retry")])
    assert story.broken() == set()
    story.claim(lease("b", 1), left=[("default", "retry")])
    assert story.broken() == {"shares are kept"}


def test_fresh_work_does_not_wait_behind_two_retries():
    story = filled(retries="ab", policy=Balanced())
    for name in "ab":
        story.claim(lease(name, 1, lane=RETRY), left=[("default", "fresh")])
    assert story.broken() == {"shares are kept"}


def test_turn_and_turn_about_is_fair():
    story = filled(retries="bd", policy=Balanced())
    for name, lane in zip("abcd", (FRESH, RETRY, FRESH, RETRY), strict=True):
        story.claim(lease(name, 1, lane=lane), left=[("default", "fresh"), ("default", "retry")])
    assert story.broken() == set()


def test_a_fifth_may_wait_behind_four():
    story = filled(policy=Weighted(0.2))
    for name in "abcd":
        story.claim(lease(name, 1), left=[("default", "retry")])
    assert story.broken() == set()
    assert story.claim(lease("e", 1), left=[("default", "retry")]).broken() == {"shares are kept"}


def test_a_start_begins_a_new_count_also_if_nothing_is_left():
    story = filled(retries="b", policy=Balanced())
    story.claim(lease("a", 1), left=[("default", "retry")]).claim(lease("b", 1, lane=RETRY))
    assert story.claim(lease("c", 1), left=[("default", "retry")]).broken() == set()


def test_under_retry_first_no_fresh_job_goes_before_a_retry():
    story = filled(policy=RetryFirst()).claim(lease("a", 1), left=[("default", "retry")])
    assert story.broken() == {"shares are kept"}


def test_under_fifo_retries_that_are_left_from_before_go_before_anybody():
    story = filled(retries="abc", policy=Fifo())
    for name in "abc":
        story.claim(lease(name, 1, lane=RETRY), left=[("default", "fresh")])
    assert story.broken() == set()


def test_what_is_returned_unstarted_goes_before_nobody():
    story = filled(policy=Balanced())
    for name in "ab":
        story.claim(lease(name, 1), left=[("default", "retry")])
    assert story.commit("b", 1, "returned").broken() == set()


def test_what_is_cancelled_under_a_claim_may_never_have_been_heard_of():
    story = filled(policy=Balanced()).claim(lease("a", 1), left=[("default", "retry")])
    story.operate("cancel", "a").claim(lease("b", 1), left=[("default", "retry")])
    assert story.broken() == set()
    assert story.claim(lease("c", 1), left=[("default", "retry")]).broken() == {"shares are kept"}


def test_urgent_work_does_not_starve_the_rest():
    story = filled(urgent="abcde")
    for name in "abcd":
        story.claim(lease(name, 1, lane=URGENT), left=[("default", "fresh")])
    assert story.broken() == set()
    story.claim(lease("e", 1, lane=URGENT), left=[("default", "fresh")])
    assert story.broken() == {"shares are kept"}


def test_no_more_retries_run_than_the_cap_allows():
    story = filled(retries="ab", policy=Capped(1)).claim(lease("a", 1, lane=RETRY))
    story.claim(lease("b", 1, lane=RETRY), worker="v")
    assert story.broken() == {"limits hold"}


def test_when_one_has_ended_another_may_run():
    story = filled(retries="ab", policy=Capped(1)).claim(lease("a", 1, lane=RETRY))
    story.commit("a", 1, "done")
    assert story.claim(lease("b", 1, lane=RETRY), worker="v").broken() == set()


def test_when_one_may_have_ended_another_may_run():
    story = filled(retries="ab", policy=Capped(1)).claim(lease("a", 1, lane=RETRY))
    story.commit("a", 1, "done", "lost")
    assert story.claim(lease("b", 1, lane=RETRY), worker="v").broken() == set()


K = {"k": 1}


def one_at_a_time(**limit):
    """A history that begins with limit k."""
    stored = Limit(**(limit or {"concurrency": 1}))
    return Story().tell(told.SetLimit(name="k", limit=stored, declared=True))


def started(story, **times):
    """Jobs of these names need limit k, and start at these times of the store."""
    for name, at in times.items():
        story.enqueue(name, limits=K).claim(lease(name, 1, started_at=at))
    return story.broken()


@pytest.mark.parametrize(
    ("limit", "times", "held"),
    [
        ({"rate": 2, "per": 60.0}, {"a": 10.0, "b": 30.0, "c": 69.0}, False),
        ({"rate": 2, "per": 60.0}, {"a": 10.0, "b": 30.0, "c": 70.0}, True),
        ({"rate": 2, "per": 60.0, "burst": 1}, {"a": 10.0, "b": 39.0}, False),
        ({"rate": 2, "per": 60.0, "burst": 1}, {"a": 10.0, "b": 40.0}, True),
    ],
)
def test_no_more_jobs_of_a_limit_start_than_its_rate_allows(limit, times, held):
    assert started(one_at_a_time(**limit), **times) == (set() if held else {"rates hold"})


def test_a_job_that_was_returned_is_not_counted_in_a_rate():
    story = one_at_a_time(rate=1, per=60.0).enqueue("a", limits=K)
    story.claim(lease("a", 1, started_at=10.0)).commit("a", 1, "returned")
    assert started(story, b=11.0) == set()


def test_a_limit_that_was_raised_begins_a_new_count():
    story = one_at_a_time(rate=1, per=60.0).enqueue("a", limits=K)
    story.claim(lease("a", 1, started_at=10.0))
    story.tell(told.SetLimit(name="k", limit=Limit(rate=2, per=60.0), declared=False))
    assert started(story, b=11.0, c=12.0) == set()


def test_no_job_of_a_paused_limit_starts():
    story = one_at_a_time().tell(told.PauseLimit(name="k", seconds=60.0))
    assert started(story, a=5.0) == {"pauses hold"}


def test_a_pause_ends_by_its_time_or_by_whoever_resumes_it():
    over = one_at_a_time().tell(told.PauseLimit(name="k", seconds=60.0)).wait(60)
    assert started(over, a=70.0) == set()
    resumed = one_at_a_time().tell(told.PauseLimit(name="k", seconds=60.0))
    resumed.tell(told.PauseLimit(name="k", seconds=0.0))
    assert started(resumed, a=5.0) == set()


def test_within_a_fairness_key_order_is_kept_and_between_keys_it_is_not():
    story = Story().enqueue("a", fairness_key="x").enqueue("b", fairness_key="y")
    story.claim(lease("b", 1)).claim(lease("a", 1))
    assert story.broken() == set()
    story = Story().enqueue("a", fairness_key="x").enqueue("b", fairness_key="x")
    story.claim(lease("b", 1)).claim(lease("a", 1))
    assert story.broken() == {"lanes keep order"}


def test_no_more_jobs_of_a_limit_run_than_it_allows():
    story = one_at_a_time().enqueue("a", limits=K).enqueue("b", limits=K)
    story.claim(lease("a", 1)).claim(lease("b", 1), worker="v")
    assert story.broken() == {"limits hold"}


def test_a_reclaimed_job_has_given_its_permit_back():
    story = one_at_a_time().enqueue("a", limits=K).enqueue("b", limits=K)
    story.claim(lease("a", 1)).wait(20).reclaim(lease("a", 2, worker="w"))
    assert story.claim(lease("b", 1), worker="v").broken() == set()


def test_a_job_that_may_have_been_reclaimed_unheard_may_have_given_its_permit_back():
    story = one_at_a_time().enqueue("a", limits=K).enqueue("b", limits=K)
    story.tell(told.Reclaim(worker=Worker("reaper")), lost=True)
    story.claim(lease("a", 1)).wait(60).claim(lease("b", 1), worker="v")
    assert story.broken() == set()


def test_no_more_retries_start_than_the_budget_allows():
    story = filled(retries="abc", budget=Budget(2, 60.0))
    for name, at in (("a", 10.0), ("b", 30.0), ("c", 69.0)):
        story.claim(lease(name, 1, lane=RETRY, due=at, started_at=at))
    assert story.broken() == {"budgets hold"}


def test_a_budget_is_new_after_its_time():
    story = filled(retries="abc", budget=Budget(2, 60.0))
    for name, at in (("a", 10.0), ("b", 30.0), ("c", 70.0)):
        story.claim(lease(name, 1, lane=RETRY, due=at, started_at=at))
    assert story.broken() == set()


def test_a_worker_that_sleeps_is_woken_for_what_falls_due():
    story = filled(grace=0.0).claim(worker="v")
    late = lease("a", 1, due=story.now, started_at=story.now + 10)
    assert story.wait(10).claim(late, worker="v").broken(woken_within=5) == {"sleepers are woken"}


def test_a_worker_may_have_had_no_child_process_free():
    story = filled(grace=0.0).claim(worker="v")
    late = lease("a", 1, due=story.now, started_at=story.now + 10)
    story.wait(10).claim(late, worker="v")
    assert story.broken(woken_within=5, pools=["default"]) == set()
    assert story.broken(woken_within=5, pools=["other"]) == {"sleepers are woken"}


def test_a_worker_that_comes_in_time_was_woken():
    story = filled(grace=0.0).claim(worker="v")
    due = lease("a", 1, due=story.now, started_at=story.now + 1)
    assert story.claim(due, worker="v").broken(woken_within=5) == set()


def test_a_worker_that_was_busy_did_not_oversleep():
    story = filled(grace=0.0).claim(lease("b", 1), worker="v")
    late = lease("a", 1, due=story.now, started_at=story.now + 10)
    assert story.wait(10).claim(late, worker="v").broken(woken_within=5) == set()


def test_a_worker_may_have_slept_while_the_breaker_of_another_region_was_closed():
    story = filled(grace=0.0).claim(worker="v")
    lane = Lane("default", "elsewhere", 0)
    late = lease("a", 1, lane=lane, due=story.now, started_at=story.now + 10)
    assert "sleepers are woken" not in story.wait(10).claim(late, worker="v").broken(woken_within=5)
