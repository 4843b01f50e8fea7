"""What a running job records about itself: results of steps, progress, log lines, a checkpoint.

A record is written under the lease, so that a stale worker's is refused. It is numbered by its
attempt, in order: one that is sent again after a lost reply is known by its number.
"""

from collections.abc import Iterable
from math import isfinite
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Struct

from mulligan.core.checks import check_name, clean, is_too_deep, too_deep
from mulligan.core.errors import UNREADABLE, InvalidError
from mulligan.core.job import Lease
from mulligan.core.settings import LINE_LIMIT, LOG_LIMIT, RECORD_LIMIT

RecordKind = Literal["step", "progress", "log", "checkpoint"]
# What became of a recording: `stale` if its lease was lost, and nothing of it was written then.
RecordVerdict = Literal["recorded", "stale"]
# Readers get results of steps and checkpoints of at most so many bytes, unless they ask for more.
SHOWN_LIMIT = 1024
STEP = "step:"
LOG = "log:"


class Record(Struct, frozen=True, gc=False):
    """One record. A step has a `name`; `value` is JSON, None where a reader left it out.

    `number` is its number among the records of its attempt, from 1. The store keeps it with the
    token of that attempt, and stamps `at`; `size` is the length of the value.
    """

    kind: RecordKind
    number: int
    value: bytes | None
    name: str = ""
    token: int = 0
    at: float = 0.0
    size: int = 0

    @property
    def order(self) -> tuple[int, int]:
        """Which of two records of a job is the newer one."""
        return self.token, self.number

    @property
    def key(self) -> str:
        """What it is stored under: of two records of a job with the same key one is kept."""
        if self.kind == "step":
            return STEP + self.name
        if self.kind == "log":
            return f"{LOG}{self.token:017d}:{self.number:010d}"
        return self.kind


class Recording(NamedTuple):
    """Records of one attempt, in the order of their numbers."""

    lease: Lease
    records: tuple[Record, ...]


def kind_of(key: str) -> tuple[RecordKind, str]:
    """The kind of a record that is stored under this key, and the name of a step."""
    if key.startswith(STEP):
        return "step", key.removeprefix(STEP)
    if key.startswith(LOG):
        return "log", ""
    return ("progress", "") if key == "progress" else ("checkpoint", "")


def stamped(record: Record, token: int, at: float) -> Record:
    """The record as it is stored."""
    size = len(record.value or b"")
    return Record(record.kind, record.number, record.value, record.name, token, at, size)


def adopted_records(records: Iterable[Record], before: int, token: int) -> list[Record]:
    """The records of a job that goes on in another store, under the tokens that they have there.

    `before` is the job's own token in the store that it leaves, `token` the one in the other.
    """
    return [
        Record(
            each.kind,
            number,
            each.value,
            each.name,
            token - max(0, before - each.token),
            each.at,
            each.size,
        )
        for number, each in enumerate(records, 1)
    ]


def add_record(kept: dict[str, Record], new: Record) -> None:
    """Add a stamped record to those of its job, which are kept by their keys.

    The first of a step stays, and the newest progress, checkpoint and log lines.
    """
    before = kept.get(new.key)
    if before is None or (new.kind in ("progress", "checkpoint") and new.order > before.order):
        kept[new.key] = new
    if new.kind == "log":
        lines = sorted(key for key in kept if key.startswith(LOG))
        for key in lines[:-LOG_LIMIT]:
            del kept[key]


def is_left_out(kind: RecordKind, size: int, most: int | None) -> bool:
    """Whether a reader of values up to `most` bytes gets a record of this size without its value.

    Only steps and checkpoints may be long. Log lines and progress are always complete.
    """
    return most is not None and size > most and kind in ("step", "checkpoint")


def in_order(records: Iterable[Record], most: int | None) -> list[Record]:
    """The records by their order, with the values of steps and checkpoints up to `most` bytes."""
    return [
        msgspec.structs.replace(record, value=None)
        if is_left_out(record.kind, record.size, most)
        else record
        for record in sorted(records, key=lambda record: (record.order, record.key))
    ]


