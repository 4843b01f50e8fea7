"""Signatures: who can write to the store can neither forge nor change a signed job.

A signature covers a job's id, its task and its body. It travels as the last field of the body,
`"signed":"KEY:MAC"`, where KEY names the key and MAC is the HMAC-SHA256 of what it covers. A call
that a debounced job may take over is signed for that job's id as well: `"signed":"KEY:MAC:MAC"`.

Values that a later attempt or a gathering job is given have a seal: 64 characters of white space
after the JSON, two bits each, which are the first half of an HMAC-SHA256. So they remain the same
JSON to every reader. A seal covers the value and where it belongs: the job, name and attempt of a
record, or the gathering job and index of an arrival.
"""

import hashlib
import hmac
import re
from collections.abc import Generator, Iterable, Mapping, Sequence

from msgspec.structs import replace

from mulligan.core.errors import InvalidError
from mulligan.core.gather import failure_in
from mulligan.core.job import TOKENS_PER_LIFE, Claim, Enqueued, NewJob, encode
from mulligan.core.outcome import Done
from mulligan.core.record import Record, Recording, RecordKind
from mulligan.core.retry import Retry
from mulligan.core.signals import BadSignature

SHORTEST = 32
# What a later attempt is given. Progress and log lines are for people.
SEALED: tuple[RecordKind, ...] = ("step", "checkpoint")
VERSION = b"mulligan 1\n"
SEAL_VERSION = b"mulligan seal 1\n"
SEAL_BYTES = 16
SYMBOLS = b" \t\n\r"
# Four symbols for each byte.
SPELLED = [bytes(SYMBOLS[byte >> shift & 3] for shift in (6, 4, 2, 0)) for byte in range(256)]
SEAL_LENGTH = 4 * SEAL_BYTES
SIGNATURE = re.compile(rb',"signed":"([0-9a-f]{8}):([0-9a-f]{64}(?::[0-9a-f]{64})?)"}\Z')


class Keys:
    """Signing keys. The first one signs; a signature by any of them is good."""

    def __init__(self, secrets: Sequence[str | bytes]) -> None:
        if isinstance(secrets, str | bytes):
            raise InvalidError("signing_keys must be a list of keys; for one key give [key]")
        checked = [check_key(index, secret) for index, secret in enumerate(secrets, 1)]
        if not checked:
            raise InvalidError("signing_keys has no key; leave it out to sign nothing")
        self._first = name_of(checked[0])
        self._by_name = {name_of(key): key for key in checked}

    def __repr__(self) -> str:
        return f"<signing keys {', '.join(self._by_name)}>"

    def sign(self, job: NewJob, holder: str | None = None) -> NewJob:
        """The job, signed; afterwards only when and where it runs may change.

        The call of a debounced job can be taken over by `holder` alone, for which it is signed too.
        """
        if job.gather is not None:
            arrives = encode([job.gather, job.gather_index])
            job = replace(job, body=b'%b,"arrives":%b}' % (job.body[:-1], arrives))
        name = self._first
        ids = (job.id,) if holder is None else (job.id, holder)
        macs = ":".join(mac_of(self._by_name[name], each, job.task, job.body) for each in ids)
        body = b'%b,"signed":"%b:%b"}' % (job.body[:-1], name.encode(), macs.encode())
        if job.debounce_max is None:
            return replace(job, body=body)
        return replace(job, body=body, debounces=ids[-1])

    def sign_all(self, jobs: Iterable[NewJob]) -> tuple[NewJob, ...]:
        """The jobs, each signed."""
        return tuple(map(self.sign, jobs))

    def sending(
        self, jobs: Sequence[NewJob]
    ) -> Generator[Sequence[NewJob], list[Enqueued], list[Enqueued]]:
        """Yield signed jobs to enqueue, take the answers, and return those of all jobs.

        Which job holds the key of a debounced one is only known from the answer. A call that its
        holder was not signed for is signed for it and sent again, until it is taken over or stored.
        """
        answers = list((yield self.sign_all(jobs)))
        holders = [job.id for job in jobs]
        while missed := [
            at
            for at, job in enumerate(jobs)
            if job.debounce_max is not None and answers[at].id not in (job.id, holders[at])
        ]:
            for at in missed:
                holders[at] = answers[at].id
            again = yield [self.sign(jobs[at], holders[at]) for at in missed]
            for at, answer in zip(missed, again, strict=True):
                answers[at] = answer
        return answers

    def refusal(self, job: str, task: str, body: bytes) -> str | None:
        """Why the job must not run; None if its signature is good."""
        found = SIGNATURE.search(body)
        if found is None:
            return (
                "the job is not signed, and this worker has signing keys; enqueue it by an app or a"
                " server that has one of them"
            )
        name, macs = (part.decode() for part in found.groups())
        if name not in self._by_name:
            return (
                f"the job is signed with key {name}, and this worker has"
                f" {', '.join(self._by_name)}; add that key to signing_keys and replay the job"
            )
        mac = mac_of(self._by_name[name], job, task, body[: found.start()] + b"}")
        if not any(hmac.compare_digest(mac, each) for each in macs.split(":")):
            return (
                "the job's signature does not fit: its id, task or body is not what was signed;"
                " find out who else can write to the store"
            )
        return None

    def seal(self, value: bytes, *place: str) -> bytes:
        """The value with a seal for this place."""
        return value + seal_of(self._by_name[self._first], value, place)

    def is_sealed(self, value: bytes | None, *place: str) -> bool:
        """Whether the value has a seal for this place."""
        if value is None:
            return False
        bare, seal = value[:-SEAL_LENGTH], value[-SEAL_LENGTH:]
        return any(
            hmac.compare_digest(seal_of(key, bare, place), seal) for key in self._by_name.values()
        )

    def seal_recording(self, recording: Recording) -> Recording:
        """The recording, with a seal on what a later attempt may be given."""
        job, token = recording.lease
        return recording._replace(
            records=tuple(
                replace(each, value=self.seal(each.value or b"", *place_of(job, each, token)))
                if each.kind in SEALED
                else each
                for each in recording.records
            )
        )

    def check_records(self, job: str, records: Iterable[Record]) -> None:
        """Refuse steps and checkpoints that were not recorded by an attempt of this job."""
        for each in records:
            if each.kind in SEALED and not self.is_sealed(
                each.value, *place_of(job, each, each.token)
            ):
                what = f"the result of step {each.name!r}" if each.kind == "step" else each.kind
                raise not_sealed(f"{what} of job {job}")

    def seal_arrival(self, outcome: Done) -> Done:
        """The outcome, with a seal on a result that arrives at a gathering job."""
        if outcome.arrives is None or outcome.hands_on:
            return outcome
        gather, index = outcome.arrives
        value = b"null" if outcome.result is None else outcome.result
        return replace(outcome, result=self.seal(value, "arrival", gather, str(index)))

    def check_arrivals(self, job: str, arrived: Mapping[int, bytes | None]) -> None:
        """Refuse results that no member of this gather has returned.

        Failures have no seal: stores write them.
        """
        for index, value in arrived.items():
            if failure_in(value) is None and not self.is_sealed(value, "arrival", job, str(index)):
                raise not_sealed(f"result {index} that job {job} awaited")

    def checked(self, claim: Claim) -> Claim:
        """The claim, if its signature is good; else one that can only become a dead letter.

        Such a claim has an empty body, without retries and without jobs that follow.
        """
        reason = self.refusal(claim.id, claim.task, claim.body)
        if reason is None:
            return claim
        return replace(claim, body=encode({"refused": reason, "retry": Retry(0)}))


