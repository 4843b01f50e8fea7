"""What a task may return or raise to say what should happen next."""

import pytest

from mulligan.core.errors import InvalidError
from mulligan.core.signals import RetryAfter


def test_a_retry_after_pauses_one_limit_or_several():
    assert RetryAfter(5.0).pause == ()
    assert RetryAfter(5.0, pause="openai").pause == ("openai",)
    assert RetryAfter(5.0, pause=["openai", "tenant:a"]).pause == ("openai", "tenant:a")


def test_a_retry_after_refuses_what_is_no_name_of_a_limit():
    with pytest.raises(InvalidError, match="pause ''"):
        RetryAfter(5.0, pause="")
