"""Fairness keys: histories in which a key is passed too often, and such as only look like it."""

from tests.history import events as told
from tests.history.story import Story, lease


def crowd(weights=(), **jobs: str) -> Story:
    """Each key has so many jobs, named by its letters, and all are due."""
    story = Story().configure(weights=tuple(weights))
    for key, names in jobs.items():
        for name in names:
            story.enqueue(name, fairness_key=key)
    return story


def started(story: Story, names: str) -> set[str]:
    """The jobs start one by one, in this order."""
    for name in names:
        story.claim(lease(name, 1))
    return story.broken()


def test_keys_that_take_turns_are_as_they_should_be():
    assert started(crowd(x="abc", y="def"), "adbecf") == set()


def test_a_key_may_have_one_start_more_than_its_share():
    assert started(crowd(x="abc", y="def"), "abdcef") == set()


def test_a_key_is_not_passed_again_and_again():
    assert started(crowd(x="abc", y="def"), "abcdef") == {"keys take turns"}


def test_a_key_that_comes_late_is_not_owed_the_turns_before():
    story = crowd(x="abc")
    started(story, "abc")
    for name in "de":
        story.enqueue(name, fairness_key="y")
    for name in "fgh":
        story.enqueue(name, fairness_key="x")
    assert started(story, "dfegh") == set()


def test_weights_decide_how_often_a_key_may_be_passed():
    heavy = [("x", 4.0)]
    assert started(crowd(heavy, x="abcde", y="fghi"), "abcdfe") == set()
    assert started(crowd(heavy, x="abcde", y="fghi"), "afbgcd") == {"keys take turns"}
    assert started(crowd(x="abcde", y="fghi"), "afbgcd") == set()


def test_weights_that_were_changed_count_as_what_is_worst():
    story = crowd([("x", 4.0)], x="abcde", y="fghi")
    story.claim(lease("a", 1)).configure(weights=())
    assert started(story, "fbgcd") == set()


def test_what_was_not_due_was_not_passed():
    story = crowd(x="abc").enqueue("d", fairness_key="y", delay=60.0)
    started(story, "abc")
    assert started(story.wait(60), "d") == set()


def test_a_job_that_names_a_limit_may_have_waited_for_it():
    story = crowd(x="abc").enqueue("d", fairness_key="y", limits={"k": 1})
    assert started(story, "abcd") == set()


def test_a_claim_without_an_answer_may_have_taken_of_the_key():
    story = crowd(x="abc", y="de")
    story.claim_lost().claim_lost()
    assert started(story, "abcd") == set()


def test_claims_that_overlap_tell_no_order():
    story = crowd(x="abc", y="de")
    for name in "abcd":
        story.claim(lease(name, 1), worker=name)
    for event in story.events:
        if isinstance(event, told.Claim):
            event.ended = story.now
    assert "keys take turns" not in story.broken()
