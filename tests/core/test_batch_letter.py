"""The dead letter that names the jobs of a batch which is moved from another store."""

import msgspec
import pytest
from msgspec.structs import replace

from mulligan.core.batch_letter import batch_letter
from mulligan.core.job import Adopted, Attempt
from mulligan.core.lane import ANYWHERE, Priority
from tests.core.jobs import WAITING

JOBS = [replace(WAITING, id="one", queue="mail"), replace(WAITING, id="two")]


@pytest.fixture
def made() -> Adopted:
    return batch_letter("letter", "mulligan.copy", JOBS, "a move was cut off", 50.0)


def test_the_letter_is_a_failed_job_in_the_queue_of_the_batch_and_names_its_jobs(made):
    assert (made.job.id, made.job.queue, made.job.status) == ("letter", "mail", "failed")
    call = {"task": "mulligan.copy", "args": ["one", "two"], "kwargs": {}}
    assert (made.job.task, msgspec.json.decode(made.job.body)) == ("mulligan.copy", call)


def test_the_letter_looks_like_a_job_that_failed_at_its_first_attempt_in_no_region(made):
    assert (made.job.token, made.job.sequence) == (1, 0)
    assert (made.job.retry_count, made.job.replay, made.job.snoozes) == (0, 0, 0)
    assert (made.job.region, made.job.priority) == (ANYWHERE, Priority.NORMAL)
    assert {made.job.due, made.job.created_at, made.job.started_at, made.job.ended_at} == {50.0}


def test_the_history_of_the_letter_says_why_the_move_is_not_finished(made):
    said = (50.0, "Interrupted", "a move was cut off")
    [failure] = made.history
    assert failure == Attempt(1, 0, ANYWHERE, "mulligan.copy", *said, ended_at=50.0)
