from contextlib import suppress
from datetime import timedelta
from fractions import Fraction
from itertools import accumulate
from math import isfinite, nextafter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.core.checks import LONGEST, seconds
from mulligan.core.errors import InvalidError
from mulligan.core.retry import (
    PRESETS,
    STEPS_LIMIT,
    Adaptive,
    Backoff,
    Curve,
    Delays,
    Exponential,
    Sessions,
    longest,
    raw_delay,
)
from tests.core.strategies import backoffs, curves, draws, retry_numbers, steady

ALMOST_ONE = nextafter(1, 0)


def waits(backoff: Backoff, count: int, draw: float = 0.0, depth: int = 0) -> list[float]:
    return [backoff.delay(n, draw, depth) for n in range(1, count + 1)]


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("quick", [2, 4, 8]),
        ("steep", [1, 4, 16, 64, 256]),
        ("sessions", [0, 5, 300, 0, 5, 600, 0, 5, 1200, 0, 5, 2400, 0, 5, 3600, 0, 5, 3600]),
    ],
)
def test_a_preset_without_jitter_waits_exactly(preset, expected):
    for draw in (0.0, 0.5, ALMOST_ONE):
        assert waits(PRESETS[preset].backoff, len(expected), draw) == expected


@pytest.mark.parametrize(
    ("preset", "longest_waits"),
    [
        ("default", [2, 4, 8, 16, 32]),
        ("patient", [5, 10, 20, 40, 80, 160, 320, 640, 1280, 1800]),
    ],
)
def test_a_preset_with_full_jitter_waits_up_to_the_raw_delay(preset, longest_waits):
    backoff = PRESETS[preset].backoff
    count = len(longest_waits)
    assert waits(backoff, count, draw=0.0) == [0] * count
    assert waits(backoff, count, draw=0.5) == [wait / 2 for wait in longest_waits]
    assert waits(backoff, count, draw=ALMOST_ONE) == pytest.approx(longest_waits)


def test_exponential_stops_growing_at_its_max():
    assert waits(Exponential(2, 2, 60, "none"), 8) == [2, 4, 8, 16, 32, 60, 60, 60]


def test_a_max_as_short_as_the_base_keeps_the_delay():
    assert waits(Exponential(5, 2, 5, "none"), 3) == [5, 5, 5]


def test_a_factor_of_one_keeps_the_delay_and_one_below_shrinks_it():
    assert waits(Exponential(3, 1, 60, "none"), 3) == [3, 3, 3]
    assert waits(Exponential(8, 0.5, 60, "none"), 4) == [8, 4, 2, 1]


def test_a_base_of_zero_means_at_once():
    assert waits(Exponential(0, 2, 60, "decorrelated"), 3, draw=0.9) == [0, 0, 0]


def test_decorrelated_jitter_draws_from_base_up_to_the_raw_delay():
    backoff = Exponential(2, 2, 60, "decorrelated")
    assert waits(backoff, 7, draw=0.0) == [2, 2, 2, 2, 2, 2, 2]
    assert waits(backoff, 7, draw=0.5) == [2, 3, 5, 9, 17, 31, 31]


def test_delays_are_taken_in_turn_and_the_last_one_stays():
    assert waits(Delays((1, 5, 30)), 5) == [1, 5, 30, 30, 30]
    assert Delays((1, 5, 30)).delay(10**9, 0.0) == 30


def test_a_session_of_one_attempt_is_the_pauses_alone():
    assert waits(Sessions(attempts=1, within=()), 6) == [300, 600, 1200, 2400, 3600, 3600]


def test_jitter_spreads_the_pauses_between_sessions_and_not_the_waits_within():
    backoff = Sessions(jitter="full")
    assert waits(backoff, 6, draw=0.5) == [0, 5, 150, 0, 5, 300]


def test_sessions_of_attempts_that_take_30_seconds_start_at_these_times():
    steps = [30 + wait for wait in waits(Sessions(), 14)]
    starts = list(accumulate(steps, initial=0))
    assert starts == [
        *(0, 30, 65),
        *(395, 425, 460),
        *(1090, 1120, 1155),
        *(2385, 2415, 2450),
        *(4880, 4910, 4945),
    ]


def test_adaptive_stretches_by_the_fresh_work_that_waits():
    backoff = Adaptive()
    assert waits(backoff, 3, depth=0) == [2, 4, 8]
    assert waits(backoff, 3, depth=5) == [3, 6, 12]
    assert waits(backoff, 4, depth=100) == [22, 44, 60, 60]


def test_adaptive_lets_both_numbers_be_set():
    assert waits(Adaptive(max=100, per=5), 3, depth=10) == [6, 12, 24]
    assert waits(Adaptive(max=10, per=5), 3, depth=10) == [6, 10, 10]


def test_adaptive_draws_jitter_from_the_stretched_delay():
    assert Adaptive(jitter="full").delay(1, 0.5, depth=10) == 2


def test_adaptive_waits_for_nothing_where_the_base_is_nothing():
    assert Adaptive(base=0).delay(3, 0.5, depth=10) == 0


