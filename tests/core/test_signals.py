"""What a task may return or raise to say what should happen next."""

import pytest

from mulligan.core.errors import InvalidError
from mulligan.core.signals import RetryAfter


def test_a_retry_after_pauses_one_limit_or_several():
    assert RetryAfter(5.0).pause == ()
    assert RetryAfter(5.0, pause="openai").pause == ("openai",)
    assert RetryAfter(5.0, pause=["openai", "tenant:a"]).pause == ("openai", "tenant:a")


@pytest.mark.parametrize(
    ("pause", "words"),
    [
        ("", "limit '' has 0 characters; use 1 to 128"),
        (["openai", 7], "limit 7 must be text, not int"),
        (None, "pause None must be the name of a limit, or several"),
        (
            "tenant:*",
            r"limit 'tenant:\*' is a family; pause its names one by one, such as tenant:acme",
        ),
    ],
)
def test_a_retry_after_refuses_what_is_no_name_of_a_limit(pause, words):
    with pytest.raises(InvalidError, match=words):
        RetryAfter(5.0, pause=pause)
