"""Who runs beside whom after a worker died, so that a job which kills workers takes none along.

Nobody can tell which of the jobs that a dead worker held was to blame. So each of them is suspect
until an attempt at it ends in any other way: at first it runs beside a few others of its kind, and
quite alone once it was lost again, or when it has no retry left that a neighbour could cost it.
"""

from collections.abc import Sequence

from mulligan.core.decide import policy_of
from mulligan.core.job import Claim
from mulligan.core.trail import read_trail

FEW = 10
ALONE = 1


def company(claim: Claim) -> int | None:
    """How many may run at a time with the job among them, all of them suspects; None if any."""
    lost = read_trail(claim.trail).lost if claim.trail else 0
    if not lost:
        return None
    policy = policy_of(claim.body)
    last = policy is None or policy.retry.spent(claim.retry_count)
    return ALONE if lost > 1 or last else FEW


def suspects(claims: Sequence[Claim]) -> list[Claim]:
    """Those to start now and all others to give back; none if nobody is suspect."""
    found = [(claim, most) for claim in claims if (most := company(claim)) is not None]
    if not found:
        return []
    first = found[0][1]
    return [claim for claim, most in found if most >= first][:first]
