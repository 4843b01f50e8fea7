"""A refused value: its message names the value, the rule and the remedy, word for word."""

import re

import pytest

from mulligan.core.errors import InvalidError


def refused(message: str) -> pytest.RaisesExc[InvalidError]:
    """The value is refused with exactly this message."""
    return pytest.raises(InvalidError, match=f"^{re.escape(message)}$")
