"""What the start and the end of an attempt count as."""

import pytest
from msgspec.structs import replace

from mulligan.core.counts import (
    BOUNDS,
    FailureName,
    RuntimeName,
    as_probe,
    at_end,
    at_start,
    bucket,
    outcome_word,
    read_failure,
    read_runtime,
)
from mulligan.core.decide import SNOOZE_LIMIT, decide
from mulligan.core.facts import Facts
from mulligan.core.flow import Flow
from mulligan.core.health import Breaker, Health, Probe
from mulligan.core.job import encode
from mulligan.core.lane import Priority
from mulligan.core.outcome import Drained, Failed, Lost, Result, Snoozed, Succeeded
from mulligan.core.retry import Trail
from mulligan.core.stage import Stage
from tests.core.test_decide import EXACT, claimed

TIMED_OUT = "failure.TimeoutError/ask"
OOPS = Failed("TimeoutError", "late")
FAIL = Failed("Fail", "hopeless", non_retryable=True)
REFUSED = Failed("Refused", "no", refused='"Error"')
GOOD = Succeeded(b"1")


def counted(result: Result, retry_count: int = 0, **changes: object) -> tuple[str, ...]:
    claim = replace(claimed(), retry_count=retry_count, **changes)
    return at_end(claim, result, decide(claim, result, Facts(), 0.0))


@pytest.mark.parametrize(
    ("result", "retry_count", "names"),
    [
        (GOOD, 0, ("succeeded",)),
        (GOOD, 2, ("succeeded", "retry-succeeded")),
        (OOPS, 0, ("failed", TIMED_OUT)),
        (OOPS, 1, ("failed", "retry-failed", TIMED_OUT)),
        (OOPS, 3, ("failed", "retry-failed", "dead", TIMED_OUT)),
        (FAIL, 0, ("job-fault", "dead", "failure.Fail/ask")),
        (REFUSED, 0, ("job-fault", "failure.Refused/ask")),
        (REFUSED, 3, ("job-fault", "retry-failed", "dead", "failure.Refused/ask")),
        (Lost(), 0, ("failed", "lost", "reclaimed", "failure.Lost/ask")),
        (Lost(), 3, ("failed", "retry-failed", "lost", "reclaimed", "dead", "failure.Lost/ask")),
        (Snoozed(5), 0, ()),
        (Drained(), 0, ()),
    ],
)
def test_an_end_counts_by_what_becomes_of_the_job(result, retry_count, names):
    assert counted(result, retry_count) == names


def test_a_good_result_that_the_next_stage_cannot_take_counts_as_dead_and_blames_no_region():
    flow = Flow("A-q1", ("a", "each(b)"), then=(Stage("b", each=True),))
    body = encode({"task": "a", "args": [], "kwargs": {}, "retry": EXACT, "flow": flow})
    assert counted(GOOD, body=body) == ("job-fault", "dead", "failure.Flow/ask")


def test_a_job_that_was_snoozed_too_often_failed_for_a_reason_of_its_own():
    names = counted(Snoozed(5), snoozes=SNOOZE_LIMIT)
    assert names == ("job-fault", "failure.Snooze/ask")


def test_the_start_of_a_fresh_job_counts_by_its_lane():
    assert [*at_start(claimed())] == [("started.fresh", 1.0)]
    assert [*at_start(claimed(lane_priority=Priority.URGENT))] == [("started.urgent", 1.0)]


RETRY = claimed(
    retry_count=1,
    scope="*-EU",
    lane_priority=Priority.RETRY,
    due=100.0,
    started_at=100.2,
    trail=Trail(("US", "EU"), 4.0).write(),
)


def test_the_start_of_a_retry_counts_its_wait_its_return_and_whether_it_is_elsewhere():
    counts = dict(at_start(RETRY))
    assert counts["started.global-retry"] == counts["retry-elsewhere"] == 1.0
    assert counts["retry-wait.0.25"] == counts["retry-return.5"] == 1.0
    assert counts["retry-wait.sum"] == pytest.approx(0.2)
    assert counts["retry-return.sum"] == pytest.approx(4.2)


def test_a_retry_that_stood_in_the_fresh_line_counts_as_a_retry_all_the_same():
    counts = dict(at_start(replace(RETRY, scope="US", lane_priority=Priority.NORMAL)))
    assert (counts["started.fresh"], counts["retry-wait.0.25"]) == (1.0, 1.0)


def test_the_return_of_a_retry_is_its_pause_and_its_wait_together():
    counts = dict(at_start(replace(RETRY, started_at=103.0)))
    assert (counts["retry-wait.5"], counts["retry-return.10"]) == (1.0, 1.0)


def test_a_retry_where_it_failed_last_is_not_elsewhere():
    assert "retry-elsewhere" not in dict(at_start(replace(RETRY, worker_region="EU")))
    assert "retry-elsewhere" not in dict(at_start(replace(RETRY, trail="")))


def test_a_clock_that_is_behind_makes_no_negative_wait():
    counts = dict(at_start(replace(RETRY, started_at=99.0)))
    assert (counts["retry-wait.sum"], counts["retry-wait.0.001"]) == (0.0, 1.0)


def test_a_wait_falls_into_the_first_bucket_that_holds_it():
    assert [bucket(seconds) for seconds in (0.0, 0.005, 0.006, 2.0, 300.0, 1801.0)] == [
        "0.001",
        "0.005",
        "0.01",
        "2",
        "300",
        "inf",
    ]
    assert bucket(BOUNDS[-1]) == "inf"


def test_names_of_tasks_and_failures_are_read_as_they_were_written():
    runtime = RuntimeName("job-fault", "0.05", "app.tasks/ask me")
    assert read_runtime(runtime.written) == runtime
    failure = FailureName("httpx.ReadTimeout", "app.tasks/ask me")
    assert read_failure(failure.written) == failure
    assert read_failure(FailureName("a/b\0", "t").written) == FailureName("a_b", "t")
    assert read_runtime(failure.written) is None
    assert read_failure(runtime.written) is None


def test_an_attempt_has_one_word_for_how_it_ended():
    job, facts = claimed(worker_region="US"), Facts()
    words = [
        outcome_word(job, result, decide(job, result, facts, 0.5))
        for result in (GOOD, OOPS, FAIL, Snoozed(5), Drained())
    ]
    assert words == ["succeeded", "failed", "job-fault", "snoozed", None]


def test_what_started_while_the_breaker_was_open_is_a_probe():
    opened = Health(breaker=Breaker(open=True, since=90.0))
    claim = claimed(started_at=100.0)
    facts = Facts(health={(claim.queue, claim.worker_region): opened})
    assert as_probe(claim, ("succeeded",), facts) == Probe(succeeded=True, started_at=100.0)
    assert as_probe(claim, ("failed", "dead"), facts) == Probe(succeeded=False, started_at=100.0)
    assert as_probe(claim, ("job-fault",), facts) is None
    assert as_probe(claimed(started_at=90.0), ("succeeded",), facts) is not None
    assert as_probe(claimed(started_at=80.0), ("succeeded",), facts) is None
    assert as_probe(claim, ("succeeded",), Facts()) is None
