"""Stored records that are invalid: each becomes a dead letter, so that the queue goes on."""

from mulligan.core.job import Attempt, Lease
from mulligan.core.outcome import Dead

# What decoding a record may raise if it was cut off or has values of other types.
INVALID_RECORD = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
REMEDY = "find out what else writes to the store, then purge the job"


def dead_record(
    lease: Lease, region: str, worker: str, started_at: float, error: Exception
) -> Dead:
    """The outcome of a claim whose record is invalid; no job follows from it."""
    failure = Attempt(
        number=1,
        replay=0,
        region=region,
        worker=worker,
        started_at=started_at,
        type="InvalidRecord",
        message=f"what is stored of the job cannot be read ({error}); {REMEDY}",
    )
    return Dead(lease, failure)
