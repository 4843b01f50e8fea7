"""Schedules: histories in which a tick runs twice, outlives an edit or is lost."""

from mulligan.core.job import first_token
from tests.history import events as told
from tests.history.events import Fault, Kept
from tests.history.story import Story, lease

LATER = first_token(7) + 1


def change(story: Story, before, after, placed=(), withdrawn=(), *, done=True) -> Story:
    """A schedule is changed; of its ticks nobody is told."""
    for tick in withdrawn:
        story.operate("withdraw", tick, done=None)
    for tick in placed:
        story.enqueue(tick, lost=True)
    event = told.Reschedule(
        name="s",
        before=before,
        after=after,
        placed=list(placed),
        withdrawn=list(withdrawn),
        done=done,
    )
    return story.tell(event, lost=done is None)


def begun() -> Story:
    return change(Story(), None, "1", ["t1"])


def ran() -> Story:
    return begun().claim(lease("t1", 1)).commit("t1", 1, "done")


def test_a_tick_that_is_placed_and_runs_is_as_it_should_be():
    assert ran().stock(Kept("t1", "done", token=1)).broken() == set()


def test_a_tick_that_ran_does_not_run_again_when_its_job_is_gone():
    story = change(ran().operate("purge", "t1"), "1", "2", ["t1"])
    story.claim(lease("t1", LATER)).commit("t1", LATER, "done")
    assert story.broken() == {"ticks are one job"}


def test_it_may_if_the_clock_was_set_back_meanwhile():
    story = ran().operate("purge", "t1").tell(Fault(what="clock", seconds=-600.0))
    change(story, "1", "2", ["t1"]).claim(lease("t1", LATER)).commit("t1", LATER, "done")
    assert story.broken() == set()


def test_a_withdrawn_tick_does_not_start():
    story = change(begun(), "1", "2", ["t2"], ["t1"])
    assert story.claim(lease("t1", 1)).broken() == {"withdrawn ticks do not start"}


def test_a_withdrawn_tick_starts_if_it_is_placed_again():
    story = change(change(begun(), "1", "2", [], ["t1"]), "2", "3", ["t1"])
    assert story.claim(lease("t1", LATER)).broken() == set()


def test_an_edit_that_came_to_nothing_withdraws_nothing():
    story = change(begun(), "0", "2", ["t2"], ["t1"], done=False)
    assert story.claim(lease("t1", 1)).broken() == set()


def test_a_tick_that_runs_is_not_withdrawn():
    story = change(begun().claim(lease("t1", 1)), "1", "2", [], ["t1"])
    assert story.commit("t1", 1, "done").broken() == set()


def test_a_placed_tick_is_not_lost():
    assert begun().stock().broken() == {"placed ticks are kept"}
    assert change(begun(), "1", "2", [], ["t1"]).stock().broken() == set()
    assert change(Story(), None, "1", ["t1"], done=None).stock().broken() == set()


def test_a_change_of_what_was_read_before_another_change_is_refused():
    story = change(change(ran(), "1", "2"), "1", "3")
    assert story.broken() == {"schedules change by turns"}


def test_a_change_that_is_sent_again_is_no_other_change():
    assert change(change(ran(), "1", "2"), "1", "2").broken() == set()


def test_after_a_change_without_an_answer_either_record_may_be_there():
    for before in ("1", "2"):
        assert change(change(ran(), "1", "2", done=None), before, "3").broken() == set()
