"""What the stores are allowed in a run, and what they are not."""

from mulligan.core.counts import Count
from tests.chaos.verdict import UNWRITTEN, forgetful
from tests.history import Fault
from tests.history.story import Story


def counted(seconds: float) -> Story:
    """A count of 1 is answered, the server is killed so much later, a count of 2 is answered."""
    story = Story().report("failed", 1).wait(seconds - 1)
    return story.tell(Fault(what="server killed")).report("failed", 2)


def broken(story: Story, *, found: float) -> set[str]:
    """What is wrong with this sum, as a store that forgets its last moments is judged."""
    story.events = forgetful(story.events)
    return story.stock(counts=[Count("default", "EU", "failed", found)]).broken()


def test_a_count_of_the_last_moment_before_a_kill_may_be_missing():
    assert broken(counted(UNWRITTEN), found=2) == set()


def test_a_count_of_the_last_moment_before_a_kill_may_be_there():
    assert broken(counted(UNWRITTEN), found=3) == set()


def test_a_count_of_long_before_a_kill_may_not_be_missing():
    assert broken(counted(UNWRITTEN + 1), found=2) == {"reports add up"}


def test_a_count_after_a_kill_may_not_be_missing():
    assert broken(counted(UNWRITTEN), found=1) == {"reports add up"}


def test_no_other_fault_excuses_a_missing_count():
    story = Story().report("failed", 1).tell(Fault(what="worker killed"))
    assert broken(story, found=0) == {"reports add up"}


def test_nothing_but_counts_may_be_forgotten():
    story = Story().enqueue("a").tell(Fault(what="server killed"))
    story.events = forgetful(story.events)
    assert story.stock().broken() == {"nothing is lost"}