# -- what readers are shown --------------------------------------------------------------------


class Step(Struct, frozen=True):
    """A recorded step; its result, as JSON gives it, is left out where it is long."""

    name: str
    at: float
    size: int
    result: Any = UNSET


class Progress(Struct, frozen=True):
    """How far the job is: so much done, of so much if that is known."""

    done: float
    of: float | None = None
    note: str | None = None
    at: float | None = None

    @property
    def share(self) -> float | None:
        """The part that is done, between 0 and 1; None if it is not known of how much."""
        return None if not self.of else min(max(self.done / self.of, 0.0), 1.0)


class LogLine(Struct, frozen=True):
    """A line that the job logged."""

    at: float
    text: str


class Checkpoint(Struct, frozen=True):
    """Where a later attempt goes on; its value is left out where it is long."""

    at: float
    size: int
    value: Any = UNSET


class Records(Struct, frozen=True):
    """All that a job has recorded."""

    steps: list[Step] = []
    progress: Progress | None = None
    log: list[LogLine] = []
    checkpoint: Checkpoint | None = None


decode_progress = msgspec.json.Decoder(Progress).decode
decode_json = msgspec.json.Decoder().decode


def shown(records: Iterable[Record]) -> Records:
    """The records, each kind by itself; invalid ones are left out."""
    steps: list[Step] = []
    lines: list[LogLine] = []
    progress: Progress | None = None
    checkpoint: Checkpoint | None = None
    for record in records:
        try:
            match record.kind:
                case "step":
                    steps.append(Step(record.name, record.at, record.size, value_of(record)))
                case "log":
                    lines.append(LogLine(record.at, str(decode_json(record.value or b""))))
                case "checkpoint":
                    checkpoint = Checkpoint(record.at, record.size, value_of(record))
                case _:
                    said = decode_progress(record.value or b"")
                    progress = msgspec.structs.replace(said, at=record.at)
        except UNREADABLE:
            continue
    return Records(steps, progress, lines, checkpoint)


def value_of(record: Record) -> Any:
    """The value of a step or checkpoint; UNSET where the reader left it out."""
    return UNSET if record.value is None else decode_json(record.value)


# -- what may be recorded ----------------------------------------------------------------------


def step_key(job: str, name: str) -> str:
    """A key for this step of the job, the same at every attempt: for services that take one."""
    return f"{job}/{check_name('step', name)}"


def checked_value(what: str, encoded: bytes) -> bytes:
    """The JSON of a value; refuses one that is too long or too deep."""
    if len(encoded) > RECORD_LIMIT:
        raise InvalidError(
            f"{what} has {len(encoded)} bytes, more than the {RECORD_LIMIT} allowed; store it"
            " elsewhere and record a link to it"
        )
    if is_too_deep(encoded):
        raise InvalidError(too_deep(what))
    return encoded


def progress_value(done: Any, of: Any, note: Any) -> bytes:
    """Progress as JSON; refuses what is no number, and notes that are no text."""
    for name, number in (("progress", done), ("of", of)):
        missing = number is None and name == "of"
        if missing:
            continue
        if isinstance(number, bool) or not isinstance(number, int | float) or not isfinite(number):
            raise InvalidError(f"{name} {number!r} must be a finite number, such as 40")
    if of is not None and of <= 0:
        raise InvalidError(f"of {of!r} must be above 0; leave it out if it is not known")
    if note is not None and not isinstance(note, str):
        raise InvalidError(f"note {note!r} must be text")
    said = None if note is None else clean(note)[:LINE_LIMIT]
    return msgspec.json.encode({"done": done, "of": of, "note": said})


def line_value(text: Any) -> bytes:
    """A log line as JSON, shortened; refuses what is no text."""
    if not isinstance(text, str):
        raise InvalidError(f"log line {text!r} must be text; say log(str(…))")
    return msgspec.json.encode(clean(text)[:LINE_LIMIT])
