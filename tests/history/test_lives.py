"""Where jobs come from and how they end: histories in which one is lost, doubled or revived."""

from tests.history import events as told
from tests.history.events import Kept, New
from tests.history.story import RETRY, Story, lease


def done() -> Story:
    return Story().enqueue("a").claim(lease("a", 1)).commit("a", 1, "done")


def dead() -> Story:
    return Story().enqueue("a", max_retries=0).claim(lease("a", 1)).commit("a", 1, "dead")


def gathering() -> Story:
    story = Story().enqueue("all", awaits=2)
    for place, name in enumerate(("a", "b")):
        story.enqueue(name, gather="all", gather_index=place)
    return story.claim(lease("a", 1), lease("b", 1), demand=2).commit("a", 1, "done")


def test_a_job_that_nobody_enqueued_is_not_claimed():
    assert Story().claim(lease("a", 1)).broken() == {"nothing is invented"}


def test_a_job_that_nobody_enqueued_is_not_stored():
    assert done().stock(Kept("a", "done"), Kept("b", "done")).broken() == {"nothing is invented"}


def test_a_purged_job_is_not_stored():
    story = done().operate("purge", "a")
    assert story.stock(Kept("a", "done")).broken() == {"nothing is invented"}


def test_what_follows_once_more_runs_once_more_only_if_the_first_was_pruned():
    def again(*, pruned: bool) -> Story:
        sent = New("a.dead.0", max_retries=5, region="default")
        story = Story().enqueue("a", max_retries=0).claim(lease("a", 1))
        story.commit("a", 1, "dead", next=[sent]).claim(lease("a.dead.0", 1))
        story.commit("a.dead.0", 1, "done").wait(100)
        story = story.prune(50) if pruned else story
        story.operate("purge", "a").enqueue("a", max_retries=0).claim(lease("a", 2))
        story.commit("a", 2, "dead", next=[sent])
        return story.claim(lease("a.dead.0", 2))

    assert again(pruned=True).broken() == set()
    assert "ended is ended" in again(pruned=False).broken()


def test_a_job_whose_enqueue_was_not_answered_may_be_there():
    assert Story().enqueue("a", lost=True).claim(lease("a", 1)).broken() == set()


def test_a_job_whose_enqueue_was_not_answered_may_not_be_there():
    assert Story().enqueue("a", lost=True).stock().broken() == set()


def test_a_job_that_follows_from_another_may_be_claimed():
    story = (
        Story()
        .enqueue("a")
        .claim(lease("a", 1))
        .commit("a", 1, "done", next=[New("a.2", region="default")])
    )
    assert story.claim(lease("a.2", 1)).broken() == set()


def test_that_the_next_stage_runs_tells_that_the_one_before_was_done():
    story = Story().enqueue("a").claim(lease("a", 1))
    story.commit("a", 1, "done", "lost", next=[New("a.2", region="default")]).claim(lease("a.2", 1))
    story.commit("a.2", 1, "done")
    assert story.stock(Kept("a", "done"), Kept("a.2", "done")).broken() == set()


def test_what_was_written_is_not_written_again_when_it_is_sent_again():
    story = Story().enqueue("a", max_retries=1).claim(lease("a", 1)).again("a", 1)
    story.claim(lease("a", 2, lane=RETRY, retry_count=1))
    said = {"next": [New("a.dead", region="default")], "number": 2, "type": "E", "message": "no"}
    story.commit("a", 2, "dead", "lost", **said).claim(lease("a.dead", 1))
    story.commit("a", 2, "dead", "lost", **said).commit("a", 2, "dead", "already", **said)
    failures = [(1, "E", "no"), (2, "E", "no")]
    kept = Kept("a", "failed", token=2, retry_count=1, failures=failures)
    assert story.stock(kept, Kept("a.dead", "processing", token=1), rest=False).broken() == set()


def test_a_job_that_was_accepted_is_stored():
    assert Story().enqueue("a").stock(rest=False).broken() == {"nothing is lost"}


def test_what_follows_from_an_end_is_stored():
    story = (
        Story()
        .enqueue("a")
        .claim(lease("a", 1))
        .commit("a", 1, "done", next=[New("a.2", region="default")])
    )
    assert story.stock(Kept("a", "done")).broken() == {"nothing is lost"}


def test_a_job_that_ended_long_ago_may_be_gone():
    assert done().wait(100).prune(50).stock().broken() == set()


def test_a_job_that_ended_just_now_may_not():
    assert done().wait(10).prune(50).stock().broken() == {"nothing is lost"}


def test_a_job_that_says_how_long_it_is_kept_may_be_gone_then_and_not_before():
    def story(keep: float) -> Story:
        ended = Story().enqueue("a", keep=keep).claim(lease("a", 1)).commit("a", 1, "done")
        return ended.wait(100).prune(50 if keep > 50 else 3600).stock()

    assert story(20.0).broken() == set()
    assert story(200.0).broken() == {"nothing is lost"}


def test_when_all_is_over_nothing_waits():
    assert Story().enqueue("a").stock(Kept("a", "pending")).broken() == {"nothing is lost"}
    assert Story().enqueue("a").stock(Kept("a", "pending"), rest=False).broken() == set()


def test_a_job_that_awaits_a_dead_letter_may_wait():
    story = Story().enqueue("all", awaits=1).enqueue("a", gather="all", max_retries=0)
    story.claim(lease("a", 1)).commit("a", 1, "dead", number=1, type="E", message="no")
    failed = Kept("a", "failed", failures=[(1, "E", "no")])
    assert story.stock(Kept("all", "pending"), failed).broken() == set()