def read_keys(text: str) -> list[str]:
    """Keys as an environment variable holds them, with commas between."""
    return [key for part in text.split(",") if (key := part.strip())]


def check_key(index: int, secret: object) -> bytes:
    """The key; the message of a refusal never shows it."""
    if not isinstance(secret, str | bytes):
        raise InvalidError(f"signing key {index} must be text, not {type(secret).__name__}")
    key = secret.encode("utf-8", "surrogateescape") if isinstance(secret, str) else secret
    if len(key) < SHORTEST:
        raise InvalidError(
            f"signing key {index} has {len(key)} bytes; use at least {SHORTEST}, such as the"
            " output of: openssl rand -hex 32"
        )
    return key


def name_of(key: bytes) -> str:
    """A short name for a key that reveals nothing of it."""
    return hashlib.sha256(VERSION + key).hexdigest()[:8]


def mac_of(key: bytes, job: str, task: str, body: bytes) -> str:
    """The signature of a job."""
    return hmac.digest(key, VERSION + joined((job, task)) + body, "sha256").hex()


def seal_of(key: bytes, value: bytes, place: Iterable[str]) -> bytes:
    """The seal of a value for this place."""
    mac = hmac.digest(key, SEAL_VERSION + joined(place) + value, "sha256")
    return b"".join(map(SPELLED.__getitem__, mac[:SEAL_BYTES]))


def joined(words: Iterable[str]) -> bytes:
    """The words, each after its length, so that nothing can be shifted from one to the next."""
    encoded = (each.encode("utf-8", "surrogatepass") for each in words)
    return b"".join(b"%d:%b" % (len(word), word) for word in encoded)


def place_of(job: str, record: Record, token: int) -> tuple[str, ...]:
    """Where a record belongs. `copy` keeps the number of an attempt, and not the whole token."""
    return "record", job, record.key, str(token % TOKENS_PER_LIFE)


def not_sealed(what: str) -> BadSignature:
    """The failure of an attempt that would be given this."""
    return BadSignature(
        f"{what} is not what a process with a signing key stored; find out who else can write to"
        " the store",
        "signature",
    )
