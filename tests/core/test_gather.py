"""Failures as values: what arrives at a gather that takes them, and what is none."""

import msgspec
import pytest

from mulligan.core.gather import Failure, failure_from, failure_in, failure_value

FAILED = Failure("a", "ValueError", "boom", 3)


def test_a_failure_is_read_as_it_was_written():
    value = failure_value(FAILED)
    assert failure_in(value) == FAILED
    assert failure_from(FAILED) is FAILED


@pytest.mark.parametrize("value", [None, b"1", b'{"a":1}'])
def test_a_result_is_no_failure(value):
    assert failure_in(value) is None


def test_what_begins_as_a_failure_and_is_none_is_a_result():
    value = failure_value(FAILED)
    assert failure_in(value[:-3]) is None
    mark = next(iter(msgspec.json.decode(value)))
    assert failure_from({mark: 1}) is None
    assert failure_from({"other": 1}) is None
    assert failure_from(msgspec.json.decode(value)) == FAILED
