"""What the checker says of debounced and throttled jobs."""

from tests.history.events import Taken
from tests.history.story import Story, lease

KEY = ("default", "k")


def put_off(story: Story, job: str, body: int, **fields) -> Story:
    """A call that is put off by 10 s, and by 25 at most."""
    return story.enqueue(job, key=KEY, delay=10.0, debounce_max=25.0, body=body, **fields)


def started(story: Story, due: float, body: int) -> Taken:
    """The job as the next claim gets it, with this due time and call."""
    return lease("a", 1, due=due, started_at=story.now + 1, body=body)


def called_twice() -> Story:
    """At 1 s and at 2 s."""
    return put_off(put_off(Story(), "a", 1), "b", 2, first="a")


def test_a_debounced_job_starts_with_the_last_call():
    story = called_twice().wait(12)
    assert story.claim(started(story, 12.0, 2)).broken() == set()


def test_it_does_not_start_with_an_earlier_call():
    story = called_twice().wait(12)
    story.claim(started(story, 12.0, 1))
    assert story.broken() == {"debounce keeps the last"}


def test_a_call_that_was_never_answered_may_be_the_last():
    story = put_off(called_twice(), "c", 3, lost=True).wait(15)
    assert story.claim(started(story, 13.0, 3)).broken() == set()
    story = put_off(called_twice(), "c", 3, lost=True).wait(15)
    assert story.claim(started(story, 12.0, 2)).broken() == set()


def test_each_call_puts_it_off():
    story = called_twice().wait(12)
    story.claim(started(story, 11.0, 2))
    assert story.broken() == {"debounce keeps the last"}


def test_it_is_put_off_for_so_long_at_most():
    story = called_twice().wait(8)
    story = put_off(put_off(story, "c", 3, first="a").wait(8), "d", 4, first="a").wait(20)
    assert story.claim(started(story, 26.0, 4)).broken() == set()
    story = called_twice().wait(8)
    story = put_off(put_off(story, "c", 3, first="a").wait(8), "d", 4, first="a").wait(20)
    assert story.claim(started(story, 30.0, 4)).broken() == {"debounce keeps the last"}


def test_its_key_is_free_when_it_has_started_and_not_before():
    story = called_twice().wait(12)
    story.claim(started(story, 12.0, 2))
    assert put_off(story, "c", 3).broken() == set()
    assert put_off(called_twice(), "c", 3).broken() == {"keys exclude"}


def throttled() -> Story:
    """A job that is done after 3 s, and holds its key for a minute."""
    story = Story().enqueue("a", key=KEY, unique_for=60.0)
    return story.claim(lease("a", 1)).commit("a", 1, "done")


def test_a_throttled_job_keeps_its_key_when_it_has_ended():
    assert throttled().enqueue("b", key=KEY, first="a").broken() == set()
    assert throttled().enqueue("b", key=KEY).broken() == {"keys exclude"}


def test_and_not_when_its_time_is_over():
    assert throttled().wait(60).enqueue("b", key=KEY).broken() == set()
    story = throttled().wait(60).enqueue("b", key=KEY, first="a")
    assert story.broken() == {"keys exclude"}


def test_a_throttled_job_that_is_cancelled_keeps_nothing():
    story = Story().enqueue("a", key=KEY, unique_for=60.0).operate("cancel", "a")
    assert story.enqueue("b", key=KEY).broken() == set()
