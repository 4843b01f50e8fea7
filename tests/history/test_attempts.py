"""What counts as an attempt: histories with too many, too few, or too early ones."""

from typing import Any

from mulligan.core.job import Lease
from tests.history import events as told
from tests.history.events import Kept
from tests.history.story import RETRY, Story, lease


def held(**fields: Any) -> Story:
    return Story().enqueue("a", **fields).claim(lease("a", 1))


def test_a_failed_attempt_raises_the_count_by_one():
    assert held().again("a", 1).claim(lease("a", 2, lane=RETRY)).broken() == {
        "attempts are counted"
    }
    assert held().again("a", 1).claim(lease("a", 2, lane=RETRY, retry_count=1)).broken() == set()


def test_a_drained_attempt_does_not():
    story = held().commit("a", 1, "returned")
    assert story.claim(lease("a", 2, retry_count=1)).broken() == {"attempts are counted"}


def test_a_snooze_is_counted_by_itself():
    story = held().commit("a", 1, "later", delay=0.0)
    assert story.claim(lease("a", 2, snoozes=1)).broken() == set()


def test_of_an_outcome_that_was_not_answered_the_next_claim_tells():
    happened = held().again("a", 1, "lost").claim(lease("a", 2, lane=RETRY, retry_count=1))
    lost = held().again("a", 1, "lost").reclaim(lease("a", 2, worker="w"))
    assert happened.broken() == set()
    assert lost.broken() == set()


def test_what_was_returned_from_a_claim_that_nobody_heard_of_had_ended_before():
    story = held().again("a", 1, "lost").claim_lost("v").commit("a", 2, "returned")
    assert story.claim(lease("a", 3, lane=RETRY, retry_count=1)).broken() == set()


def test_a_replay_begins_to_count_anew():
    story = held(max_retries=0).commit("a", 1, "dead").operate("replay", "a")
    assert story.claim(lease("a", 2, replay=1)).broken() == set()


def test_no_attempt_is_made_beyond_the_last():
    story = held(max_retries=0).again("a", 1)
    assert story.claim(lease("a", 2, lane=RETRY, retry_count=1)).broken() == {"attempts are capped"}


def test_a_failure_is_the_last_one_only_when_no_retry_is_left():
    def story(**fields: Any) -> Story:
        failed = held(**fields).attempt("a", 1, "started").attempt("a", 1, "failed")
        return failed.commit("a", 1, "dead", number=1, type="E", message="no")

    assert story(max_retries=1).broken() == {"attempts are capped"}
    assert story(max_retries=None).broken() == {"attempts are capped"}
    assert story(max_retries=0).broken() == set()


def test_a_task_that_gives_up_is_not_tried_again():
    def story() -> Story:
        return held().attempt("a", 1, "started").attempt("a", 1, "gave up")

    assert story().commit("a", 1, "dead", type="Fail").broken() == set()
    assert story().again("a", 1).broken() == {"attempts are capped"}


def test_what_cannot_be_followed_by_the_next_stage_is_dead_at_once():
    story = held().attempt("a", 1, "started").attempt("a", 1, "succeeded")
    assert story.commit("a", 1, "dead", type="Flow").broken() == set()


def test_where_tasks_do_not_tell_one_may_have_given_up():
    assert held().commit("a", 1, "dead", type="Fail").broken() == set()


def test_a_lost_attempt_never_gives_up():
    story = held().reclaim(lease("a", 2, worker="w"))
    assert story.commit("a", 2, "dead", type="Lost").broken() == {"attempts are capped"}


def test_a_lost_attempt_is_a_failed_one():
    story = held().reclaim(lease("a", 2, worker="w"))
    assert story.commit("a", 2, "returned").broken() == {"lost is counted"}


def test_a_lost_attempt_may_be_the_last():
    story = held(max_retries=0).reclaim(lease("a", 2, worker="w"))
    assert story.commit("a", 2, "dead", type="Lost").broken() == set()


def test_a_lost_attempt_is_a_failed_one_however_late_its_reaper_hears_of_it():
    story = held().reclaim(lease("a", 2, worker="w")).wait(15)
    assert story.commit("a", 2, "returned").broken() == {"lost is counted"}


def test_an_attempt_that_never_began_does_not_fail():
    story = held().attempt("other", 1, "started")
    assert story.again("a", 1).broken() == {"unstarted is free"}


def test_an_attempt_that_began_is_not_returned():
    story = held().attempt("a", 1, "started")
    assert story.commit("a", 1, "returned").broken() == {"unstarted is free"}


def test_an_attempt_that_began_may_fail():
    assert held().attempt("a", 1, "started").again("a", 1).broken() == set()


def test_an_attempt_does_not_start_before_its_time():
    story = Story().enqueue("a").claim(lease("a", 1, due=10.0, started_at=9.0))
    assert story.broken() == {"retries are never early"}


def retried(**times: float) -> set[str]:
    """A retry after 30 s, of an attempt that started at 10 and failed a second later."""
    story = Story().enqueue("a").wait(8).claim(lease("a", 1, started_at=10.0))
    story.again("a", 1, delay=30.0).wait(50)
    return story.claim(lease("a", 2, lane=RETRY, retry_count=1, **times)).broken()


def test_a_retry_is_not_due_before_its_delay_has_passed():
    assert retried(due=10.03, started_at=62.0) == {"delays are kept"}
    assert retried(due=41.0, started_at=62.0) == set()


