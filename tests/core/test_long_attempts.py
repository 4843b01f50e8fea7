"""The oldest attempt of each queue, and slots that all wait for other jobs."""

from msgspec.json import encode

from mulligan.core.long_attempts import (
    LongAttempts,
    all_stuck,
    attempt_metrics,
    read_long_attempts,
)

BUSY = LongAttempts("ann", "EU", 2, {"mail": 900.0, "calls": 990.0}, waiting=1)
STUCK = LongAttempts("bob", "EU", 2, {"mail": 950.0}, waiting=2, parent="p", child="c")


def test_what_workers_noted_is_read_and_what_cannot_be_is_left_out():
    assert read_long_attempts({"a": encode(BUSY), "b": b"[]"}) == [BUSY]


def test_the_oldest_attempt_of_each_queue_and_region_is_measured():
    us = LongAttempts("eve", "US", 1, {"mail": 2000.0})
    [metric] = attempt_metrics([BUSY, STUCK, us], 1000.0)
    assert [(*each.labels.values(), each.value) for each in metric.samples] == [
        ("calls", "EU", 10.0),
        ("mail", "EU", 100.0),
        ("mail", "US", 0.0),  # a clock that was set back
    ]


def test_all_slots_wait_only_if_those_of_every_worker_do():
    assert all_stuck([], [STUCK]) is None
    assert all_stuck(["ann", "bob"], [BUSY, STUCK]) is None
    assert all_stuck(["cid", "bob"], [STUCK]) is None
    said = all_stuck(["bob"], [BUSY, STUCK])
    assert said is not None
    assert said.startswith(
        "all 2 slots of worker bob that may take it are taken by jobs that wait for the results of"
        " other jobs, such as p for c; raise the concurrency, "
    )


def test_one_slot_and_several_workers_are_named_as_such():
    one = LongAttempts("one", "EU", 1, {"mail": 1.0}, waiting=1, parent="p", child="c")
    assert str(all_stuck(["one"], [one])).startswith("the only slot of worker one that may take it")
    both = str(all_stuck(["bob", "one"], [STUCK, one]))
    assert both.startswith("all 3 slots of the 2 workers that may take it are taken")
