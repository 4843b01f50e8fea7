"""Signatures: what they cover, who can make them, and how keys are changed."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mulligan.core.decide import decide, policy_of
from mulligan.core.errors import InvalidError
from mulligan.core.facts import Facts
from mulligan.core.gather import Failure, failure_value
from mulligan.core.job import (
    TOKENS_PER_LIFE,
    Enqueued,
    Lease,
    NewJob,
    decode_call,
    encode,
)
from mulligan.core.outcome import Dead, Done, Lost, Succeeded
from mulligan.core.record import Record, Recording, adopted_records, stamped
from mulligan.core.retry import Retry
from mulligan.core.signals import Fail
from mulligan.core.signature import SEAL_LENGTH, Keys, name_of, read_keys
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


# -- seals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [b"null", b"[1]", b'"a b"', b'{"a":{}}', b"7"])
def test_a_sealed_value_is_the_same_json(value):
    sealed = Keys([OLD]).seal(value, "here")
    assert len(sealed) == len(value) + SEAL_LENGTH
    assert msgspec.json.decode(sealed) == msgspec.json.decode(value)


def test_a_seal_is_good_for_one_value_and_one_place():
    keys = Keys([OLD])
    sealed = keys.seal(b"[1]", "a", "bc")
    assert keys.is_sealed(sealed, "a", "bc")
    assert Keys([NEW, OLD]).is_sealed(sealed, "a", "bc")
    assert not Keys([NEW]).is_sealed(sealed, "a", "bc")
    assert not keys.is_sealed(sealed, "ab", "c")
    assert not keys.is_sealed(sealed.replace(b"1", b"2"), "a", "bc")
    assert not keys.is_sealed(sealed + b" ", "a", "bc")
    for unsealed in (None, b"", b"[1]", b"[1]" + b" " * SEAL_LENGTH):
        assert not keys.is_sealed(unsealed, "a", "bc")


def recorded(*records: Record, job: str = "j", token: int = 5) -> list[Record]:
    """The records as a process with the old key stores them."""
    made = Keys([OLD]).seal_recording(Recording(Lease(job, token), records))
    return [stamped(each, token, 0.0) for each in made.records]


STEP, CHECKPOINT = Record("step", 1, b'"DE-1"', "account"), Record("checkpoint", 2, b"7")


def test_steps_and_checkpoints_are_sealed_and_what_people_read_is_not():
    people = [Record("log", 3, b'"paid"'), Record("progress", 4, b'{"done":1}')]
    step, checkpoint, *others = recorded(STEP, CHECKPOINT, *people)
    assert [each.value for each in others] == [each.value for each in people]
    Keys([OLD]).check_records("j", [step, checkpoint, *others])
    for moved in adopted_records([step, checkpoint], 5, 7 * TOKENS_PER_LIFE + 5):
        Keys([OLD]).check_records("j", [moved])


@pytest.mark.parametrize(
    "change",
    [
        {"value": b'"XX-2"'},
        {"value": None},
        {"name": "other"},
        {"kind": "checkpoint"},
        {"token": 6},
    ],
)
def test_a_record_is_good_for_one_name_and_one_attempt(change):
    [step] = recorded(STEP)
    with pytest.raises(Fail, match=r"of job j is not what .* find out who else") as refused:
        Keys([OLD]).check_records("j", [replace(step, **change)])
    assert refused.value.code == "signature"


def test_a_record_is_good_for_one_job():
    [step] = recorded(STEP)
    with pytest.raises(Fail, match="the result of step 'account' of job k"):
        Keys([OLD]).check_records("k", [step])


ARRIVING = replace(JOB, gather="g", gather_index=3)


def done_with(value: bytes | None, job: NewJob = ARRIVING) -> Done:
    """The outcome of a signed job that returned this."""
    claim = replace(claimed(), id=job.id, body=Keys([OLD]).sign(job).body)
    outcome = decide(claim, Succeeded(value), Facts(), 0.0)
    assert isinstance(outcome, Done)
    return outcome


@pytest.mark.parametrize("value", [b"7", None])
def test_a_result_is_sealed_for_where_it_arrives(value):
    keys, outcome = Keys([OLD]), done_with(value)
    assert outcome.arrives == ("g", 3)
    sealed = keys.seal_arrival(outcome).result
    keys.check_arrivals("g", {3: sealed})
    for job, index in (("g", 2), ("h", 3)):
        with pytest.raises(Fail, match=f"result {index} that job {job} awaited is not what"):
            keys.check_arrivals(job, {index: sealed})


def test_a_job_that_nobody_awaits_keeps_its_result_as_it_is():
    assert done_with(b"7", JOB).arrives is None
    assert Keys([OLD]).seal_arrival(done_with(b"7", JOB)) == done_with(b"7", JOB)
    handing_on = replace(done_with(b"7"), hands_on=True)
    assert Keys([OLD]).seal_arrival(handing_on) is handing_on


def test_where_a_followed_job_arrives_is_known_too():
    sink = encode({"task": "pay", "args": [1], "sink": {"task": "save"}})
    assert done_with(b"7", replace(ARRIVING, body=sink)).arrives == ("g", 3)


def test_a_job_cannot_be_made_to_arrive_elsewhere():
    keys, job = Keys([OLD]), Keys([OLD]).sign(ARRIVING)
    body = job.body.replace(b'"arrives":["g",3]', b'"arrives":["g",4]')
    assert refusal(keys, job) is None
    assert "does not fit" in str(refusal(keys, replace(job, body=body)))


def test_failures_arrive_without_a_seal_because_stores_write_them():
    failure = failure_value(Failure("m", "ValueError", "no", 1))
    Keys([OLD]).check_arrivals("g", {0: failure, -2: failure})
    with pytest.raises(Fail, match="result 0"):
        Keys([OLD]).check_arrivals("g", {0: b"7"})
    with pytest.raises(Fail, match="result 0"):
        Keys([OLD]).check_arrivals("g", {0: None})
