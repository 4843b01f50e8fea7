import pytest
from msgspec.structs import replace

from mulligan.core.errors import InvalidError
from mulligan.core.job import (
    Attempt,
    Claim,
    Lease,
    NewJob,
    adopted_token,
    all_created,
    first_token,
    never_started,
)
from mulligan.core.lane import Lane, Priority
from mulligan.core.signals import Fail, RetryAfter, Snooze
from mulligan.core.worker import Worker
from tests.core.jobs import WAITING
from tests.core.refusal import refused


def test_a_new_job_joins_the_lane_of_its_queue_region_and_priority():
    assert NewJob("A-q1", "questions", "ask", b"{}").lane == Lane("questions", "*", 0)
    urgent = NewJob("A-q1", "questions", "ask", b"{}", "US", Priority.URGENT)
    assert urgent.lane == Lane("questions", "US", Priority.URGENT)


def test_a_job_stands_in_a_lane_that_may_not_be_that_of_its_enqueue():
    job = replace(WAITING, scope="*-US", lane_priority=Priority.RETRY)
    assert job.lane == Lane("questions", "*-US", Priority.RETRY)


def test_a_later_stage_keeps_the_unique_key_of_the_queue_of_the_first():
    assert WAITING.key_queue == "questions"
    assert replace(WAITING, unique_in="orders").key_queue == "orders"


def test_an_attempt_says_what_failed_in_words():
    assert Attempt(1, 0, "US", "w", 1.0, "TimeoutError", "late").reason == "TimeoutError: late"


def test_a_result_is_read_back_as_the_json_that_it_was():
    assert replace(WAITING, result=b'{"category":"Fact"}').value() == {"category": "Fact"}
    assert replace(WAITING, result=b"null").value() is None
    assert WAITING.value() is None


def test_a_job_is_kept_from_its_end_unless_it_failed():
    done = replace(WAITING, status="done", ended_at=100.0)
    assert done.kept_until(3600.0) == 3700.0
    assert replace(done, keep=15).kept_until(3600.0) == 115.0
    assert replace(done, status="cancelled").kept_until(3600.0) == 3700.0
    assert replace(done, status="failed").kept_until(3600.0) is None
    assert WAITING.kept_until(3600.0) is None


def test_a_claim_names_its_lease_its_lane_and_the_number_of_its_attempt():
    claim = Claim(
        *("A-q1", 7, "questions", "ask", b"{}", "US", Priority.NORMAL, "*", Priority.RETRY),
        *(0.0, 2, 0, 0, "w1", "EU", 1.0),
    )
    assert claim.lease == Lease("A-q1", 7)
    assert claim.lane == Lane("questions", "*", Priority.RETRY)
    assert claim.attempt == 3


@pytest.mark.parametrize(
    ("retry_count", "snoozes", "replay"), [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)]
)
def test_a_job_has_started_once_it_was_retried_snoozed_or_replayed(retry_count, snoozes, replay):
    assert never_started(0, 0, 0) is True
    assert never_started(retry_count, snoozes, replay) is False


def test_a_job_goes_on_in_another_store_with_as_many_tokens_used_as_before():
    assert adopted_token(9, first_token(3) + 5) == first_token(9) + 5


def test_a_worker_that_mentions_no_region_is_in_the_default_one():
    assert Worker("w1").region == "default"


def test_a_task_may_ask_to_be_retried_after_a_delay_of_its_own():
    assert RetryAfter(30).delay == 30
    assert str(RetryAfter(30)) == "the task asked to be retried"
    assert str(RetryAfter(30, "rate limited")) == "rate limited"
    with refused("RetryAfter -1 must be between 0 s and 3153600000 s"):
        RetryAfter(-1)


def test_a_task_may_say_that_no_retry_would_help():
    failure = Fail("no such user", code="E404")
    assert (str(failure), failure.code) == ("no such user", "E404")


def test_a_task_may_ask_to_run_later():
    assert Snooze(30).delay == 30
    with pytest.raises(InvalidError, match=r"^Snooze '30' must be a number of seconds"):
        Snooze("30")  # type: ignore[arg-type]


def test_jobs_that_are_all_new_are_told_as_such():
    answers = all_created(["a", "b"])
    assert answers == [("a", True), ("b", True)]
    assert [(answer.id, answer.created) for answer in answers] == answers
