import re
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.core.errors import InvalidError
from mulligan.core.retry import (
    NAMED,
    PRESETS,
    Adaptive,
    Delays,
    Exponential,
    Retry,
    Sessions,
    encode_retry,
    preset,
)
from mulligan.core.settings import Settings
from mulligan.core.written_retry import read_retry
from tests.core.refusal import refused
from tests.core.strategies import retries, steady

CENTURY = "3153600000"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"MaxRetries": 1}, "unknown field `MaxRetries`; did you mean max_retries?"),
        ({"max_retry": 1}, "unknown field `max_retry`; did you mean max_retries?"),
        ({"backoff": {"type": "exponential", "bas": 1}}, "; did you mean base?"),
        ({"backoff": {"type": "delays", "seconds": [1], "qq": 1}}, "unknown field `qq`"),
        ({"max_retries": "1"}, "Expected `int | null`, got `str`"),
        ([], "retry is no policy: Expected `object`"),
    ],
)
def test_a_field_that_no_policy_has_is_refused_with_the_nearest(said, words):
    with pytest.raises(InvalidError, match=re.escape(words)):
        read_retry(said)


@given(retries)
def test_a_written_policy_is_stored_as_one_of_the_code(retry):
    written = read_retry(msgspec.json.decode(encode_retry(retry)))
    stored = msgspec.json.decode(encode_retry(written), type=Retry)
    assert stored == msgspec.json.decode(encode_retry(retry), type=Retry)


def test_a_stored_policy_may_have_fields_of_a_newer_release():
    assert msgspec.json.decode(b'{"max_retries":1,"newer":2}', type=Retry) == Retry(1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Retry(MaxRetries=1), "Retry has no MaxRetries=; did you mean max_retries?"),  # type: ignore[call-arg]
        (lambda: Retry(zzz=1), "Retry has no zzz=; it takes max_retries, backoff, scope, on"),  # type: ignore[call-arg]
        (lambda: Exponential(bas=1), "Exponential has no bas=; did you mean base?"),  # type: ignore[call-arg]
        (lambda: Settings(concurency=5), "Settings has no concurency=; did you mean concurrency?"),  # type: ignore[call-arg]
    ],
)
def test_an_unknown_keyword_is_refused_with_the_nearest(make, words):
    with pytest.raises(InvalidError, match=re.escape(words)):
        make()


def test_other_wrong_calls_are_told_as_python_tells_them():
    with pytest.raises(TypeError, match="Missing required argument 'seconds'"):
        Delays()  # type: ignore[call-arg]


def test_the_presets_are_those_of_the_table():
    assert {
        "default": Retry(5, Exponential(2, 2, 60, "full"), "global"),
        "quick": Retry(3, Exponential(2, 2, 60, "none"), "global"),
        "steep": Retry(5, Exponential(1, 4, None, "none"), "global"),
        "patient": Retry(10, Exponential(5, 2, 1800, "full"), "global"),
        "sessions": Retry(None, Sessions(3, (0, 5), 300, 2, 3600, "none"), "global"),
    } == NAMED
    assert NAMED["default"] == Retry()


def test_a_preset_has_a_name_and_perhaps_a_letter():
    letters = {"P": "quick", "G": "quick", "F": "steep", "M": "patient", "D": "sessions"}
    assert {letter: PRESETS[letter] for letter in letters} == {
        letter: NAMED[name] for letter, name in letters.items()
    }
    assert preset("patient") == NAMED["patient"]
    with refused(
        "retry 'never' is not one of default, quick, steep, patient, sessions, P, G, F, M, D;"
        ' give one of these, or the policy in full, such as {"max_retries": 3}'
    ):
        preset("never")


def test_a_failure_at_max_retries_is_the_last():
    assert [Retry(3).spent(count) for count in range(5)] == [False, False, False, True, True]
    assert Retry(0).spent(0)


@given(st.integers(0, 10**12))
def test_retries_without_end_are_never_spent(count):
    assert not Retry(None).spent(count)


