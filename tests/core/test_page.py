"""Cursors of pages that are numbers."""

import pytest

from mulligan.core.errors import InvalidError
from mulligan.core.page import LONGEST_CURSOR, cursor_number


@pytest.mark.parametrize("text", ["0", "17", "9" * LONGEST_CURSOR])
def test_a_page_goes_on_where_the_last_one_ended(text):
    assert cursor_number(text) == int(text)


@pytest.mark.parametrize("text", ["", "-1", "1.5", "x", "\u0661", "9" * (LONGEST_CURSOR + 1)])
def test_what_is_not_where_a_page_ended_is_refused(text):
    with pytest.raises(InvalidError, match=r"is not where a page ended; leave it out"):
        cursor_number(text)
