"""Who holds a job: histories in which a lease is given, lost or ignored."""

from mulligan.core.job import Lease
from mulligan.core.worker import Worker
from tests.history import events as told
from tests.history.story import Story, lease


def held() -> Story:
    return Story().enqueue("a").claim(lease("a", 1))


def test_a_job_that_is_held_is_claimed_by_nobody_else():
    assert held().claim(lease("a", 2), worker="v").broken() == {"leases exclude"}


def test_a_job_that_was_returned_may_be_claimed_again():
    assert held().commit("a", 1, "returned").claim(lease("a", 2), worker="v").broken() == set()


def test_one_claim_gives_a_job_once():
    story = Story().enqueue("a").claim(lease("a", 1), lease("a", 2), demand=2)
    assert "leases exclude" in story.broken()


def test_a_claim_whose_commit_was_not_answered_may_have_been_free():
    story = held().commit("a", 1, "returned", "lost").claim(lease("a", 2), worker="v")
    assert story.broken() == set()


def test_a_token_is_never_given_twice():
    story = held().commit("a", 1, "returned")
    assert story.claim(lease("a", 1)).broken() == {"tokens grow"}


def test_a_reclaimed_lease_has_a_higher_token():
    assert held().reclaim(lease("a", 1, worker="w")).broken() == {"tokens grow"}
    assert held().reclaim(lease("a", 2, worker="w")).broken() == set()


def test_a_second_life_has_higher_tokens_than_the_first():
    story = held().commit("a", 1, "done").operate("purge", "a").enqueue("a")
    assert story.claim(lease("a", 1)).broken() == {"tokens grow"}


def test_a_second_life_that_goes_on_counting_is_sound():
    story = held().commit("a", 1, "done").operate("purge", "a").enqueue("a")
    assert story.claim(lease("a", 4097)).broken() == set()


def test_an_outcome_of_a_lost_lease_is_not_written():
    story = held().reclaim(lease("a", 2, worker="w"))
    assert story.commit("a", 1, "done").broken() == {"stale is refused"}


def test_an_outcome_of_a_lost_lease_is_refused():
    story = held().reclaim(lease("a", 2, worker="w")).commit("a", 1, "done", "stale")
    assert story.again("a", 2).broken() == set()


def test_nothing_is_written_for_a_job_that_was_cancelled():
    story = held().operate("cancel", "a")
    assert story.commit("a", 1, "done").broken() == {"stale is refused"}


def test_an_outcome_whose_lease_is_held_is_not_refused():
    assert held().commit("a", 1, "done", "stale").broken() == {"held is honoured"}


def test_a_stale_one_in_a_batch_does_not_hold_up_the_others():
    story = Story().enqueue("a").enqueue("b").claim(lease("a", 1), lease("b", 1), demand=2)
    story.reclaim(lease("a", 2, worker="w"))
    endings = [told.Ending("a", 1, "done"), told.Ending("b", 1, "done")]
    story.tell(told.Commit(endings=endings, verdicts=["stale", "stale"]))
    assert story.broken() == {"held is honoured"}


def test_a_lease_that_may_have_been_reclaimed_may_be_refused():
    story = held().tell(told.Reclaim(worker=Worker("reaper")), lost=True)
    assert story.commit("a", 1, "done", "stale").broken() == set()


def test_a_reclaim_that_was_never_answered_may_come_later_than_the_claim():
    story = Story().enqueue("a").tell(told.Reclaim(worker=Worker("reaper")), lost=True)
    story.claim(lease("a", 1)).wait(60)
    assert story.commit("a", 1, "done", "stale").broken() == set()


def test_but_it_takes_nothing_from_who_is_alive():
    story = Story().enqueue("a").tell(told.Reclaim(worker=Worker("reaper")), lost=True)
    story.beat("w").claim(lease("a", 1)).wait(5).beat("w", Lease("a", 1)).wait(5)
    assert story.commit("a", 1, "done", "stale").broken() == {"held is honoured"}


def test_who_was_silent_for_a_while_may_have_been_reclaimed_from():
    story = Story().enqueue("a").tell(told.Reclaim(worker=Worker("reaper")), lost=True)
    story.beat("w").claim(lease("a", 1)).wait(60).beat("w", Lease("a", 1)).wait(5)
    assert story.commit("a", 1, "done", "stale").broken() == set()


