"""Which ticks of a periodic task are to be placed."""

from mulligan.core.job import NewJob
from mulligan.core.periodic import Periodic
from mulligan.core.schedule import Every

HOURLY = Periodic("report", Every(3600), lambda job, delay: NewJob(job, "default", "report", b""))


def test_a_task_that_was_never_placed_begins_with_the_next_tick():
    assert HOURLY.due(None, 5000.0) == [7200.0]


def test_the_latest_tick_that_was_missed_is_placed_with_the_next():
    assert HOURLY.due(3600.0, 20_000.0) == [18_000.0, 21_600.0]


def test_a_tick_is_placed_once():
    assert HOURLY.due(3600.0, 5000.0) == [7200.0]
    assert HOURLY.due(7200.0, 5000.0) == []


def test_a_clock_that_was_far_ahead_and_was_set_back_does_not_silence_the_task():
    assert HOURLY.due(5000.0 + 86_400, 5000.0) == [7200.0]
    assert HOURLY.due(10_801.0, 5000.0) == [7200.0]


def test_a_clock_that_was_put_back_by_a_moment_places_no_tick_again():
    assert HOURLY.due(10_800.0, 7199.0) == []
    assert HOURLY.due(10_800.0, 7200.0) == []


def test_another_schedule_of_the_task_is_noted_under_another_key():
    assert HOURLY.note == "tick/report/every 3600.0"
    assert HOURLY._replace(schedule=Every(60)).note == "tick/report/every 60.0"
