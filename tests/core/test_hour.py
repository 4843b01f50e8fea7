"""The last hour, from notes of what was counted by the end of each minute."""

import pytest

from mulligan.core.counts import BOUNDS, BUCKETS, Count, FailureName, RuntimeName, bucket
from mulligan.core.hour import (
    Interval,
    Sums,
    TaskHour,
    Times,
    encode,
    intervals,
    minute_key,
    quantile_of,
    read_minutes,
    sums_at,
    tasks_between,
)

NONE = Times(None, None, None)


def ran(*seconds: float, task: str = "ask", outcome: str = "succeeded", region: str = "US"):
    counts = [
        Count("q", region, RuntimeName(outcome, bucket(each), task).written, 1.0)
        for each in seconds
    ]
    return [*counts, Count("q", region, RuntimeName(outcome, "sum", task).written, sum(seconds))]


def summed(*counts: Count) -> dict[tuple[str, str, str], float]:
    found: dict[tuple[str, str, str], float] = {}
    for queue, region, name, value in counts:
        found[queue, region, name] = found.get((queue, region, name), 0.0) + value
    return found


def test_what_happened_in_a_minute_is_the_difference_of_two_notes():
    before = ran(0.02, 0.02)
    waits = [Count("q", "US", f"fresh-wait.{bucket(0.2)}", 3.0)]
    after = [*ran(0.02, region="EU"), *ran(9.0, outcome="failed"), *waits]
    minutes = [sums_at(summed(*before), 60.0), sums_at(summed(*before, *after), 120.0)]
    [found] = intervals(minutes)
    assert (found.at, found.seconds, found.succeeded, found.failed) == (120.0, 60.0, 1, 1)
    assert found.runtime == Times(0.025, 9.5, 9.9)
    assert found.wait.p50 == pytest.approx(0.175)


def test_a_queue_or_a_task_has_its_own_part_and_a_task_no_waits():
    counts = [*ran(0.02), *ran(0.02, task="other"), Count("q", "US", "fresh-wait.1", 1.0)]
    counts += [Count("q", "US", "succeeded", 2.0)]
    minutes = [Sums(0.0, [], [], []), sums_at(summed(*counts), 60.0)]
    [of_task] = intervals(minutes, task="ask")
    assert (of_task.succeeded, of_task.wait) == (1, NONE)
    [of_queue] = intervals(minutes, queue="q")
    assert (of_queue.succeeded, of_queue.wait.p50) == (2, 0.75)
    assert intervals(minutes, queue="another") == [Interval(60.0, 60.0, 0, 0, NONE, NONE)]


def test_tasks_are_told_with_rate_runtimes_and_failures_by_type():
    before = [*ran(1.0), Count("q", "US", FailureName("Old", "ask").written, 2.0)]
    after = [
        *ran(1.0, outcome="failed"),
        *ran(1.0, outcome="job-fault"),
        *ran(1.0, outcome="snoozed"),
        Count("q", "US", FailureName("TimeoutError", "ask").written, 2.0),
        Count("q", "US", FailureName("ValueError", "ask").written, 5.0),
    ]
    first, last = sums_at(summed(*before), 0.0), sums_at(summed(*before, *after), 120.0)
    [found] = tasks_between(first, last)
    times = Times(1.0, 1.0, 1.0)
    failures = {"ValueError": 5, "TimeoutError": 2}
    assert found == TaskHour("ask", "q", 0, 2, 1, 1.5, times, failures)
    assert [*found.failures] == ["ValueError", "TimeoutError"]
    [idle] = tasks_between(last, last)
    assert (idle.succeeded, idle.failed, idle.per_minute, idle.runtime) == (0, 0, 0.0, NONE)


def test_few_attempts_do_not_look_slower_than_they_were():
    empty = sums_at({}, 0.0)
    [one] = tasks_between(empty, sums_at(summed(*ran(2.1)), 60.0))
    assert one.runtime == Times(2.1, 2.1, 2.1)
    [alike] = tasks_between(empty, sums_at(summed(*ran(2.1, 2.3, 2.2)), 60.0))
    assert alike.runtime == Times(2.2, 2.2, 2.2)
    [mixed] = tasks_between(empty, sums_at(summed(*ran(2.1, 0.3)), 60.0))
    assert mixed.runtime == Times(0.5, 4.7, 4.94)


def test_a_store_that_was_emptied_meanwhile_did_nothing_less_than_nothing():
    [found] = intervals([sums_at(summed(*ran(1.0, 1.0)), 0.0), sums_at(summed(*ran(1.0)), 60.0)])
    assert found.succeeded == 0


def test_a_note_with_other_buckets_counts_as_none():
    last = sums_at(summed(*ran(1.0)), 60.0)
    first = Sums(0.0, [type(last.runtimes[0])("q", "ask", "succeeded", [5.0], 1.0)], [], [])
    assert intervals([first, last])[0].succeeded == 1


def test_only_notes_of_this_hour_that_can_be_read_are_looked_at():
    notes = {minute_key(at): encode(sums_at({}, at)) for at in (100.0, 7000.0, 10_000.0)}
    found = read_minutes({**notes, minute_key(9000.0): b"of a later release"}, 10_000.0)
    assert [each.at for each in found] == [7000.0]


def test_a_quantile_lies_within_its_bucket_and_that_of_the_last_at_its_beginning():
    assert quantile_of([0.0] * len(BOUNDS), 0.5) is None
    assert quantile_of([], 0.5) is None
    assert quantile_of([4.0, *[0.0] * (len(BOUNDS) - 1)], 0.5) == BOUNDS[0] / 2
    assert quantile_of([*[0.0] * (len(BOUNDS) - 1), 4.0], 0.5) == BOUNDS[-2]
    assert len(BUCKETS) == len(BOUNDS)
