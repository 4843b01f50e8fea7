"""When a breaker opens and closes."""

import pytest

from mulligan.core.alerts import is_failing
from mulligan.core.health import (
    CLOSED,
    UNKNOWN,
    WINDOW,
    Breaker,
    Health,
    Probe,
    changes_plans,
    first_slot,
    judge,
)

OPEN = Breaker(open=True, since=100.0)


def made(*succeeded: int) -> list[Probe]:
    return [Probe(bool(good), 110.0 + number) for number, good in enumerate(succeeded)]


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
        (2, [False], (True, -1)),
        (-1, [False], (True, -2)),
        (-2, [True], (True, 1)),
        (1, [True, False, True], (True, 1)),
        (2, [False, True, True, True], (False, 0)),
        (2, [True, False], (False, 0)),  # it closed before the failure
    ],
)
def test_three_good_probes_in_a_row_close_it_and_a_failed_one_starts_the_count_anew(
    before, probes, after
):
    health = Health(0, 50, Breaker(open=True, since=100.0, probes=before))
    judged = judge(health, made(*probes))
    assert (judged.open, judged.probes, judged.since) == (*after, 100.0)


def test_probes_say_nothing_about_a_closed_breaker():
    assert judge(UNKNOWN, made(0, 0)) == CLOSED


def test_probes_are_a_second_apart_and_twice_as_long_after_each_that_fails_up_to_thirty():
    paces = [Breaker(open=True, probes=-failed).pause for failed in range(9)]
    assert paces == [1, 1, 2, 4, 8, 16, 30, 30, 30]
    assert Breaker(open=True, probes=-(10**6)).pause == 30
    assert Breaker(open=True, probes=2).pause == 1


def test_the_next_probe_is_one_pause_after_the_last_or_after_it_opened():
    assert OPEN.next_probe_at == 101.0
    failed = judge(Health(breaker=Breaker(open=True, since=100.0, probes=-2)), made(0))
    assert (failed.failed, failed.succeeded, failed.probed_at) == (3, 0, 110.0)
    assert failed.next_probe_at == 114.0
    assert judge(Health(breaker=failed), [Probe(succeeded=True, started_at=114.0)]) == Breaker(
        open=True, since=100.0, probes=1, probed_at=114.0
    )


def test_what_was_told_late_does_not_move_the_last_probe_back():
    last = Breaker(open=True, since=100.0, probes=-1, probed_at=120.0)
    assert judge(Health(breaker=last), made(0)).probed_at == 120.0


def test_where_all_serve_attempts_set_no_pace():
    serving = judge(Health(30, 10, OPEN), made(1, 0), enforced=False)
    assert serving == OPEN


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        (CLOSED, OPEN, True),
        (OPEN, CLOSED, True),
        (OPEN, Breaker(open=True, since=100.0, probes=-1, probed_at=1.0), False),
        (Breaker(open=True, probes=-1), Breaker(open=True, probes=-2), True),
        (Breaker(open=True, probes=-7), Breaker(open=True, probes=-8), False),
        (Breaker(open=True, probes=-7), Breaker(open=True, probes=1), True),
    ],
)
def test_plans_change_with_the_breaker_and_with_its_pace(before, after, changes):
    assert changes_plans(before, after) is changes


def test_a_region_of_which_little_is_known_counts_as_reliable():
    assert Health(0, 19).success_rate == 1.0
    assert Health(5, 15).success_rate == 0.25


def test_what_is_recent_begins_a_minute_ago_or_when_the_breaker_last_turned():
    assert first_slot(1000.0, CLOSED) == 1000.0 - WINDOW
    assert first_slot(1000.0, Breaker(since=980.0)) == 980.0
    assert first_slot(1000.0, OPEN) == 1000.0 - WINDOW


def test_where_all_serve_three_lucky_ones_among_failures_do_not_close_it():
    failing = Health(12, 28, Breaker(open=True, since=5.0))
    assert judge(failing, made(1, 1, 1), enforced=False).open
    assert not judge(failing, made(1, 1, 1)).open
    recovered = Health(30, 10, Breaker(open=True, since=5.0))
    assert not judge(recovered, made(1, 1, 1), enforced=False).open


def test_an_open_breaker_is_an_alert_until_a_minute_without_failures_or_attempts_has_passed():
    quiet = Health(0, 0, Breaker(open=True, since=100.0))
    assert is_failing(quiet, 100.0 + WINDOW - 0.001, running=0)
    assert not is_failing(quiet, 100.0 + WINDOW, running=0)
    assert is_failing(quiet, 100.0 + WINDOW, running=1)
    assert is_failing(Health(0, 1, quiet.breaker), 100.0 + WINDOW, running=0)
    assert not is_failing(Health(0, 1, Breaker()), 100.0, running=1)


def test_probes_in_a_row_either_went_well_or_failed():
    went = [(Breaker(probes=n).succeeded, Breaker(probes=n).failed) for n in (-2, 0, 2)]
    assert went == [(0, 2), (0, 0), (2, 0)]
