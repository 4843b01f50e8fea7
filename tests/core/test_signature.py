"""Signatures: what they cover, who can make them, and how keys are changed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mulligan.core.decide import decide, policy_of
from mulligan.core.errors import InvalidError
from mulligan.core.facts import Facts
from mulligan.core.job import Enqueued, NewJob, decode_call, encode
from mulligan.core.outcome import Dead, Lost
from mulligan.core.retry import Retry
from mulligan.core.signature import Keys, name_of, read_keys
from tests.core.test_decide import claimed

OLD, NEW = "o" * 32, "n" * 32
BODY = encode({"task": "pay", "args": [1], "kwargs": {}, "retry": Retry(3), "on_dead": "tell"})
JOB = NewJob("j", "default", "pay", BODY)


def refusal(keys: Keys, job: NewJob) -> str | None:
    return keys.refusal(job.id, job.task, job.body)


def test_a_signed_job_is_good_and_reads_as_before():
    job = Keys([OLD]).sign(JOB)
    assert refusal(Keys([OLD]), job) is None
    assert decode_call(job.body) == decode_call(JOB.body)
    assert policy_of(job.body) == policy_of(JOB.body)
    assert replace(job, body=JOB.body) == JOB


def test_a_job_without_a_signature_is_refused():
    assert "the job is not signed" in str(refusal(Keys([OLD]), JOB))


@pytest.mark.parametrize(
    "change",
    [{"id": "k"}, {"task": "refund"}, {"id": "jp", "task": "ay"}],
)
def test_a_signature_fits_one_id_and_one_task(change):
    job = replace(Keys([OLD]).sign(JOB), **change)
    assert "does not fit" in str(refusal(Keys([OLD]), job))


@given(at=st.integers(0, len(BODY)), bit=st.integers(0, 7))
def test_a_flipped_bit_is_noticed(at, bit):
    body = bytearray(Keys([OLD]).sign(JOB).body)
    body[at] ^= 1 << bit
    assert refusal(Keys([OLD]), replace(JOB, body=bytes(body))) is not None


def test_a_field_after_the_signature_is_noticed():
    body = Keys([OLD]).sign(JOB).body[:-1] + b',"args":[1000000]}'
    assert "not signed" in str(refusal(Keys([OLD]), replace(JOB, body=body)))
    body = Keys([OLD]).sign(JOB).body + b"\n"
    assert "not signed" in str(refusal(Keys([OLD]), replace(JOB, body=body)))


def test_the_first_key_signs_and_all_of_them_are_good():
    both = Keys([NEW, OLD])
    assert refusal(both, Keys([OLD]).sign(JOB)) is None
    assert refusal(Keys([NEW]), both.sign(JOB)) is None
    unknown = str(refusal(Keys([OLD]), both.sign(JOB)))
    assert f"signed with key {name_of(NEW.encode())}" in unknown
    assert "add that key to signing_keys and replay" in unknown


def test_a_claim_that_is_not_signed_becomes_a_dead_letter_that_nothing_follows_from():
    claim = replace(claimed(), body=BODY)
    checked = Keys([OLD]).checked(claim)
    assert decode_call(checked.body).refused is not None
    outcome = decide(checked, Lost(), Facts(), 0.0)
    assert isinstance(outcome, Dead)
    assert outcome.next == ()


def test_a_claim_that_is_signed_is_left_alone():
    job = Keys([OLD]).sign(JOB)
    claim = replace(claimed(), id=job.id, task=job.task, body=job.body)
    assert Keys([OLD]).checked(claim) is claim


@pytest.mark.parametrize(
    ("secrets", "words"),
    [
        (OLD, "must be a list of keys"),
        (OLD.encode(), "must be a list of keys"),
        ([], "has no key"),
        ([OLD, "short-and-secret"], "signing key 2 has 16 bytes; use at least 32"),
        ([OLD, 7], "signing key 2 must be text, not int"),
    ],
)
def test_keys_with_a_mistake_are_refused_without_showing_one(secrets, words):
    with pytest.raises(InvalidError, match=words) as refused:
        Keys(secrets)
    assert OLD not in str(refused.value)
    assert "short-and-secret" not in str(refused.value)


def test_keys_never_show_themselves():
    keys = Keys([OLD, NEW.encode()])
    assert OLD not in repr(keys)
    assert repr(keys) == f"<signing keys {name_of(OLD.encode())}, {name_of(NEW.encode())}>"


def test_keys_are_read_from_one_line():
    assert read_keys(f" {OLD} ,{NEW},, ") == [OLD, NEW]
    assert read_keys("") == []


def test_each_of_many_jobs_is_signed():
    keys = Keys([OLD])
    assert keys.sign_all([JOB, replace(JOB, id="k")]) == (
        keys.sign(JOB),
        keys.sign(replace(JOB, id="k")),
    )


def debounced(name: str) -> NewJob:
    return replace(JOB, id=name, unique_key="k", debounce_max=60.0)


def test_a_debounced_call_is_good_for_the_job_that_takes_it_over_and_for_no_other():
    keys = Keys([OLD])
    alone, taken = keys.sign(debounced("b")), keys.sign(debounced("b"), "a")
    assert (alone.debounces, taken.debounces) == ("b", "a")
    assert [refusal(keys, replace(alone, id=name)) is None for name in "abc"] == [
        False,
        True,
        False,
    ]
    assert [refusal(keys, replace(taken, id=name)) is None for name in "abc"] == [True, True, False]
    assert keys.sign(JOB).debounces is None


def test_a_debounced_call_is_sent_until_its_holder_was_signed_for():
    keys = Keys([OLD])
    jobs = [debounced("b"), JOB, debounced("c")]
    sending = keys.sending(jobs)
    assert next(sending) == keys.sign_all(jobs)
    rest = [Enqueued("j", created=False), Enqueued("c", created=True)]
    answers = [Enqueued("a", created=False), *rest]
    assert sending.send(answers) == [keys.sign(jobs[0], "a")]
    again = sending.send([Enqueued("z", created=False)])
    assert again == [keys.sign(jobs[0], "z")], "a had started"
    with pytest.raises(StopIteration) as end:
        sending.send([Enqueued("b", created=True)])
    assert end.value.value == [Enqueued("b", created=True), *rest]


def test_a_key_that_is_no_text_may_come_from_the_environment_as_it_is():
    key = b"\xff" * 32
    assert refusal(Keys([key]), Keys([key.decode("utf-8", "surrogateescape")]).sign(JOB)) is None


def test_an_id_that_is_no_proper_text_is_signed_like_any_other():
    keys, job = Keys([OLD]), replace(JOB, id="cut \ud83d off")
    assert refusal(keys, keys.sign(job)) is None
