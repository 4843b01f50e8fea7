"""When a breaker opens and closes."""

import pytest

from mulligan.core.health import CLOSED, UNKNOWN, WINDOW, Breaker, Health, first_slot, judge

OPEN = Breaker(open=True, since=100.0)


@pytest.mark.parametrize(
    ("succeeded", "failed", "opens"),
    [
        (0, 19, False),  # too few to say
        (0, 20, True),
        (10, 10, False),  # half is tolerated
        (9, 11, True),
        (100, 99, False),
        (99, 100, True),
    ],
)
def test_it_opens_when_more_than_half_of_at_least_twenty_attempts_failed(succeeded, failed, opens):
    assert judge(Health(succeeded, failed)).open is opens


def test_one_that_stays_closed_is_as_it_was():
    assert judge(UNKNOWN) is CLOSED


@pytest.mark.parametrize(
    ("before", "probes", "after"),
    [
        (0, [], (True, 0)),
        (0, [True, True], (True, 2)),
        (2, [True], (False, 0)),
        (0, [True, True, True], (False, 0)),
        (2, [False], (True, 0)),
        (1, [True, False, True], (True, 1)),
        (2, [False, True, True, True], (False, 0)),
        (2, [True, False], (False, 0)),  # it closed before the failure
    ],
)
def test_three_good_probes_in_a_row_close_it_and_a_failed_one_starts_the_count_anew(
    before, probes, after
):
    health = Health(0, 50, Breaker(open=True, since=100.0, probes=before))
    judged = judge(health, probes)
    assert (judged.open, judged.probes, judged.since) == (*after, 100.0)


def test_probes_say_nothing_about_a_closed_breaker():
    assert judge(UNKNOWN, [False, False]) == CLOSED


def test_a_region_of_which_little_is_known_counts_as_reliable():
    assert Health(0, 19).success_rate == 1.0
    assert Health(5, 15).success_rate == 0.25


def test_what_is_recent_begins_a_minute_ago_or_when_the_breaker_last_turned():
    assert first_slot(1000.0, CLOSED) == 1000.0 - WINDOW
    assert first_slot(1000.0, Breaker(since=980.0)) == 980.0
    assert first_slot(1000.0, OPEN) == 1000.0 - WINDOW


def test_where_all_serve_three_lucky_ones_among_failures_do_not_close_it():
    failing = Health(12, 28, Breaker(open=True, since=5.0))
    assert judge(failing, (True, True, True), enforced=False).open
    assert not judge(failing, (True, True, True)).open
    recovered = Health(30, 10, Breaker(open=True, since=5.0))
    assert not judge(recovered, (True, True, True), enforced=False).open
