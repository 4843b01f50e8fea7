"""What a task declares about its jobs, and how it is added to jobs that no app has made.

A job of an app carries its policy in its body. A job that another program pushed, inserted or
posted carries only what that program set; `given` has the names of those fields. A worker or
server that knows the task adds the rest when it takes the job.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from mulligan.core.errors import UNREADABLE
from mulligan.core.job import FOREIGN, Claim, encode
from mulligan.core.outcome import Limited
from mulligan.core.retry import read_trail
from mulligan.core.stage import Stage

_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_names = msgspec.json.Decoder(list[str]).decode


class Declared(Struct, frozen=True):
    """What a task declares for all its jobs; None where it declares nothing."""

    retry: Raw | None = None
    timeout: float | None = None
    on_dead: Stage | None = None
    sink: Stage | None = None
    gated: bool | None = None
    limits: str | None = None
    fairness_key: str | None = None

    @property
    def followed(self) -> bool:
        """Whether other jobs follow from jobs of the task, with ids derived from theirs."""
        return self.on_dead is not None or self.sink is not None


def completed(claim: Claim, declared: Declared) -> Claim:
    """The claim, completed as if the task's app had made the job; unchanged if it did."""
    foreign = read(claim.body)
    if foreign is None:
        return claim
    fields, given = foreign
    for name in ("retry", "timeout", "on_dead", "sink", "gated"):
        value = getattr(declared, name)
        if value is not None and name not in given:
            fields[name] = value
    if "id" in given and declared.followed:
        fields["named"] = True
    return replace(claim, body=encode(fields))


def limited(claim: Claim, declared: Declared) -> Limited | None:
    """The outcome that gives a job its task's limits and fairness key before it first runs.

    Stores count permits at the claim, so the job is given back, to be claimed again.
    """
    if declared.limits is None and declared.fairness_key is None:
        return None
    trail, foreign = read_trail(claim.trail), read(claim.body)
    if trail.limited or foreign is None or "limits" in foreign[1]:
        return None
    after = trail._replace(limited=True).write()
    return Limited(claim.lease, declared.limits, declared.fairness_key, after)


def read(body: bytes) -> tuple[dict[str, Any], set[str]] | None:
    """The fields of a body that no app has made, and which its producer gave; else None.

    A body that cannot be read fails when the job runs.
    """
    if FOREIGN not in body:
        return None
    try:
        fields: dict[str, Any] = dict(_decode(body))
        return fields, set(_decode_names(fields.pop("given")))
    except (*UNREADABLE, KeyError):
        return None