def test_a_backoff_may_go_as_far_as_its_limits():
    assert Adaptive(per=0.5).delay(1, 0.5, depth=1) == 6
    assert Delays((1,) * STEPS_LIMIT).delay(STEPS_LIMIT, 0.5) == 1
    many = Sessions(STEPS_LIMIT, (0,) * (STEPS_LIMIT - 1))
    assert many.delay(STEPS_LIMIT, 0.5) == 300


def test_durations_are_kept_as_seconds():
    minute = timedelta(minutes=1)
    assert Exponential(base=minute, max=2 * minute) == Exponential(base=60.0, max=120.0)
    assert Delays((minute, 5)) == Delays((60.0, 5.0))
    assert Sessions(within=(minute, 5), base=minute) == Sessions(within=(60.0, 5.0), base=60.0)


@steady
@given(backoffs, retry_numbers, draws, st.integers(0, 10**9))
def test_a_delay_is_a_duration_for_any_retry_of_any_backoff(backoff, n, draw, depth):
    wait = backoff.delay(n, draw, depth)
    assert isfinite(wait)
    assert 0 <= wait <= LONGEST


@pytest.mark.parametrize(
    ("kind", "shape", "n", "depth"),
    [
        (Exponential, {"base": 1e-300, "factor": 2, "max": None}, 10**9, 0),
        (Exponential, {"base": 1e-299, "factor": 2.0, "max": None}, 1026, 0),
        (Exponential, {"base": 1e-5, "factor": 10**30, "max": None}, 10**9, 0),
        (Sessions, {"base": 1e-300, "factor": 1.5}, 3 * 10**9, 0),
        (Adaptive, {"base": 0, "per": 1e-323}, 1, 1),
        (Adaptive, {"base": 1, "factor": 0.5, "per": 1e-300}, 10**4, 10**9),
    ],
)
def test_the_extremes_of_a_curve_are_refused_or_give_a_duration(kind, shape, n, depth):
    with suppress(InvalidError):
        assert 0 <= kind(**shape).delay(n, 0.5, depth) <= LONGEST


@steady
@given(curves(), retry_numbers)
def test_a_raw_delay_is_at_most_max_and_at_most_what_the_factor_gives(curve, n):
    raw = raw_delay(curve, n)
    assert raw <= longest(curve)
    if curve.factor <= 1:
        assert raw <= seconds(curve.base) * (1 + 1e-9)
    else:
        assert raw >= seconds(curve.base) * (1 - 1e-9)


@steady
@given(curves(), st.integers(1, 40))
def test_a_raw_delay_is_base_times_factor_to_the_power_up_to_max(curve, n):
    base = Fraction(seconds(curve.base))
    exact = min(base * Fraction(curve.factor) ** (n - 1), Fraction(longest(curve)))
    assert raw_delay(curve, n) == pytest.approx(float(exact), rel=1e-9)


@steady
@given(curves(), retry_numbers)
def test_a_factor_above_one_never_shortens_the_next_delay(curve, n):
    this, following = raw_delay(curve, n), raw_delay(curve, n + 1)
    if curve.factor >= 1:
        assert this <= following * (1 + 1e-9)
    else:
        assert following <= this * (1 + 1e-9)


def with_jitter(curve: Exponential, jitter: str) -> Exponential:
    return Exponential(curve.base, curve.factor, curve.max, jitter)  # type: ignore[arg-type]


exponentials = curves((Exponential,))


@steady
@given(exponentials, retry_numbers, draws)
def test_no_jitter_keeps_the_raw_delay(curve, n, draw):
    plain = with_jitter(curve, "none")
    assert plain.delay(n, draw) == raw_delay(curve, n)


@steady
@given(exponentials, retry_numbers, draws)
def test_full_jitter_is_between_nothing_and_the_raw_delay(curve, n, draw):
    assert 0 <= with_jitter(curve, "full").delay(n, draw) <= raw_delay(curve, n)


@steady
@given(exponentials, retry_numbers, draws)
def test_decorrelated_jitter_is_between_base_and_the_raw_delay_and_at_most_max(curve, n, draw):
    wait = with_jitter(curve, "decorrelated").delay(n, draw)
    base = seconds(curve.base)
    assert base <= wait <= max(base, raw_delay(curve, n)) * (1 + 1e-12)
    assert wait <= longest(curve)


@steady
@given(curves(), retry_numbers, draws, draws)
def test_a_larger_draw_never_shortens_a_delay(curve: Curve, n, one, other):
    low, high = sorted((one, other))
    assert curve.delay(n, low) <= curve.delay(n, high)


@steady
@given(curves((Adaptive,)), retry_numbers, draws, st.integers(0, 10**9), st.integers(0, 10**9))
def test_more_waiting_work_never_shortens_an_adaptive_delay(curve, n, draw, one, other):
    low, high = sorted((one, other))
    assert curve.delay(n, draw, low) <= curve.delay(n, draw, high)


def test_a_power_too_large_for_a_float_may_still_give_a_delay_that_is_not():
    tiny = Exponential(1e-299, 2.0, None, "none")
    assert tiny.delay(1025, 0.0) == pytest.approx(1e-299 * 2.0**1000 * 2.0**24)
