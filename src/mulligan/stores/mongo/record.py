"""What jobs record about themselves while they run.

Progress, checkpoint and log lie in the job's document, under `mulligan.records`, and are written
by one fenced update. Results of steps may be larger than a document: each is one of its own. It
counts from that same update on, which says up to which number the records of a token are written
(`upto`). So what was put there by an attempt that lost its lease, or died half way, is not seen.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from pymongo import DeleteMany, InsertOne

from mulligan.core.job import Adopted
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
from mulligan.core.settings import LOG_LIMIT, check_batch
from mulligan.stores.mongo.bulk_write import Change, write
from mulligan.stores.mongo.connection import Connection, rows
from mulligan.stores.mongo.document import HELD_BY_US, Doc, held_by_us, micros, private_of, seconds

RECORDS = "mulligan.records"
# What is read of a job before its records are written.
ASKED = {
    "status": 1,
    "updated_at": 1,
    f"{RECORDS}.upto": 1,
    **{f"mulligan.{name}": 1 for name in ("number", "token", "worker", "updated_at")},
}
ONE_OF_A_KIND = ("progress", "checkpoint")


async def record(connection: Connection, recordings: Sequence[Recording]) -> list[RecordVerdict]:
    """Keep each recording whose lease is still held; those of one lease together."""
    check_batch(len(recordings))
    merged: dict[Any, list[Record]] = {}
    for lease, records in recordings:
        merged.setdefault(lease, []).extend(records)
    verdicts: dict[Any, RecordVerdict] = {}
    left = [Recording(lease, tuple(records)) for lease, records in merged.items()]
    now = await connection.now()
    while left:
        docs = await connection.find([each.lease.job for each in left], ASKED)
        held = [each for each in left if is_held(docs.get(each.lease.job), each)]
        new = [each for each in held if not is_written(docs[each.lease.job], each)]
        verdicts |= {each.lease: "stale" for each in left if each not in held}
        verdicts |= {each.lease: "recorded" for each in held if each not in new}
        written = await write_recordings(connection, new, docs, now)
        verdicts |= {each.lease: "recorded" for each in new if each.lease in written}
        # What has changed meanwhile is looked at anew.
        left = [each for each in new if each.lease not in written]
    return [verdicts[lease] for lease, _ in recordings]


async def write_recordings(
    connection: Connection, recordings: Sequence[Recording], docs: dict[str, Doc], now: int
) -> set[Any]:
    """Write what is still held; the leases of that."""
    marks = [mark(docs[each.lease.job], each) for each in recordings if has_steps(each)]
    await connection.apply([each for each in marks if each is not None])
    steps = [
        step_document(private_of(docs[each.lease.job])["number"], stamp(each, one, now))
        for each in recordings
        for one in new_records(docs[each.lease.job], each)
        if one.kind == "step"
    ]
    if steps:
        await write(connection.records, [InsertOne(each) for each in steps])
    changes = [(each.lease, change_of(docs[each.lease.job], each, now)) for each in recordings]
    written = await connection.apply([change for _, change in changes])
    return {lease for lease, change in changes if change.key in written}


def is_held(doc: Doc | None, recording: Recording) -> bool:
    """Whether the lease is held."""
    return (
        doc is not None
        and held_by_us(doc)
        and private_of(doc).get("token") == recording.lease.token
    )


def upto(doc: Doc) -> dict[str, int]:
    """The highest number of the records that are written, by token."""
    records = private_of(doc).get("records")
    found = records.get("upto") if isinstance(records, dict) else None
    return found if isinstance(found, dict) else {}


def new_records(doc: Doc, recording: Recording) -> list[Record]:
    """Those of the records that are not written yet."""
    last = upto(doc).get(str(recording.lease.token), 0)
    return [each for each in recording.records if each.number > last]


def is_written(doc: Doc, recording: Recording) -> bool:
    """Whether there is nothing new in it."""
    return not new_records(doc, recording)


def has_steps(recording: Recording) -> bool:
    """Whether there are documents to be put beside the job's own."""
    return any(each.kind == "step" for each in recording.records)


def mark(doc: Doc, recording: Recording) -> Change | None:
    """The write that says that a job has records, before any is put beside it; None if it does."""
    if upto(doc):
        return None
    token = recording.lease.token
    last = f"{RECORDS}.upto.{token}"
    # Sent again, or carried out late, it must not hide what was written since.
    return Change(doc["_id"], {**HELD_BY_US, last: None}, {"$set": {last: 0}}, token)


