"""Until when a job holds its unique key, and which debounces and throttles are refused."""

from typing import Any

import pytest
from msgspec.structs import replace

from mulligan.core.errors import InvalidError
from mulligan.core.settings import LONGEST_KEEP, Settings
from mulligan.core.unique import (
    check_unique,
    debounced_due,
    holds_key,
    longest_debounce,
    throttled_keep,
    waits_to_start,
)
from tests.core.jobs import WAITING

THROTTLED = replace(WAITING, status="done", unique_until=100.0)
DEBOUNCED = replace(WAITING, debounce_until=100.0)
NOTHING: dict[str, Any] = dict.fromkeys(
    ("key", "debounce", "debounce_max", "unique_for", "expires")
)


def test_a_job_waits_to_start_while_no_attempt_has_come_of_it():
    assert waits_to_start(WAITING)
    for changes in ({"status": "processing"}, {"retry_count": 1}, {"snoozes": 1}, {"replay": 1}):
        assert not waits_to_start(replace(WAITING, **changes))


def test_most_jobs_hold_their_key_until_they_have_ended():
    assert holds_key(WAITING, 0.0)
    assert holds_key(replace(WAITING, status="processing"), 0.0)
    for status in ("done", "failed", "cancelled"):
        assert not holds_key(replace(WAITING, status=status), 0.0)


def test_a_debounced_job_holds_its_key_until_it_first_starts():
    assert holds_key(DEBOUNCED, 0.0)
    assert not holds_key(replace(DEBOUNCED, status="processing"), 0.0)


def test_a_throttled_job_holds_its_key_for_its_time_unless_it_was_cancelled():
    assert holds_key(THROTTLED, 99.9)
    assert not holds_key(THROTTLED, 100.0)
    assert not holds_key(replace(THROTTLED, status="cancelled"), 99.9)


def test_a_debounced_job_is_put_off_to_ten_times_its_debounce_unless_told_otherwise():
    assert (longest_debounce(5.0, None), longest_debounce(5.0, 7.0)) == (50.0, 7.0)
    assert (debounced_due(100.0, 5.0, 104.0), debounced_due(100.0, 5.0, 200.0)) == (104.0, 105.0)


def test_a_throttled_job_is_kept_while_it_holds_its_key():
    usual = Settings().keep_done
    assert throttled_keep(None, 1.0) == usual
    assert throttled_keep(7, 1.0) == 7
    assert throttled_keep(7, 9.5) == 10
    assert throttled_keep(None, 2.0 * LONGEST_KEEP) == LONGEST_KEEP


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"key": "k"},
        {"key": "k", "debounce": 5.0},
        {"key": "k", "debounce": 5.0, "debounce_max": 5.0, "expires": 6.0},
        {"key": "k", "unique_for": 5.0},
        {"expires": 5.0},
    ],
)
def test_what_a_key_can_do_is_taken(given):
    check_unique(**NOTHING | given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"debounce": 5.0}, "debounce 5 needs a unique_key"),
        ({"unique_for": 5.0}, "unique_for 5 needs a unique_key"),
        ({"debounce_max": 50.0}, "debounce_max 50 needs debounce; add debounce=, such as"),
        ({"key": "k", "debounce": 5.0, "unique_for": 9.0}, "frees its key at the first start"),
        ({"key": "k", "debounce": 5.0, "debounce_max": 4.0}, "debounce_max 4 is shorter than"),
        ({"key": "k", "debounce": 5.0, "expires": 50.0}, "debounce_max 50 is not shorter than"),
    ],
)
def test_what_a_key_cannot_do_is_refused(given, words):
    with pytest.raises(InvalidError, match=words):
        check_unique(**NOTHING | given)
