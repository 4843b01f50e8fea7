"""Text as every store can keep it, and how deeply JSON is nested, told from its text."""

import pytest

from mulligan.core.checks import (
    DEPTH_LIMIT,
    all_finite,
    check_depth,
    check_region,
    clean,
    is_too_deep,
    rounded,
)
from mulligan.core.errors import InvalidError
from tests.core.refusal import refused
from tests.core.test_redaction import seconds


@pytest.mark.parametrize(
    ("words", "kept"), [("naïve ☃", "naïve ☃"), ("cut \ud83d off", "cut ? off"), ("a\0b", "ab")]
)
def test_text_keeps_all_that_every_store_can_keep(words, kept):
    assert clean(words) == kept


def test_a_moment_is_kept_to_the_microsecond():
    assert rounded(1000.1234567) == 1000.123457


def lists(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def objects(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


@pytest.mark.parametrize("nested", [lists, objects])
def test_as_many_levels_as_the_limit_are_taken_and_not_one_more(nested):
    assert not is_too_deep(nested(DEPTH_LIMIT))
    assert is_too_deep(nested(DEPTH_LIMIT + 1))
    assert not is_too_deep(nested(DEPTH_LIMIT + 3), around=3)
    assert is_too_deep(nested(DEPTH_LIMIT + 4), around=3)


def test_what_is_wide_is_not_deep():
    assert not is_too_deep(b"[" + b"[],{}," * 10_000 + b"[]]")


@pytest.mark.parametrize("text", [rb'"%s"', rb'"\"%s"', rb'"\\\"%s\\"', rb'"\u005b%s\n"'])
def test_brackets_in_text_are_no_levels(text):
    assert not is_too_deep(b"[" + text.replace(b"%s", b"[{" * 1000) + b"]")
    assert is_too_deep(b"[" + text.replace(b"%s", b"]}" * 1000) + b"," + lists(DEPTH_LIMIT) + b"]")


def test_what_is_no_json_has_a_depth_too():
    assert is_too_deep(b"[" * 100_000)
    assert not is_too_deep(b"]" * 1000 + b"[" * DEPTH_LIMIT)
    assert not is_too_deep(b'"' + b"[" * 1000 + b'"')


def test_a_string_that_does_not_end_is_looked_at_once():
    short, long = (b"[" * 300 + b'"' + b'\\"' * quotes for quotes in (4_000, 16_000))
    # by the square it would be sixteen times as long
    assert seconds(is_too_deep, long) < 10 * seconds(is_too_deep, short) + 0.005


def test_the_refusal_names_the_value_the_rule_and_the_remedy():
    with pytest.raises(InvalidError, match=r"an answer is nested more than 200 levels.*flatten it"):
        check_depth("an answer", lists(201))
    check_depth("an answer", lists(200))


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: [1, x, 2], lambda x: {"a": {"b": (x,)}}])
def test_a_number_that_is_not_finite_is_found_wherever_it_is(wrap):
    assert all_finite(wrap(1.5))
    assert all_finite(wrap("inf"))
    assert not all_finite(wrap(float("inf")))
    assert not all_finite(wrap(float("nan")))


@pytest.mark.parametrize("name", ["=", "=*", "==US"])
def test_a_pin_names_a_region(name):
    with refused(f"region {name!r} pins a job to no region; name one after '=', such as =US"):
        check_region(name)


def test_a_worker_has_no_pinned_region():
    assert check_region("=US") == "=US"
    with refused("region '=US' must not begin with '=', which marks pinned jobs; rename it"):
        check_region("=US", anywhere=False)
