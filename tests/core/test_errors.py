"""Errors that carry more than a text."""

from msgspec.structs import replace

from mulligan.core.errors import JobFailedError, ShardAwayError
from mulligan.core.job import Attempt

FIRST = Attempt(1, 0, "EU", "w1", 100.0, "httpx.ReadTimeout", "too slow", traceback="at line 1")
LAST = Attempt(2, 0, "EU", "w1", 110.0, "ValueError", "no number", traceback="at line 2")


def test_a_failed_job_tells_its_attempts_and_what_failed_last():
    error = JobFailedError("ValueError: no number", (FIRST, LAST))
    assert error.attempts == [FIRST, LAST]
    assert (error.type, error.traceback) == ("ValueError", "at line 2")
    assert str(error) == "ValueError: no number\n\nat line 2"


def test_a_failed_job_without_a_traceback_tells_its_message_alone():
    error = JobFailedError("lost", [FIRST, replace(LAST, traceback=None)])
    assert (error.type, error.traceback, str(error)) == ("ValueError", None, "lost")


def test_a_failed_job_whose_attempts_are_not_known_tells_none():
    error = JobFailedError("ValueError: no number")
    assert (error.attempts, error.type, error.traceback) == ([], None, None)
    assert str(error) == "ValueError: no number"


def test_a_shard_that_is_away_tells_what_the_others_said():
    assert ShardAwayError("shard 1 is away", ("written", None)).answers == ["written", None]
    assert ShardAwayError("shard 1 is away").answers == []
    assert str(ShardAwayError("shard 1 is away", ("stale",))) == "shard 1 is away"
