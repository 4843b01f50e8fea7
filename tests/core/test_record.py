"""What may be recorded, and what is shown of it."""

import pytest

from mulligan.core.checks import DEPTH_LIMIT
from mulligan.core.errors import InvalidError
from mulligan.core.record import Record, checked_value, shown


def test_a_value_that_is_too_deep_is_refused():
    deep = b"[" * (DEPTH_LIMIT + 1) + b"]" * (DEPTH_LIMIT + 1)
    with pytest.raises(InvalidError, match="the checkpoint"):
        checked_value("the checkpoint", deep)


def test_what_another_program_spoilt_is_left_out():
    records = [Record("step", 1, b"nonsense", "cut"), Record("progress", 2, b"[]")]
    found = shown(records)
    assert (found.steps, found.progress) == ([], None)
