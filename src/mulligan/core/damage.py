"""Jobs whose stored record was damaged: set aside with the reason, so that the queue goes on."""

from mulligan.core.job import Attempt, Lease
from mulligan.core.outcome import Dead

# What taking apart a record may raise that was cut off, or holds values of other kinds.
DAMAGE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
REMEDY = "find out what else writes to the store, then purge the job"


def set_aside(lease: Lease, region: str, worker: str, started_at: float, error: Exception) -> Dead:
    """The outcome of a claim that cannot be understood; nothing follows from it."""
    failure = Attempt(
        number=1,
        replay=0,
        region=region,
        worker=worker,
        started_at=started_at,
        type="Damaged",
        message=f"what is stored of the job cannot be read ({error}); {REMEDY}",
    )
    return Dead(lease, failure)
