"""Text as every store can keep it."""

import pytest

from mulligan.core.durations import rounded
from mulligan.core.names import clean


@pytest.mark.parametrize(
    ("words", "kept"), [("naïve ☃", "naïve ☃"), ("cut \ud83d off", "cut ? off"), ("a\0b", "ab")]
)
def test_text_keeps_all_that_every_store_can_keep(words, kept):
    assert clean(words) == kept


def test_a_moment_is_kept_to_the_microsecond():
    assert rounded(1000.1234567) == 1000.123457