def test_only_adaptive_backoff_needs_the_depth_of_the_queue():
    assert Retry(backoff=Adaptive()).needs_depth
    assert not Retry(backoff=Exponential()).needs_depth
    assert not Retry(backoff=Sessions()).needs_depth
    assert not Retry(backoff=Delays((1,))).needs_depth


@steady
@given(retries)
def test_a_policy_survives_json(retry):
    assert msgspec.json.decode(msgspec.json.encode(retry), type=Retry) == retry


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_survives_json(name):
    assert msgspec.json.decode(msgspec.json.encode(PRESETS[name]), type=Retry) == PRESETS[name]


def test_a_stored_policy_is_held_to_the_same_rules():
    with pytest.raises(msgspec.ValidationError, match=r"^max_retries -1 must be 0 or more"):
        msgspec.json.decode(b'{"max_retries": -1}', type=Retry)


@pytest.mark.parametrize("value", [-1, 2.5, True, "3"])
def test_max_retries_is_a_count(value):
    with refused(f"max_retries {value!r} must be 0 or more; None means without end"):
        Retry(value)


@pytest.mark.parametrize("value", [5, "default", (1, 5), None])
def test_backoff_is_one_of_the_four(value):
    with refused(
        f"backoff {value!r} must be Exponential, Adaptive, Delays or Sessions;"
        " for fixed waits use Delays((1, 5, 30))"
    ):
        Retry(backoff=value)


def test_scope_is_one_of_two_words():
    with refused("scope 'local' is not one of global, region"):
        Retry(scope="local")  # type: ignore[arg-type]


CURVES = [Exponential, Adaptive, Sessions]


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"base": -1}, f"base -1 must be between 0 s and {CENTURY} s"),
        ({"base": float("nan")}, f"base nan must be between 0 s and {CENTURY} s"),
        ({"base": "2"}, "base '2' must be a number of seconds or a timedelta"),
        ({"max": float("inf")}, f"max inf must be between 0 s and {CENTURY} s"),
        ({"max": True}, "max True must be a number of seconds or a timedelta"),
        ({"base": 2, "max": 1}, "max 1 must be at least base 2; raise max="),
        (
            {"base": timedelta(minutes=2), "max": timedelta(minutes=1)},
            "max 60 must be at least base 120; raise max=",
        ),
        ({"factor": 0}, "factor 0 must be above 0; 1 keeps the delay constant"),
        ({"factor": -2.0}, "factor -2.0 must be above 0; 1 keeps the delay constant"),
        ({"factor": float("inf")}, "factor inf must be above 0; 1 keeps the delay constant"),
        ({"factor": float("nan")}, "factor nan must be above 0; 1 keeps the delay constant"),
        ({"jitter": "equal"}, "jitter 'equal' is not one of none, full, decorrelated"),
    ],
)
def test_a_curve_that_makes_no_sense_is_refused(curve, shape, message):
    with refused(message):
        curve(**shape)


@pytest.mark.parametrize("per", [0, -1.0, float("inf"), float("nan")])
def test_adaptive_is_divided_by_something_above_nothing(per):
    with refused(f"per {per!r} must be above 0: depth is divided by it"):
        Adaptive(per=per)


@pytest.mark.parametrize("count", [0, 1001])
def test_delays_are_some_and_not_endless(count):
    with refused(f"delays has {count} entries; give 1 to 1000"):
        Delays((1.0,) * count)


def test_each_of_the_delays_is_a_duration():
    with refused(f"delay -5 must be between 0 s and {CENTURY} s"):
        Delays((1, -5))


@pytest.mark.parametrize("attempts", [0, -1, 1001])
def test_a_session_has_a_sensible_number_of_attempts(attempts):
    with refused(f"attempts {attempts} must be between 1 and 1000"):
        Sessions(attempts=attempts)


def test_a_session_has_a_wait_between_each_two_attempts():
    with refused("within (0, 5, 9) has 3 waits; a session of 3 attempts has 2 between them"):
        Sessions(within=(0, 5, 9))


def test_each_wait_of_a_session_is_a_duration():
    with refused(f"within -5 must be between 0 s and {CENTURY} s"):
        Sessions(within=(0, -5))
