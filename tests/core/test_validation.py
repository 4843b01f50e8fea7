"""What becomes of a job whose stored record cannot be understood."""

from mulligan.core.job import Lease
from mulligan.core.validation import dead_record


def test_it_is_a_dead_letter_that_says_what_is_wrong_and_nothing_follows_from_it():
    outcome = dead_record(Lease("j", 7), "EU", "w", 5.0, ValueError("not enough values"))
    assert outcome.lease == Lease("j", 7)
    assert outcome.next == ()
    assert outcome.failure.type == "InvalidRecord"
    assert (outcome.failure.number, outcome.failure.replay) == (1, 0)
    assert "cannot be read (not enough values); find out what else writes" in (
        outcome.failure.message
    )
