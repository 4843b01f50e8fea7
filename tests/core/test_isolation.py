"""Who runs beside whom after a worker died."""

from msgspec.structs import replace

from mulligan.core.decide import ALONE, FEW, decide, group_limit, isolated
from mulligan.core.facts import Facts
from mulligan.core.job import Claim
from mulligan.core.outcome import Again, Failed, Lost, Result
from mulligan.core.retry import Trail, read_trail

CLAIM = Claim(
    id="q1",
    token=1,
    queue="questions",
    task="ask",
    body=b'{"retry":{"max_retries":5}}',
    region="US",
    priority=0,
    scope="US",
    lane_priority=0,
    due=0.0,
    retry_count=0,
    replay=0,
    snoozes=0,
    worker="w1",
    worker_region="US",
    started_at=0.0,
)


def lost(times: int, name: str = "q1", **fields: object) -> Claim:
    trail = Trail(("US",), 0.0, times).write()
    return replace(CLAIM, id=name, trail=trail, retry_count=times, **fields)


def after(claim: Claim, result: Result) -> Claim:
    """The next claim of the job."""
    outcome = decide(claim, result, Facts(), 0.5)
    assert isinstance(outcome, Again)
    return replace(claim, retry_count=claim.retry_count + 1, trail=outcome.trail)


def test_a_job_that_was_never_lost_runs_beside_any_number():
    assert group_limit(CLAIM) is None
    assert group_limit(after(CLAIM, Failed("TimeoutError", "no answer"))) is None


def test_a_task_that_raises_an_error_named_lost_is_not_suspect():
    assert group_limit(after(CLAIM, Failed("Lost", "so are my keys"))) is None


def test_a_job_that_was_lost_once_runs_beside_a_few():
    assert group_limit(after(CLAIM, Lost())) == FEW


def test_a_job_that_was_lost_twice_in_a_row_runs_alone():
    assert group_limit(after(after(CLAIM, Lost()), Lost())) == ALONE


def test_a_job_on_its_last_attempt_runs_alone_for_a_neighbour_could_cost_it():
    once = replace(CLAIM, body=b'{"retry":{"max_retries":1}}')
    assert group_limit(after(once, Lost())) == ALONE


def test_a_job_whose_policy_cannot_be_read_runs_alone():
    assert group_limit(lost(1, body=b"nonsense")) == ALONE


def test_an_attempt_that_ends_in_any_other_way_clears_the_job():
    cleared = after(after(CLAIM, Lost()), Failed("TimeoutError", "no answer"))
    assert read_trail(cleared.trail).lost == 0
    assert group_limit(cleared) is None


def test_where_nobody_is_suspect_none_are_picked():
    assert isolated([CLAIM, replace(CLAIM, id="q2")]) == []
    assert isolated([]) == []


def test_of_many_that_were_lost_once_a_few_start():
    many = [lost(1, f"q{number}") for number in range(50)]
    assert isolated([CLAIM, *many]) == many[:FEW]


def test_one_that_must_be_alone_starts_without_the_others_when_it_is_first():
    alone, other = lost(2, "q1"), lost(1, "q2")
    assert isolated([alone, other]) == [alone]


def test_one_that_must_be_alone_waits_when_others_are_first():
    alone, other, third = lost(2, "q2"), lost(1, "q1"), lost(1, "q3")
    assert isolated([other, alone, third]) == [other, third]
