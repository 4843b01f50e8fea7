import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mulligan.core.budget import Budget
from mulligan.core.errors import InvalidError
from mulligan.core.fetch import (
    Balanced,
    Capped,
    Fifo,
    RetryFirst,
    Separate,
    Weighted,
    parse_policy,
    policy_text,
)
from tests.core.refusal import refused
from tests.core.strategies import policies


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("fifo", Fifo()),
        ("retry-first", RetryFirst()),
        ("separate", Separate()),
        (" balanced ", Balanced()),
        ("weighted(retry=0.2)", Weighted(0.2)),
        ("weighted(retry = 0.2)", Weighted(0.2)),
        ("weighted(.2)", Weighted(0.2)),
        ("capped(4)", Capped(4)),
        ("capped(limit=4)", Capped(4)),
    ],
)
def test_a_policy_is_read_as_people_write_it(text, policy):
    assert parse_policy(text) == policy


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (Fifo(), "fifo"),
        (RetryFirst(), "retry-first"),
        (Separate(), "separate"),
        (Balanced(), "balanced"),
        (Weighted(), "weighted(retry=0.2)"),
        (Capped(4), "capped(4)"),
    ],
)
def test_a_policy_is_printed_as_it_is_written(policy, text):
    assert policy_text(policy) == text


@given(policies)
@example(Weighted(0.00001))
@example(Weighted(0.999999))
@example(Weighted(0.123457))
def test_a_printed_policy_is_read_back_as_itself(policy):
    assert parse_policy(policy_text(policy)) == policy


@pytest.mark.parametrize(
    "text",
    [
        "",
        "lifo",
        "Balanced",
        "balanced()",
        "weighted",
        "weighted()",
        "weighted(0.2.1)",
        "weighted(-0.2)",
        "capped",
        "capped(4.5)",
        "capped(four)",
        "capped(4) ,",
    ],
)
def test_what_is_no_policy_is_refused(text):
    with refused(
        f"fetch policy {text!r} is not one of fifo, retry-first, separate, balanced,"
        " weighted(retry=0.2), capped(4)"
    ):
        parse_policy(text)


@pytest.mark.parametrize("text", ["weighted(fresh=0.8)", "capped(retry=4)"])
def test_a_number_under_another_name_is_not_taken_for_the_policys_own(text):
    with pytest.raises(InvalidError, match="is not one of"):
        parse_policy(text)


@pytest.mark.parametrize("share", [0, 1, -0.2, 1.5, float("nan")])
def test_a_share_starves_neither_side(share):
    with refused(
        f"retry share {share!r} must be between 0 and 1;"
        " for all or nothing use retry-first or separate"
    ):
        Weighted(share)


@pytest.mark.parametrize("share", [1e-7, 4.9e-7, 1 - 1e-7])
def test_a_share_too_small_to_count_is_refused(share):
    """The carry counts millionths: a share that rounds to none or all of them starves a side."""
    with pytest.raises(InvalidError, match=r"^retry share "):
        Weighted(share)


def test_a_refused_number_is_refused_when_it_is_read_too():
    with refused(
        "retry share 1.5 must be between 0 and 1; for all or nothing use retry-first or separate"
    ):
        parse_policy("weighted(1.5)")
    with refused("cap 0 must be at least 1; to stop all work pause the queue"):
        parse_policy("capped(0)")


@given(st.integers(max_value=0))
def test_a_cap_lets_some_retry_run(limit):
    with refused(f"cap {limit} must be at least 1; to stop all work pause the queue"):
        Capped(limit)


def test_a_ratio_looks_at_a_minute_and_takes_no_other_window():
    with refused("budget per 10 does not go with ratio, which looks at a minute"):
        Budget(ratio=0.2, per=10)