def test_a_job_is_stored_once():
    assert "one place" in done().stock(Kept("a", "done"), Kept("a", "done")).broken()


def test_a_job_is_stored_where_its_history_led():
    assert done().stock(Kept("a", "failed")).broken() == {"one place"}


def test_what_has_ended_is_not_claimed_again():
    assert done().claim(lease("a", 2)).broken() == {"ended is ended"}


def test_what_was_replayed_may_be():
    assert dead().operate("replay", "a").claim(lease("a", 2, replay=1)).broken() == set()


def test_a_replay_that_was_not_answered_may_have_happened():
    story = dead().operate("replay", "a", done=None).claim(lease("a", 2, replay=1))
    assert story.broken() == set()


def test_only_what_has_failed_is_replayed():
    assert done().operate("replay", "a").broken() == {"ended is ended"}


def test_what_has_ended_is_not_cancelled():
    assert done().operate("cancel", "a").broken() == {"ended is ended"}
    assert done().operate("cancel", "a", done=False).broken() == set()


def test_what_waits_is_not_purged():
    assert Story().enqueue("a").operate("purge", "a").broken() == {"only the ended is purged"}
    assert done().operate("purge", "a").broken() == set()


def test_a_job_becomes_a_dead_letter_once():
    story = dead().commit("a", 1, "dead")
    assert "dead once" in story.broken()


def test_after_a_replay_it_may_become_one_again():
    story = dead().operate("replay", "a").claim(lease("a", 2, replay=1)).commit("a", 2, "dead")
    assert story.broken() == set()


def test_a_gathering_job_waits_for_all():
    assert gathering().claim(lease("all", 1)).broken() == {"gathers all"}


def test_a_gathering_job_starts_when_the_last_has_arrived():
    assert gathering().commit("b", 1, "done").claim(lease("all", 1)).broken() == set()


def test_a_gathering_job_waits_for_the_last_stage_of_a_chain():
    story = gathering().commit("b", 1, "done", hands_on=True).claim(lease("all", 1))
    assert story.broken() == {"gathers all"}


def test_a_gathering_job_starts_when_the_last_may_have_arrived():
    story = gathering().commit("b", 1, "done", "lost").claim(lease("all", 1))
    assert story.broken() == set()


def test_what_a_worker_sent_may_have_been_written_before_the_job_was_cancelled():
    failures = [(1, "E", "no")]
    for verdicts in (["lost"], ["lost", "already"]):
        story = Story().enqueue("a").claim(lease("a", 1)).again("a", 1, verdicts[0])
        story.operate("cancel", "a")
        for verdict in verdicts[1:]:
            story.again("a", 1, verdict)
        kept = Kept("a", "cancelled", token=1, retry_count=1, failures=failures)
        assert story.stock(kept).broken() == set()


def test_what_a_worker_sends_after_the_job_was_cancelled_is_not_written():
    story = Story().enqueue("a").claim(lease("a", 1)).operate("cancel", "a").again("a", 1, "lost")
    kept = Kept("a", "cancelled", token=1, retry_count=1, failures=[(1, "E", "no")])
    assert story.stock(kept).broken() == {"one place", "failures are true"}


def test_a_gathering_job_of_which_one_was_cancelled_never_starts():
    story = gathering().operate("cancel", "b")
    assert "ended is ended" in story.claim(lease("all", 1)).broken()


def test_a_key_is_given_to_one_job_at_a_time():
    story = Story().enqueue("a", key=("default", "k")).enqueue("b", key=("default", "k"))
    assert story.broken() == {"keys exclude"}


def test_while_its_holder_lives_a_key_leads_to_it():
    story = Story().enqueue("a", key=("default", "k"))
    assert story.enqueue("b", key=("default", "k"), first="a").broken() == set()


def test_a_key_is_free_when_its_holder_has_ended():
    story = Story().enqueue("a", key=("default", "k")).claim(lease("a", 1)).commit("a", 1, "done")
    assert story.enqueue("b", key=("default", "k")).broken() == set()


def test_a_job_that_has_ended_does_not_keep_its_key():
    story = Story().enqueue("a", key=("default", "k")).claim(lease("a", 1)).commit("a", 1, "done")
    assert story.enqueue("b", key=("default", "k"), first="a").broken() == {"keys exclude"}


def test_a_job_that_has_expired_is_not_started():
    story = Story().enqueue("a", expires=10.0).wait(20)
    assert story.claim(lease("a", 1)).broken() == {"expired is not started"}


def test_a_job_that_started_in_time_may_be_retried_later():
    story = Story().enqueue("a", expires=10.0).claim(lease("a", 1)).again("a", 1).wait(20)
    assert story.claim(lease("a", 2, lane=RETRY, retry_count=1)).broken() == set()


def test_a_job_that_may_have_expired_may_be_cancelled_or_gone():
    story = Story().enqueue("a", expires=10.0).enqueue("b", expires=10.0).wait(20).prune(5)
    assert story.stock(Kept("a", "cancelled")).broken() == set()


def test_when_the_clock_was_set_a_job_may_expire_sooner():
    story = Story().enqueue("a", expires=100.0).tell(told.Fault(what="clock", seconds=600))
    assert story.stock(Kept("a", "cancelled")).broken() == set()
