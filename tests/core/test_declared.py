"""What a task declares reaches jobs that no app has made, and no others."""

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from mulligan.core.decide import decide, policy_of
from mulligan.core.declared import Declared, completed, limited
from mulligan.core.facts import Facts
from mulligan.core.job import decode_call, decode_policy, encode
from mulligan.core.outcome import Again, Dead, Done, Failed, Succeeded
from mulligan.core.retry import PRESETS, Retry
from mulligan.core.stage import Stage
from tests.core.test_decide import claimed

DECLARED = Declared(Raw(encode(Retry(0))), 7.0, Stage("mourn"), Stage("keep"), gated=True)
CALL = {"task": "ask", "args": [1], "kwargs": {}}


def claim_of(body):
    return claimed(body=body if isinstance(body, bytes) else encode(body))


def test_a_job_of_another_program_gets_all_that_its_task_declares():
    claim = completed(claim_of(CALL | {"given": []}), DECLARED)
    assert decode_call(claim.body).timeout == 7.0
    assert decode_policy(claim.body).retry == Retry(0)
    assert msgspec.json.decode(claim.body)["gated"] is True
    done = decide(claim, Succeeded(b"1"), Facts(), 0.0)
    assert isinstance(done, Done)
    assert [job.task for job in done.next] == ["keep"]
    dead = decide(claim, Failed("X", "x"), Facts(), 0.0)
    assert isinstance(dead, Dead)
    assert [job.task for job in dead.next] == ["mourn"]


def test_what_its_producer_gave_is_kept():
    body = CALL | {"retry": Retry(3), "timeout": 2.0, "given": ["retry", "timeout"]}
    claim = completed(claim_of(body), DECLARED)
    assert decode_call(claim.body).timeout == 2.0
    assert decode_policy(claim.body).retry == Retry(3)
    assert decode_policy(claim.body).on_dead == Stage("mourn")


def test_a_policy_that_a_door_assumed_gives_way_to_a_declared_one_only():
    body = CALL | {"retry": Retry(10), "given": []}
    assert decode_policy(completed(claim_of(body), DECLARED).body).retry == Retry(0)
    assert decode_policy(completed(claim_of(body), Declared()).body).retry == Retry(10)


@pytest.mark.parametrize(
    ("given", "declared", "named"),
    [
        (["id"], DECLARED, True),
        (["id"], Declared(on_dead=Stage("mourn")), True),
        (["id"], Declared(), False),
        ([], DECLARED, False),
    ],
)
def test_what_follows_from_an_id_that_may_come_again_is_named_after_its_life(
    given, declared, named
):
    claim = completed(claim_of(CALL | {"given": given}), declared)
    assert decode_policy(claim.body).named is named


TILL = Declared(limits='{"till":3}', fairness_key="acme")


def test_a_job_of_another_program_comes_under_the_limits_of_its_task_once():
    claim = claim_of(CALL | {"given": []})
    outcome = limited(claim, TILL)
    assert outcome is not None
    assert outcome.lease == claim.lease
    assert (outcome.limits, outcome.fairness_key) == ('{"till":3}', "acme")
    assert limited(replace(claim, trail=outcome.trail), TILL) is None
    failed = decide(replace(claim, trail=outcome.trail), Failed("X", "x"), Facts(), 0.0)
    assert isinstance(failed, Again)
    assert limited(replace(claim, trail=failed.trail), TILL) is None


def test_a_job_that_names_its_limits_or_needs_none_gets_no_others():
    assert limited(claim_of(CALL | {"given": ["limits"]}), TILL) is None
    assert limited(claim_of(CALL | {"given": []}), Declared()) is None
    assert limited(claim_of(CALL), TILL) is None


@pytest.mark.parametrize(
    "declared", [Declared(limits='{"till":1}'), Declared(fairness_key="customer")]
)
def test_a_task_that_declares_only_limits_or_only_a_fairness_key_gives_it_to_the_job(declared):
    outcome = limited(claim_of(CALL | {"given": []}), declared)
    assert outcome is not None
    assert (outcome.limits, outcome.fairness_key) == (declared.limits, declared.fairness_key)


@pytest.mark.parametrize(
    "body",
    [
        CALL,
        CALL | {"args": [{"given": []}]},
        CALL | {"given": 5},
        b'{"given": [}',
    ],
    ids=["of an app", "the word in an argument", "no list", "no JSON"],
)
def test_any_other_body_is_left_as_it_is(body):
    claim = claim_of(body)
    assert completed(claim, DECLARED) is claim


def test_a_body_may_name_a_preset_and_one_that_there_is_not_cannot_be_read():
    assert decode_policy(encode({"retry": "patient"})).retry == PRESETS["patient"]
    assert policy_of(encode({"retry": "never"})) is None
