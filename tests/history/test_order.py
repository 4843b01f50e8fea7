"""What clients saw of operations that overlap: no alarm if some order of them explains it."""

from typing import Any, Self

import pytest

from mulligan import Budget
from mulligan.core.job import Lease
from mulligan.core.worker import Worker
from tests.history import AnyEvent, check, in_order
from tests.history import events as told
from tests.history.events import Kept, latest
from tests.history.story import RETRY, Story, lease


class Seen(Story):
    """A story by several processes, each event with its own begin and end."""

    def within(self, began: float, ended: float | None) -> Self:
        """When the last event was asked for and answered; by a process of its own."""
        event = self.events[-1]
        event.began, event.ended = began, ended
        event.process = f"p{len(self.events)}"
        return self

    def order(self) -> list[AnyEvent]:
        return in_order(self.timed())

    def broken(self, **options: Any) -> set[str]:
        return {violation.invariant for violation in check(self.order(), **options)}


def kinds(events: list[AnyEvent]) -> list[str]:
    return [type(event).__name__ for event in events]


def test_of_two_that_do_not_overlap_the_first_to_end_is_first_whatever_they_say():
    # The claim says that it was after the enqueue, which began when the claim had ended.
    story = Seen().enqueue("a").within(10, 11).claim(lease("a", 1)).within(1, 2)
    story.pause().within(5, 6)

    assert kinds(story.order()) == ["Claim", "Pause", "Enqueue"]


def test_what_waits_for_a_long_operation_holds_up_nothing_that_began_after_it_had_ended():
    story = Seen().enqueue("a").within(0, 1)
    story.claim(lease("a", 1)).within(2, 100)
    story.commit("a", 1, "done").within(3, 4)  # under a lease that nobody had heard of
    story.enqueue("b").within(50, 51)

    assert [latest(event) for event in story.order()] == [1, 100, 4, 51]


def test_stock_is_taken_last():
    story = Seen().stock().within(0, None).enqueue("a").within(5, 6)

    assert kinds(story.order()) == ["Enqueue", "Stock"]


def test_an_id_that_is_used_again_began_each_life_before_its_first_claim():
    story = Seen().enqueue("a").within(1, 2).claim(lease("a", 4097)).within(3, 4)
    story.commit("a", 4097, "done").within(5, 6).operate("purge", "a").within(7, 8)
    story.claim(lease("a", 8193)).within(9, 100).enqueue("a").within(20, 21)

    assert story.broken() == set()


def test_a_life_whose_beginning_was_not_answered_is_not_that_of_a_later_one():
    story = Seen().enqueue("a", lost=True).within(1, None).enqueue("a", first="a").within(2, 3)
    story.claim(lease("a", 4097)).within(4, 5).commit("a", 4097, "done").within(6, 7)
    story.operate("purge", "a").within(8, 9).enqueue("a").within(10, 11)
    story.claim(lease("a", 8193)).within(12, 13)

    assert story.broken() == set()


def test_a_claim_that_overlaps_a_second_beginning_may_be_of_the_life_before():
    story = Seen().enqueue("a").within(1, 2).claim(lease("a", 4097)).within(10, 30)
    story.operate("cancel", "a").within(20, 20).operate("purge", "a").within(21, 21)
    story.enqueue("a").within(22, 22)
    story.commit("a", 4097, "done", "stale").within(40, 41)

    assert story.broken() == set()


def test_a_claim_that_overlaps_a_second_beginning_is_of_that_life_if_it_lives_on():
    story = Seen().enqueue("a").within(1, 2).claim(lease("a", 8193)).within(10, 30)
    story.operate("cancel", "a").within(20, 20).operate("purge", "a").within(21, 21)
    story.enqueue("a").within(22, 22)
    story.commit("a", 8193, "done").within(40, 41)

    assert story.broken() == set()


def test_a_job_that_somebody_held_unheard_was_not_passed():
    def story(token: int) -> Seen:
        seen = Seen().enqueue("a").within(1, 2).enqueue("b").within(1, 2)
        seen.claim_lost("v").within(5, None)
        seen.claim(lease("b", 1, due=20.0, started_at=30.0)).within(10, 11)
        seen.commit("a", 1, "returned", "lost").within(12, None)
        return seen.claim(lease("a", token, due=10.0, started_at=31.0)).within(20, 21)

    assert story(2).broken() == set()
    assert story(1).broken() == {"lanes keep order"}  # the first that it was given


