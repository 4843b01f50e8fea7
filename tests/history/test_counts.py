"""What is counted: histories whose sums do not add up."""

from mulligan.core.counts import Count
from tests.history.events import Kept
from tests.history.story import Story, lease


def done() -> Story:
    return Story().enqueue("a").claim(lease("a", 1)).commit("a", 1, "done")


def test_the_stores_counts_are_those_of_its_jobs():
    assert done().stock(Kept("a", "done")).broken() == set()
    assert done().stock(Kept("a", "done"), running=1).broken() == {"counts add up"}
    assert done().stock(Kept("a", "done"), endings={"done": 2}).broken() == {"counts add up"}


def test_a_gathering_job_is_counted_apart():
    story = Story().enqueue("a", awaits=1)
    kept = Kept("a", "pending")
    assert story.stock(kept, rest=False, waiting=0, gathering=1).broken() == set()


def test_what_was_told_is_summed_up():
    counts = [Count("default", "EU", "failed", 3.0)]
    story = done().report("failed", 1).report("failed", 2)
    assert story.stock(Kept("a", "done"), counts=counts).broken() == set()


def test_nothing_is_missing_from_the_sum():
    counts = [Count("default", "EU", "failed", 1.0)]
    story = done().report("failed", 1).report("failed", 2)
    assert story.stock(Kept("a", "done"), counts=counts).broken() == {"reports add up"}


def test_what_was_not_answered_may_be_in_the_sum_or_not():
    for value in (1.0, 3.0):
        counts = [Count("default", "EU", "failed", value)]
        story = done().report("failed", 1).report("failed", 2, lost=True)
        assert story.stock(Kept("a", "done"), counts=counts).broken() == set()


def test_one_success_is_told_once():
    story = done().report("succeeded", 2)
    assert "nothing is counted twice" in story.broken()
    assert done().report("succeeded", 1).broken() == set()
