"""Ticks: all processes agree on them, and each has one time."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.core.errors import InvalidError
from mulligan.core.timing import Cron, Every, Timing, said_by, timing_of
from tests.core.refusal import refused
from tests.core.strategies import steady

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC).timestamp()


def written(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


moments = st.floats(0, 4e9)
timings: st.SearchStrategy[Timing] = st.one_of(
    st.floats(1, 1e7).map(Every),
    st.sampled_from(
        [
            Cron("*/5 * * * *"),
            Cron("0 2 * * 1-5", "Europe/Berlin"),
            Cron("30 2 * * *", "America/New_York"),
            Cron("0 0 29 2 *"),
        ]
    ),
)


@steady
@given(timings, moments)
def test_a_moment_lies_between_the_last_tick_and_the_next(schedule, moment):
    assert schedule.last(moment) <= moment < schedule.after(moment)


@steady
@given(timings, moments)
def test_a_tick_has_one_time_from_whatever_moment_it_is_asked_for(schedule, moment):
    tick = schedule.after(moment)
    assert schedule.last(tick) == tick
    assert schedule.after(schedule.last(moment)) == tick
    assert schedule.last(schedule.after(tick) - 1e-3) == tick


def test_every_counts_from_1970():
    hourly = Every(3600)
    assert hourly.last(NOON + 1) == NOON
    assert hourly.after(NOON) == NOON + 3600


def test_every_takes_a_timedelta_and_means_the_same_by_it():
    assert Every(timedelta(minutes=5)).words == Every(300).words == "every 300.0"


@pytest.mark.parametrize("period", [0, 0.5, -1])
def test_every_is_at_least_a_second(period):
    with pytest.raises(InvalidError, match=r"every .* must be between 1 s and"):
        Every(period)


def test_cron_ticks_on_the_minute():
    cron = Cron("*/5 * * * *")
    assert cron.after(NOON) == NOON + 300
    assert cron.after(NOON - 0.5) == NOON
    assert cron.last(NOON) == NOON
    assert cron.last(NOON - 0.5) == NOON - 300
    assert cron.words == "cron */5 * * * * UTC"


def test_cron_may_count_seconds_with_a_sixth_field_in_front():
    assert Cron("*/10 * * * * *").after(NOON) == NOON + 10


def test_cron_follows_the_clocks_of_its_time_zone():
    daily = Cron("0 9 * * *", "Europe/Berlin")
    saturday = datetime(2026, 3, 28, 0, 0, tzinfo=UTC).timestamp()
    winter = daily.after(saturday)
    summer = daily.after(winter)
    assert (written(winter), written(summer)) == (
        "2026-03-28T08:00:00+00:00",
        "2026-03-29T07:00:00+00:00",
    )


def test_a_time_that_the_clocks_skip_ticks_once_and_one_that_they_repeat_too():
    nightly = Cron("30 2 * * *", "Europe/Berlin")

    def ticks(start: datetime) -> list[str]:
        first = nightly.after(start.timestamp())
        return [written(first), written(nightly.after(first))]

    assert ticks(datetime(2026, 3, 28, 12, tzinfo=UTC)) == [
        "2026-03-29T01:00:00+00:00",
        "2026-03-30T00:30:00+00:00",
    ]
    assert ticks(datetime(2026, 10, 24, 12, tzinfo=UTC)) == [
        "2026-10-25T00:30:00+00:00",
        "2026-10-26T01:30:00+00:00",
    ]


def test_in_an_hour_that_the_clocks_show_twice_the_tick_of_the_first_time_is_over():
    nightly = Cron("30 2 * * *", "Europe/Berlin")
    second_time = datetime(2026, 10, 25, 1, 10, tzinfo=UTC).timestamp()  # 02:10 once more
    assert written(nightly.last(second_time)) == "2026-10-25T00:30:00+00:00"
    assert written(nightly.after(second_time)) == "2026-10-26T01:30:00+00:00"


AUTUMN = datetime(2026, 10, 25, 1, 0, tzinfo=UTC).timestamp()  # 03:00 becomes 02:00 in Berlin


@steady
@given(
    st.sampled_from(["* * * * *", "*/7 2,3 * * *", "59 1 * * *", "0 2 * * *", "30 2 * * *"]),
    st.floats(AUTUMN - 10_000, AUTUMN + 10_000),
)
def test_a_moment_lies_between_two_ticks_also_while_clocks_are_put_back(expression, moment):
    cron = Cron(expression, "Europe/Berlin")
    assert cron.last(moment) <= moment < cron.after(moment)
    assert cron.after(cron.last(moment)) == cron.after(moment)
    assert cron.last(cron.after(moment)) == cron.after(moment)


def test_what_is_no_cron_expression_is_refused():
    with refused(
        "cron 'soon' cannot be read (Wrong number of fields);"
        " write five fields such as '*/5 * * * *'"
    ):
        Cron("soon")
    with pytest.raises(InvalidError, match="cannot be read"):
        Cron("0 0 31 4 *")
    with pytest.raises(InvalidError, match="cron 5 cannot be read"):
        Cron(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("zone", ["Mars/Base", "", "../etc/passwd"])
def test_an_unknown_time_zone_is_refused(zone):
    with refused(f"timezone {zone!r} is not known; use a name such as Europe/Berlin"):
        Cron("0 9 * * *", zone)


@pytest.mark.parametrize(
    ("cron", "every", "timezone", "rule"),
    [
        ("0 9 * * *", 60.0, None, "cron '0 9 \\* \\* \\*' and every 60.0: give one of them"),
        (None, 60.0, "Europe/Berlin", "timezone 'Europe/Berlin' goes with cron="),
    ],
)
def test_words_of_a_timing_that_do_not_go_together_are_refused(cron, every, timezone, rule):
    with pytest.raises(InvalidError, match=rule):
        timing_of(cron, every, timezone)


@pytest.mark.parametrize("words", [("0 9 * * *", None, "Europe/Berlin"), (None, 300.0, None)])
def test_a_timing_says_the_words_that_made_it(words):
    timing = timing_of(*words)
    assert timing is not None
    assert said_by(timing) == dict(zip(("cron", "every", "timezone"), words, strict=True))
