"""A job as a reader sees it, for tests that change what they are about."""

from mulligan.core.job import Job
from mulligan.core.lane import Priority

WAITING = Job(
    id="A-q1",
    queue="questions",
    task="ask",
    region="US",
    priority=Priority.NORMAL,
    status="pending",
    scope="US",
    lane_priority=Priority.NORMAL,
    due=990.0,
    sequence=1,
    token=0,
    retry_count=0,
    replay=0,
    snoozes=0,
    created_at=900.0,
    body=b"{}",
)