def test_nor_is_it_due_much_later():
    assert retried(due=44.0, started_at=62.0) == {"delays are kept"}


def test_by_how_much_the_clock_of_the_store_is_ahead_its_claim_tells():
    assert retried(due=1041.0, started_at=1062.0) == set()
    assert retried(due=1044.0, started_at=1062.0) == {"delays are kept"}


def test_a_lost_attempt_is_due_again_at_once():
    def story(due: float) -> Story:
        lost = held().wait(20).reclaim(lease("a", 2, worker="w")).again("a", 2).wait(50)
        retry = lease("a", 3, lane=RETRY, retry_count=1, due=due, started_at=lost.now + 1)
        return lost.claim(retry)

    assert story(due=24.0).broken() == set()
    assert story(due=60.0).broken() == {"delays are kept"}


def test_a_lease_that_nobody_heard_of_may_have_put_it_off_again():
    story = held().again("a", 1).claim_lost("v").commit("a", 2, "later", "lost", delay=600.0)
    late = lease("a", 3, lane=RETRY, retry_count=1, snoozes=1, due=605.0, started_at=700.0)
    assert story.wait(695).claim(late).broken() == set()


def test_a_refused_result_is_never_done():
    story = held().attempt("a", 1, "started").attempt("a", 1, "refused")
    assert story.commit("a", 1, "done").broken() == {"refused stays out"}


def test_a_refused_result_is_a_failed_attempt():
    story = held().attempt("a", 1, "started").attempt("a", 1, "refused")
    assert story.again("a", 1).broken() == set()


def test_an_attempt_that_is_to_stop_does_not_run_to_its_end():
    story = held().attempt("a", 1, "started").operate("cancel", "a")
    story.beat("w", Lease("a", 1), lost=[Lease("a", 1)])
    assert story.attempt("a", 1, "succeeded").broken() == {"lost stops"}


def test_who_is_cut_off_may_not_hear_that_it_is_to_stop():
    def story(fault: str) -> Story:
        told_to = held().attempt("a", 1, "started").operate("cancel", "a")
        told_to.beat("w", Lease("a", 1), lost=[Lease("a", 1)])
        told_to.tell(told.Fault(what=fault, about="US for 60 s")).wait(60)
        return told_to.attempt("a", 1, "succeeded")

    assert story("cut").broken(told_within=30.0) == set()
    assert story("configure").broken(told_within=30.0) == {"lost stops"}


def test_an_attempt_may_end_before_its_worker_is_told():
    story = held().attempt("a", 1, "started").operate("cancel", "a")
    story.attempt("a", 1, "succeeded").beat("w", Lease("a", 1), lost=[Lease("a", 1)])
    assert story.broken() == set()


def test_a_process_that_dies_fails_the_attempt_that_crashed_it_and_no_other():
    def story(*said: str) -> Story:
        ran = held()
        for each in said:
            ran.attempt("a", 1, each)
        return ran.again("a", 1, type="ProcessDied")

    assert story("started", "crashed").broken() == set()
    assert story("started").broken() == {"one crash one job"}


def test_what_crashed_is_not_done():
    crashed = held().attempt("a", 1, "started").attempt("a", 1, "crashed")
    assert crashed.commit("a", 1, "done").broken() == {"refused stays out"}


def test_a_stored_failure_is_one_that_was_written():
    story = held(max_retries=0).reclaim(lease("a", 2, worker="w"))
    story.again("a", 1, "stale", message="zombie")
    story.commit("a", 2, "dead", number=1, type="Lost", message="gone")
    zombie = Kept("a", "failed", token=2, failures=[(1, "E", "zombie"), (1, "Lost", "gone")])
    assert story.stock(zombie).broken() == {"failures are true"}


def test_the_stored_failures_may_be_the_newest_alone():
    story = held().again("a", 1).claim(lease("a", 2, lane=RETRY, retry_count=1))
    story.commit("a", 2, "dead", number=2, type="E", message="no")
    newest = Kept("a", "failed", retry_count=1, token=2, failures=[(2, "E", "no")])
    assert story.stock(newest).broken() == set()


def test_when_the_clock_was_set_times_before_and_after_are_not_compared():
    story = Story().enqueue("a").claim(lease("a", 1, due=9.0, started_at=1000.0))
    story.tell(told.Fault(what="clock", seconds=-600)).again("a", 1, delay=30.0)
    due = lease("a", 2, lane=RETRY, retry_count=1, due=440.0, started_at=440.0)
    assert story.claim(due).broken() == set()


def test_a_stored_result_is_the_one_that_was_written():
    def story(result: int | None) -> Story:
        done = held().commit("a", 1, "done", result=7)
        return done.stock(Kept("a", "done", token=1, result=result))

    assert story(7).broken() == set()
    assert story(8).broken() == {"results are true"}
    assert story(None).broken() == {"results are true"}


def test_of_two_results_that_were_not_answered_the_token_tells_which_was_written():
    def story(result: int) -> Story:
        sent = held().commit("a", 1, "done", "lost", result=7).claim_lost("v")
        sent.commit("a", 2, "done", "lost", result=8)
        return sent.stock(Kept("a", "done", token=2, result=result))

    assert story(8).broken() == set()
    assert story(7).broken() == {"results are true"}
