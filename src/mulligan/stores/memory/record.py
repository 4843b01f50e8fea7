"""Keeps what running jobs record about themselves."""

from collections.abc import Sequence

from mulligan.core.record import (
    LOG,
    Record,
    Recording,
    RecordVerdict,
    add_record,
    adopted_records,
    in_order,
    stamped,
)
from mulligan.core.settings import check_batch
from mulligan.stores.memory import fields
from mulligan.stores.memory.state import State


def record(state: State, recordings: Sequence[Recording]) -> list[RecordVerdict]:
    """Keep each recording whose lease is still held."""
    check_batch(len(recordings))
    with state.lock:
        state.tick()
        return [record_one(state, each) for each in recordings]


def record_one(state: State, recording: Recording) -> RecordVerdict:
    """Keep the records, unless the lease is no longer held."""
    stored = state.jobs.get(recording.lease.job)
    token = recording.lease.token
    if stored is None or stored.token != token or stored.status != "processing":
        return "stale"
    for each in recording.records:
        add_record(stored.records, stamped(each, token, state.now))
    return "recorded"


def records(state: State, job: str, most: int | None) -> list[Record]:
    """What the job has recorded."""
    with state.lock:
        stored = state.jobs.get(job)
        return [] if stored is None else in_order(stored.records.values(), most)


def drop(stored: fields.StoredJob) -> None:
    """Forget all but the log."""
    stored.records = {key: each for key, each in stored.records.items() if key.startswith(LOG)}


def take_over(stored: fields.StoredJob, adopted: Sequence[Record], before: int) -> None:
    """Keep what the job has recorded in another store, where it had the token `before`."""
    records = adopted_records(adopted, before, stored.token)
    stored.records = {each.key: each for each in records}
