"""Events: which outcomes are events, and what each says."""

from mulligan.core.event import ended, enqueued, of_attempt
from mulligan.core.job import Attempt, NewJob
from mulligan.core.lane import Lane
from mulligan.core.outcome import Again, Cancelled, Dead, Done, Later, Returned
from tests.core.test_decide import claimed

CLAIM = claimed()
FAILURE = Attempt(1, 0, "US", "w1", 10.0, "ValueError", "not a number")
ERROR = ValueError("not a number")


def test_an_accepted_job_is_an_enqueue_with_its_delay():
    event = enqueued(NewJob("x", "q", "ask", b"{}", "EU", delay=5.0))
    assert (event.name, event.id, event.task, event.queue) == ("enqueue", "x", "ask", "q")
    assert (event.region, event.delay, event.attempt) == ("EU", 5.0, 0)


def test_an_attempt_has_a_number_a_worker_and_its_region():
    event = of_attempt("start", CLAIM)
    assert (event.id, event.attempt) == (CLAIM.id, CLAIM.attempt)
    assert (event.worker, event.worker_region) == (CLAIM.worker, CLAIM.worker_region)
    assert (event.runtime, event.error_type, event.exception) == (None, None, None)


def test_done_is_a_success_with_its_runtime():
    event = ended(CLAIM, Done(CLAIM.lease), 1.5)
    assert event is not None
    assert (event.name, event.runtime, event.error_type) == ("success", 1.5, None)


def test_a_retry_says_when_it_is_due_and_what_failed():
    retry = Again(CLAIM.lease, Lane("q", "*", 0), 30.0, FAILURE)
    event = ended(CLAIM, retry, 1.5, ERROR)
    assert event is not None
    assert (event.name, event.delay, event.runtime) == ("retry", 30.0, 1.5)
    assert (event.error_type, event.error_message) == ("ValueError", "not a number")
    assert event.exception is ERROR


def test_a_dead_letter_has_no_delay_and_a_lost_one_no_runtime():
    event = ended(CLAIM, Dead(CLAIM.lease, FAILURE))
    assert event is not None
    assert (event.name, event.delay, event.runtime) == ("dead", 0.0, None)
    assert (event.error_type, event.exception) == ("ValueError", None)


def test_what_is_put_off_returned_or_cancelled_is_no_event():
    lease = CLAIM.lease
    for outcome in (Later(lease, 5.0), Returned(lease), Cancelled(lease, "why")):
        assert ended(CLAIM, outcome) is None
