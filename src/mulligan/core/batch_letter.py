"""The dead letter that is stored with a batch which comes from elsewhere."""

from collections.abc import Sequence

from mulligan.core.job import Adopted, Attempt, Job, encode
from mulligan.core.lane import ANYWHERE, Priority


def batch_letter(id_: str, task: str, jobs: Sequence[Job], why: str, now: float) -> Adopted:
    """A dead letter that names the jobs of a batch: the store has either all of them or none.

    It is deleted when they have ended where they come from. If the process that moves them dies in
    between, it says that they are stored, even when they have been run and forgotten since.
    """
    named = Job(
        id_,
        queue=jobs[0].queue,
        task=task,
        region=ANYWHERE,
        priority=Priority.NORMAL,
        status="failed",
        scope=ANYWHERE,
        lane_priority=Priority.NORMAL,
        due=now,
        sequence=0,
        token=1,
        retry_count=0,
        replay=0,
        snoozes=0,
        created_at=now,
        started_at=now,
        ended_at=now,
        body=encode({"task": task, "args": [job.id for job in jobs], "kwargs": {}}),
    )
    failure = Attempt(1, 0, ANYWHERE, task, now, "Interrupted", why, ended_at=now)
    return Adopted(named, [failure])
