"""How long the jobs of a killed worker are left to it, by hand-made histories."""

from tests.chaos.durations import longest_left
from tests.history import Fault
from tests.history.story import Story, lease

DEAD, OTHER = "vm-17-aaaaaa", "vm-18-bbbbbb"
LEASE = 10.0


def killed(*, died: str = "17") -> Story:
    """A worker beats with its job at 3 s, is killed at 4 s, and its lease is over at 13 s."""
    story = Story().enqueue("a").claim(lease("a", 1), worker=DEAD).beat(DEAD, lasting=LEASE)
    return story.tell(Fault(what="worker killed", about=died))


def others_beat(story: Story, until: float) -> Story:
    """Another worker beats every second until then."""
    while story.now < until - 1:
        story.beat(OTHER, lasting=LEASE)
    return story


def reclaimed(story: Story) -> float:
    """The job is reclaimed now."""
    return longest_left(story.reclaim(lease("a", 2, worker=DEAD), worker=OTHER).events)


def test_it_counts_from_when_the_lease_was_over():
    assert reclaimed(others_beat(killed(), until=20)) == 19 - 13


def test_it_counts_only_while_another_worker_is_at_work():
    story = others_beat(killed().wait(20), until=30)
    assert reclaimed(story) == 29 - 25


def test_what_nobody_could_reclaim_was_not_left():
    assert reclaimed(killed().wait(60)) == 0


def test_who_was_not_killed_may_keep_its_jobs():
    assert reclaimed(others_beat(killed(died="99"), until=60)) == 0