def change_of(doc: Doc, recording: Recording, now: int) -> Change:
    """The write that makes the records valid, if the lease is still held."""
    token = recording.lease.token
    records = [stamp(recording, each, now) for each in new_records(doc, recording)]
    last = f"{RECORDS}.upto.{token}"
    # 0 where `mark` has just written it.
    before = upto(doc).get(str(token))
    match = {**HELD_BY_US, last: before or {"$in": [None, 0]}}
    update: Doc = {"$set": {last: records[-1].number}}
    for each in records:
        if each.kind in ONE_OF_A_KIND:
            update["$set"][f"{RECORDS}.{each.kind}"] = entry_of(each)
    lines = [entry_of(each) for each in records if each.kind == "log"]
    if lines:
        update["$push"] = {f"{RECORDS}.log": {"$each": lines, "$slice": -LOG_LIMIT}}
    return Change(doc["_id"], match, update, token)


def stamp(recording: Recording, record: Record, now: int) -> Record:
    """The record as it is stored."""
    return stamped(record, recording.lease.token, seconds(now))


def entry_of(record: Record) -> Doc:
    """A record as the job's document has it."""
    return {
        "token": record.token,
        "number": record.number,
        "at": micros(record.at),
        "value": record.value or b"",
    }


def step_document(number: int, record: Record) -> Doc:
    """A step of the job that has this number: it does not count for a later one of the same id."""
    key = f"{number}/{record.token}/{record.number}"
    told = {"_id": key, "of": number, "name": record.name, "size": record.size}
    return told | entry_of(record)


# -- reading -------------------------------------------------------------------------------


async def records_of(connection: Connection, doc: Doc, most: int | None) -> list[Record]:
    """What the job of this document has recorded, oldest first."""
    private = private_of(doc)
    kept = private.get("records")
    if not isinstance(kept, dict):
        return []
    found: dict[str, Record] = {}
    for each in await steps_of(connection, private.get("number"), most):
        if each.number <= upto(doc).get(str(each.token), 0):
            add_record(found, each)
    for kind in ONE_OF_A_KIND:
        for each in read_entries(kind, [kept.get(kind)]):
            found[each.key] = each
    for each in read_entries("log", kept.get("log")):
        found[each.key] = each
    return in_order(found.values(), most)


async def steps_of(connection: Connection, number: Any, most: int | None) -> list[Record]:
    """The steps of the job with this number, in order; without values of more than `most` bytes."""
    query: Doc = {"of": number}
    found = []
    if most is not None:
        found = await rows(connection.records.find(query | {"size": {"$gt": most}}, {"value": 0}))
        query["size"] = {"$lte": most}
    found += await rows(connection.records.find(query))
    records = [
        Record(
            "step",
            each["number"],
            each.get("value"),
            each["name"],
            each["token"],
            seconds(each["at"]),
            each["size"],
        )
        for each in found
    ]
    return sorted(records, key=lambda each: each.order)


def read_entries(kind: Any, entries: Any) -> Iterable[Record]:
    """The entries of a document that another program has left as they were."""
    for each in entries if isinstance(entries, list) else ():
        if isinstance(each, dict) and isinstance(value := each.get("value"), bytes):
            numbers: list[Any] = [each.get(name) for name in ("number", "token", "at")]
            if all(isinstance(number, int) for number in numbers):
                number, token, at = map(int, numbers)
                yield Record(kind, number, value, "", token, seconds(at), len(value))


# -- taking over, and away -----------------------------------------------------------------


def adopted(number: int, token: int, job: Adopted) -> tuple[Doc, list[Doc]]:
    """What a job of another store has recorded: for its document, and the steps beside it."""
    kept: dict[str, Record] = {}
    records = adopted_records(job.records, job.job.token, token)
    for each in records:
        add_record(kept, each)
    fields: Doc = {"upto": {str(each.token): len(records) for each in records}}
    for kind in ONE_OF_A_KIND:
        if kind in kept:
            fields[kind] = entry_of(kept[kind])
    lines = [entry_of(kept[key]) for key in sorted(kept) if key.startswith(LOG)]
    if lines:
        fields["log"] = lines
    return fields, [step_document(number, each) for each in kept.values() if each.kind == "step"]


async def keep_steps(connection: Connection, steps: Sequence[Doc]) -> None:
    """Put steps beside their jobs."""
    if steps:
        await write(connection.records, [InsertOne(each) for each in steps])


async def remove_steps(connection: Connection, docs: Iterable[Doc]) -> None:
    """Delete the steps of those of the jobs that have recorded something."""
    numbers = [private_of(doc).get("number") for doc in docs if "records" in private_of(doc)]
    if numbers:
        await write(connection.records, [DeleteMany({"of": {"$in": numbers}})])