def test_what_follows_from_a_commit_without_an_answer_may_be_claimed_while_it_is_under_way():
    story = Seen().enqueue("a").within(1, 2).claim(lease("a", 1)).within(3, 4)
    story.claim(lease("b", 1)).within(5, 100)
    story.commit("a", 1, "done", "lost", next=[told.New("b", region="default")]).within(50, None)

    assert story.broken() == set()


def test_a_gathering_job_may_start_while_the_last_arrival_is_under_way():
    story = Seen().enqueue("g", awaits=1).within(1, 2).enqueue("m", gather="g").within(1, 2)
    story.claim(lease("m", 1)).within(3, 4).claim(lease("g", 1)).within(5, 100)
    story.commit("m", 1, "done").within(50, 60)

    assert story.broken() == set()
    story.events[-1].began = 101.0
    story.events[-1].ended = 102.0
    assert story.broken() == {"gathers all"}


def test_a_replay_stands_between_the_dead_letter_and_the_next_claim():
    story = Seen().enqueue("a", max_retries=0).within(1, 2).claim(lease("a", 1)).within(3, 4)
    story.operate("replay", "a").within(5, 100)
    story.commit("a", 1, "dead").within(10, 20)
    story.claim(lease("a", 2, replay=1)).within(11, 120)

    assert story.broken() == set()


def test_so_does_one_in_the_first_of_several_lives():
    story = Seen().enqueue("a", max_retries=0).within(1, 2).claim(lease("a", 4097)).within(3, 4)
    story.commit("a", 4097, "dead").within(5, 6)
    story.claim(lease("a", 4098, replay=1)).within(10, 120)
    story.operate("replay", "a").within(50, 60)
    story.commit("a", 4098, "done").within(130, 131).operate("purge", "a").within(140, 141)
    story.enqueue("a").within(150, 151).claim(lease("a", 8193)).within(160, 161)

    assert story.broken() == set()


def test_what_was_purged_may_have_come_from_an_enqueue_that_was_not_answered():
    story = Seen().enqueue("a", lost=True)
    story.operate("cancel", "a").within(5, 5).operate("purge", "a").within(5, 5)
    story.enqueue("a").within(5, 5).claim(lease("a", 8193)).within(6, 7)

    assert story.broken() == set()


def test_a_job_that_was_sent_again_may_be_cancelled_right_after_it_was_returned():
    story = Seen().enqueue("a", lost=True).within(1, None).enqueue("a").within(3, 4)
    story.claim(lease("a", 4097)).within(5, 6).operate("cancel", "a").within(10, 30)
    story.commit("a", 4097, "returned").within(20, 21)
    story.prune(60.0).within(22, None)  # of what ended before all this

    assert story.broken() == set()


@pytest.mark.parametrize("how", ["purge", "lost purge", "prune", "keep"])
def test_unless_it_may_have_been_deleted_and_then_it_was_cancelled_before(how):
    keep = 1.0 if how == "keep" else None
    story = Seen().enqueue("a", lost=True, keep=keep).within(1, None)
    story.operate("cancel", "a").within(5, 50)
    if how in ("prune", "keep"):
        story.prune(0.0 if how == "prune" else 3600.0).within(6, 50)
    else:
        story.operate("purge", "a", done=None if how == "lost purge" else True)
        story.within(6, None if how == "lost purge" else 50)
    story.enqueue("a").within(7, 60).claim(lease("a", 8193)).within(8, 61)
    story.commit("a", 8193, "done").within(62, 63)

    assert story.broken() == set()


def held() -> Seen:
    return Seen().enqueue("a").within(1, 2).claim(lease("a", 4097)).within(3, 4)


@pytest.mark.parametrize("thief", ["reclaim", "cancel", "lost reclaim", "second life"])
def test_a_refusal_may_be_due_to_whatever_took_the_lease_while_it_was_under_way(thief):
    def story(began: float) -> Seen:
        seen = held().commit("a", 4097, "done", "stale").within(10, 100)
        match thief:
            case "reclaim":
                seen.reclaim(lease("a", 4098, worker="w"))
            case "cancel":
                seen.operate("cancel", "a")
            case "lost reclaim":
                seen.tell(told.Reclaim(worker=Worker("r")), lost=True)
                return seen.within(began, None)
            case _:
                seen.operate("cancel", "a").within(began, began)
                seen.operate("purge", "a").within(began + 0.1, began + 0.1).enqueue("a")
                return seen.within(began + 0.2, began + 0.2)
        return seen.within(began, began)

    assert story(50).broken() == set()
    assert story(101).broken() == {"held is honoured"}


