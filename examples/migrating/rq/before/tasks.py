"""The shop's jobs, as RQ runs them: plain functions, found by their names."""

from rq import get_current_job
from service import price

RETRIES = 2


def fetch_price(item: str) -> int:
    """Ask the service; whoever enqueues says how often."""
    return price(item, earlier_failures=RETRIES - (get_current_job().retries_left or 0))


def total() -> int:
    """What all of it costs: the results of the jobs that this one depends on."""
    return sum(job.return_value() for job in get_current_job().fetch_dependencies())


def send_mail(to: str, text: str) -> str:
    """Say what would be sent."""
    return f"to {to}: {text}"
