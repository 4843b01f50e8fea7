"""Mistakes with what jobs record."""

from typing import Any

from mulligan.core.outcome import Again
from mulligan.core.record import Recording, RecordVerdict
from mulligan.engine.attempt_records import Known
from mulligan.engine.recorder import Recorder
from mulligan.stores.memory import commit, record
from mulligan.stores.memory.state import State
from tests.dst.zoo.cage import plant

record_one = record.record_one
commit_one = commit.commit_one


@plant(record, "record_one")
def stale_record_accepted(state: State, recording: Recording) -> RecordVerdict:
    """What a worker records is kept by the job alone, not by the token."""
    stored = state.jobs.get(recording.lease.job)
    if stored is not None and stored.status == "processing":
        recording = recording._replace(lease=recording.lease._replace(token=stored.token))
    return record_one(state, recording)


@plant(Recorder, "read")
async def steps_not_handed_on(self: Any, job: str) -> Known:
    """A later attempt is not told which steps were recorded."""
    return Known({}, None)


@plant(commit, "commit_one")
def records_dropped_with_the_attempt(state: State, outcome: Any) -> Any:
    """A failed attempt takes along what was recorded."""
    verdict = commit_one(state, outcome)
    if verdict == "written" and isinstance(outcome, Again):
        state.jobs[outcome.lease.job].records = {}
    return verdict


@plant(record, "record_one")
def answered_before_it_is_kept(state: State, recording: Recording) -> RecordVerdict:
    """Every other step is answered as recorded, and not kept."""
    kept = tuple(each for each in recording.records if each.kind != "step" or each.number % 2)
    return record_one(state, recording._replace(records=kept))