def test_a_beat_that_overlaps_a_reclaim_need_not_have_been_before_it():
    def story(answered: float) -> Seen:
        seen = held().beat("w", Lease("a", 4097)).within(10, answered)
        return seen.reclaim(lease("a", 4098, worker="w")).within(20, 20)

    assert story(20).broken() == set()
    assert story(19).broken() == {"live leases are kept"}


def test_who_asks_to_leave_while_it_is_reclaimed_from_may_have_left():
    def story(asked: float) -> Seen:
        seen = held().beat("w", Lease("a", 4097)).within(10, 11)
        seen.reclaim(lease("a", 4098, worker="w")).within(20, 22)
        return seen.tell(told.Leave(worker="w")).within(asked, 30)

    assert story(21).broken() == set()
    assert story(23).broken() == {"live leases are kept"}


def test_a_clock_that_is_set_while_a_reclaim_is_under_way_may_have_ended_the_lease():
    story = held().beat("w", Lease("a", 4097)).within(10, 11)
    story.reclaim(lease("a", 4098, worker="w")).within(20, 22)
    story.tell(told.Fault(what="clock", seconds=7200.0)).within(21, 21)

    assert story.broken() == set()


def test_a_claim_may_follow_a_resume_that_began_while_it_was_under_way():
    def story(resumed: float) -> Seen:
        seen = Seen().enqueue("a").within(1, 2).pause().within(3, 4)
        seen.claim(lease("a", 1)).within(5, 50)
        return seen.pause(paused=False).within(resumed, resumed + 1)

    assert story(40).broken() == set()
    assert story(51).broken() == {"paused is left alone"}


def test_a_key_may_have_been_freed_while_the_next_of_its_jobs_was_enqueued():
    def story(ended: float) -> Seen:
        seen = Seen().enqueue("a", key=("default", "k")).within(1, 2)
        seen.claim(lease("a", 1)).within(3, 4)
        seen.enqueue("b", key=("default", "k")).within(10, 50)
        return seen.commit("a", 1, "done").within(ended, ended + 1)

    assert story(40).broken() == set()
    assert story(51).broken() == {"keys exclude"}


def test_a_key_may_be_kept_by_a_second_life_that_began_meanwhile():
    story = Seen().enqueue("a", key=("default", "k")).within(1, 2)
    story.claim(lease("a", 4097)).within(3, 4).commit("a", 4097, "done").within(5, 6)
    story.enqueue("b", first="a", key=("default", "k")).within(10, 50)
    assert story.broken() == {"keys exclude"}

    story.operate("purge", "a").within(20, 21)
    story.enqueue("a", key=("default", "k")).within(22, 23)
    assert story.broken() == set()


def test_budgets_are_judged_by_the_times_of_the_store_not_by_who_asked_first():
    def story(started_at: float) -> Seen:
        seen = Seen().configure(budget=Budget(1, per=50)).within(0, 0)
        for job in "ab":
            seen.enqueue(job, lane=RETRY).within(1, 2)
        seen.claim(lease("a", 1, lane=RETRY, started_at=90.0)).within(5, 100)
        return seen.claim(lease("b", 1, lane=RETRY, started_at=started_at)).within(10, 60)

    assert story(15.0).broken() == set()
    assert story(55.0).broken() == {"budgets hold"}


def test_of_many_that_were_sent_and_not_answered_none_under_an_old_token_can_have_happened():
    story = held().reclaim(lease("a", 4098, worker="w")).within(5, 6)
    story.again("a", 4098).within(7, 8)
    story.claim(lease("a", 4099, lane=RETRY, retry_count=1)).within(9, 10)
    story.commit("a", 4099, "done").within(11, 12)
    for began in range(20, 30):
        story.again("a", 4097, "lost").within(began, None)
    story.prune(0.0).within(40, 41).stock().within(50, 51)

    assert story.broken() == set()


def test_what_may_have_been_returned_may_have_expired_since():
    story = Seen().enqueue("a", expires=30.0).within(1, 2).claim(lease("a", 1)).within(3, 4)
    story.commit("a", 1, "returned", "lost").within(5, None)
    story.stock(Kept("a", "cancelled", token=1)).within(100, 101)

    assert story.broken() == set()


def test_of_what_may_have_happened_only_what_could_is_believed():
    # A purge can only have followed the end of the job, and that was never asked for.
    story = held().operate("purge", "a", done=None).within(5, None)
    story.stock(rest=False).within(100, 101)

    assert story.broken() == {"nothing is lost"}
