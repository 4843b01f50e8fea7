"""What a newer release, or another program, wrote and this one cannot read."""

import pytest
from msgspec.structs import replace

from mulligan.core.decide import decide, policy_of
from mulligan.core.facts import Facts
from mulligan.core.job import encode
from mulligan.core.outcome import Dead, Done, Failed, Succeeded
from mulligan.core.retry import NOWHERE, read_trail
from tests.core.test_decide import claimed

STRANGE = encode({"task": "ask", "args": [], "retry": {"backoff": {"type": "lunar"}}})


def test_a_failure_under_a_policy_that_cannot_be_read_is_a_dead_letter_that_says_so():
    outcome = decide(replace(claimed(), body=STRANGE), Failed("E", "oops"), Facts(), 0.0)
    assert isinstance(outcome, Dead)
    assert outcome.failure.message == "oops; its retry policy cannot be read"


def test_a_success_under_such_a_policy_is_a_success():
    claim = replace(claimed(), body=STRANGE)
    assert policy_of(STRANGE) is None
    assert decide(claim, Succeeded(b"1"), Facts(), 0.0) == Done(claim.lease, b"1")


@pytest.mark.parametrize("written", ["", "{}", "7", "[", '[["US"],"soon"]'])
def test_a_trail_that_cannot_be_read_is_none(written):
    assert read_trail(written) == NOWHERE
