"""Isolation: after a worker died, which of its jobs run alone, and which beside a few others.

A job that kills its worker must not take other attempts with it. Nobody can tell which of the jobs
that a dead worker held was to blame. So each is a crash suspect until one of its attempts ends in
any other way than being lost. A job that was lost once runs beside a few other suspects. It runs
alone if it was lost again, or if it has no retry left that another suspect could cost it.
"""

from collections.abc import Sequence

from mulligan.core.decide import policy_of
from mulligan.core.job import Claim
from mulligan.core.trail import read_trail

FEW = 10
ALONE = 1


def group_limit(claim: Claim) -> int | None:
    """How many suspects, this one included, may run at a time; None if the job is no suspect."""
    lost = read_trail(claim.trail).lost if claim.trail else 0
    if not lost:
        return None
    policy = policy_of(claim.body)
    last = policy is None or policy.retry.spent(claim.retry_count)
    return ALONE if lost > 1 or last else FEW


def isolated(claims: Sequence[Claim]) -> list[Claim]:
    """The suspects to run now, while all other claims are given back; empty if there is none."""
    found = [(claim, most) for claim in claims if (most := group_limit(claim)) is not None]
    if not found:
        return []
    first = found[0][1]
    return [claim for claim, most in found if most >= first][:first]
