"""What becomes of a job whose stored record cannot be understood."""

from mulligan.core.damage import set_aside
from mulligan.core.job import Lease


def test_it_is_a_dead_letter_that_says_what_is_wrong_and_nothing_follows_from_it():
    outcome = set_aside(Lease("j", 7), "EU", "w", 5.0, ValueError("not enough values"))
    assert outcome.lease == Lease("j", 7)
    assert outcome.next == ()
    assert outcome.failure.type == "Damaged"
    assert (outcome.failure.number, outcome.failure.replay) == (1, 0)
    assert "cannot be read (not enough values); find out what else writes" in (
        outcome.failure.message
    )