def test_a_lease_that_is_written_under_after_it_was_refused_was_held():
    story = held().tell(told.Reclaim(worker=Worker("reaper")), lost=True)
    story.commit("a", 1, "done", "stale").commit("a", 1, "returned")
    assert story.broken() == {"held is honoured"}


def test_a_lease_that_is_reclaimed_after_it_was_refused_was_held():
    story = held().tell(told.Reclaim(worker=Worker("reaper")), lost=True)
    story.commit("a", 1, "done", "stale").reclaim(lease("a", 2, worker="w"))
    assert story.broken() == {"held is honoured"}


def test_one_that_was_reclaimed_unheard_before_it_was_refused_was_not():
    story = held().tell(told.Reclaim(worker=Worker("reaper")), lost=True)
    story.commit("a", 1, "done", "stale").reclaim(lease("a", 3, worker="reaper"))
    assert story.broken() == set()


def test_an_outcome_is_written_once():
    story = held().commit("a", 1, "done").commit("a", 1, "done")
    assert "commits are idempotent" in story.broken()


def test_an_outcome_that_is_sent_again_is_answered_so():
    story = held().commit("a", 1, "done", "lost").commit("a", 1, "done", "already")
    assert story.broken() == set()


def test_an_outcome_that_was_not_received_the_first_time_is_written_the_second():
    assert held().commit("a", 1, "done", "lost").commit("a", 1, "done").broken() == set()


def test_nothing_is_answered_as_written_that_never_was():
    assert held().commit("a", 1, "done", "already").broken() == {"commits are idempotent"}


def test_a_store_may_take_back_what_no_claim_told_of():
    story = Story().enqueue("a").claim_lost().claim(lease("a", 2))
    assert story.commit("a", 1, "returned", "already").broken() == set()


def test_what_a_claim_told_of_is_for_its_worker_to_return():
    story = held().commit("a", 1, "returned", "already")
    assert story.broken() == {"commits are idempotent"}


def test_nothing_but_a_return_is_written_under_a_lease_that_no_claim_told_of():
    story = Story().enqueue("a").claim_lost().claim(lease("a", 2))
    assert story.commit("a", 1, "done", "already").broken() == {"commits are idempotent"}


def test_a_worker_that_beats_keeps_its_leases():
    story = held().beat("w", Lease("a", 1)).wait(10)
    assert story.reclaim(lease("a", 2, worker="w")).broken() == {"live leases are kept"}


def test_a_worker_that_is_silent_for_a_lease_loses_them():
    story = held().beat("w", Lease("a", 1)).wait(15)
    assert story.reclaim(lease("a", 2, worker="w")).broken() == set()


def test_a_beat_may_ask_for_a_longer_lease():
    story = held().beat("w", Lease("a", 1), lasting=60).wait(50)
    assert story.reclaim(lease("a", 2, worker="w")).broken() == {"live leases are kept"}


def test_a_beat_may_ask_for_a_shorter_lease_than_the_one_before():
    story = held().beat("w", Lease("a", 1), lasting=60).beat("w", Lease("a", 1)).wait(15)
    assert story.reclaim(lease("a", 2, worker="w")).broken() == set()


def test_who_asked_for_a_shorter_lease_may_be_reclaimed_from_unheard():
    story = Story().enqueue("a").tell(told.Reclaim(worker=Worker("reaper")), lost=True)
    story.beat("w", lasting=60).claim(lease("a", 1)).beat("w", Lease("a", 1)).wait(20)
    assert story.commit("a", 1, "done", "stale").broken() == set()


def test_a_worker_that_left_loses_them_at_once():
    story = held().beat("w", Lease("a", 1)).tell(told.Leave(worker="w"))
    assert story.reclaim(lease("a", 2, worker="w")).broken() == set()


def test_when_the_clock_is_set_any_lease_may_run_out():
    story = held().beat("w", Lease("a", 1)).tell(told.Fault(what="clock", seconds=3600))
    assert story.reclaim(lease("a", 2, worker="w")).broken() == set()


def test_a_worker_is_told_which_leases_it_lost():
    story = held().reclaim(lease("a", 2, worker="w"))
    assert story.beat("w", Lease("a", 1)).broken() == {"loss is told"}


def test_a_worker_that_is_told_knows():
    story = held().reclaim(lease("a", 2, worker="w"))
    assert story.beat("w", Lease("a", 1), lost=[Lease("a", 1)]).broken() == set()
