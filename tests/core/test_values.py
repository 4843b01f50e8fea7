"""Names, durations and lanes: the small values that everything else is made of."""

from datetime import timedelta
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.core import errors
from mulligan.core.checks import LONGEST, check_name, check_region, check_seconds, seconds
from mulligan.core.errors import InvalidError, MulliganError
from mulligan.core.lane import Lane, Priority, away_from, priority_of, towards
from tests.core.refusal import refused
from tests.core.strategies import durations


@pytest.mark.parametrize("name", ["a", "x" * 128, "A q/1 (EU)", "größer", "日本", "a\u200db"])
def test_a_name_may_be_any_text_of_up_to_128_characters(name):
    assert check_name("queue", name) == name


@given(st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=128))
def test_a_name_without_control_characters_is_kept_as_it_is(name):
    assert check_name("task", name) == name


@pytest.mark.parametrize("name", ["", "x" * 129])
def test_a_name_has_1_to_128_characters(name):
    with refused(f"queue {name[:40]!r} has {len(name)} characters; use 1 to 128"):
        check_name("queue", name)


@given(
    st.text(max_size=20),
    st.characters(categories=("Cc", "Cs")),
    st.text(max_size=20),
)
def test_a_name_with_a_control_character_is_refused(before, character, after):
    with pytest.raises(InvalidError, match=r"has the control character .*; remove it$"):
        check_name("task", before + character + after)


def test_a_refused_name_names_the_character():
    with refused("region 'US\\n' has the control character '\\n'; remove it"):
        check_name("region", "US\n")


@pytest.mark.parametrize("value", [None, 7, b"queue"])
def test_a_name_is_text(value):
    with refused(f"queue {value!r} must be text, not {type(value).__name__}"):
        check_name("queue", value)


def test_a_star_is_any_region_where_that_makes_sense():
    assert check_region("US") == "US"
    assert check_region("US", anywhere=False) == "US"
    assert check_region("*") == "*"
    with refused("region '*' must not begin with '*', which stands for any region; rename it"):
        check_region("*", anywhere=False)


@pytest.mark.parametrize("name", ["*-US", "*+US", "**"])
def test_no_region_is_named_like_a_scope(name):
    with refused(
        f"region {name!r} must not begin with '*', which stands for any region; rename it"
    ):
        check_region(name)


def test_a_region_is_a_name():
    with refused("region '' has 0 characters; use 1 to 128"):
        check_region("")


@given(durations)
def test_seconds_are_seconds(value):
    assert seconds(value) == check_seconds("delay", value) == value


@given(st.timedeltas(timedelta(0), timedelta(seconds=LONGEST)))
def test_a_timedelta_is_its_seconds(value):
    assert seconds(value) == check_seconds("delay", value) == value.total_seconds()


def test_a_whole_number_of_seconds_becomes_a_float():
    assert isinstance(seconds(5), float)


@pytest.mark.parametrize("value", [True, "5", None, 5j, [5]])
def test_a_duration_is_a_number_or_a_timedelta(value):
    with refused(f"delay {value!r} must be a number of seconds or a timedelta"):
        check_seconds("delay", value)


@pytest.mark.parametrize("value", [-0.001, nan, inf, -inf, LONGEST + 1, timedelta(days=-1)])
def test_a_duration_is_not_negative_and_not_endless(value):
    with refused(f"delay {seconds(value):g} must be between 0 s and 3153600000 s"):
        check_seconds("delay", value)


def test_a_number_too_large_for_a_float_is_refused_like_any_other():
    with pytest.raises(InvalidError, match=r"must be between 0 s and 3153600000 s"):
        check_seconds("delay", 10**400)


def test_a_duration_may_have_a_lower_bound_of_its_own():
    assert check_seconds("timeout", 0.5, least=0.5) == 0.5
    with refused("timeout 0.4 must be between 0.5 s and 3153600000 s"):
        check_seconds("timeout", 0.4, least=0.5)


@pytest.mark.parametrize(
    ("scope", "priority", "label"),
    [
        ("US", Priority.NORMAL, "fresh"),
        ("*", Priority.NORMAL, "fresh"),
        ("US", Priority.RETRY, "region-retry"),
        ("*", Priority.RETRY, "global-retry"),
        ("*-US", Priority.RETRY, "global-retry"),
        ("*+US", Priority.RETRY, "global-retry"),
        ("US", Priority.URGENT, "urgent"),
        ("*", Priority.URGENT, "urgent"),
        ("US", Priority.URGENT_RETRY, "urgent-retry"),
        ("*", Priority.URGENT_RETRY, "urgent-retry"),
    ],
)
def test_a_lane_has_a_label_that_people_read(scope, priority, label):
    assert Lane("questions", scope, priority).label == label
    assert Lane("questions", scope, int(priority)).label == label


def test_a_lane_knows_what_stands_in_it():
    lanes = [Lane("questions", "US", priority) for priority in Priority]
    assert [lane.is_retry for lane in lanes] == [False, True, False, True]
    assert [lane.is_urgent for lane in lanes] == [False, False, True, True]


def test_scopes_of_global_retries_say_who_goes_first():
    assert away_from("US") == "*-US"
    assert towards("ASIA") == "*+ASIA"
    for scope in ("*", away_from("US"), towards("US")):
        assert Lane("questions", scope, Priority.RETRY).is_global
    assert not Lane("questions", "US", Priority.RETRY).is_global


@pytest.mark.parametrize(
    ("error", "also"),
    [
        (errors.InvalidError, ValueError),
        (errors.StoreUnavailableError, errors.StoreError),
        (errors.UnknownJobError, LookupError),
        (errors.JobFailedError, MulliganError),
        (errors.JobCancelledError, MulliganError),
        (errors.ResultTimeoutError, TimeoutError),
    ],
)
def test_every_error_is_caught_by_the_base_and_by_what_python_calls_it(error, also):
    assert issubclass(error, MulliganError)
    assert issubclass(error, also)


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, ("normal", 0, 0.0, "0")), (1, ("retry", 1, 1.0, "1")), (2, ("urgent", 2, 2.0, "2"))],
)
def test_a_priority_is_said_by_its_word_or_its_number(number, words):
    assert {priority_of(word) for word in words} == {Priority(number)}


@pytest.mark.parametrize("said", ["high", 3, -1, 0.5, True, None, [], float("nan")])
def test_another_priority_is_refused_with_those_there_are(said):
    with refused(f"priority {said!r} is not one of normal (0), retry (1), urgent (2)"):
        priority_of(said)
