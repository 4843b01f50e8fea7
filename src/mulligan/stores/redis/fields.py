"""How Redis spells what a job is: lanes, texts, options and the fields of its state.

Options and state follow the table of `core/fields.py`: a field of a job that is not spelled in
another way is an entry of its state, under its own name.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, cast
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace

from mulligan.core.errors import UNREADABLE, InvalidError
from mulligan.core.fields import CLAIM, JOB, NEW_JOB, Field, Kind, fields_of
from mulligan.core.job import Attempt, Job, Status
from mulligan.core.lane import Lane, Priority
from mulligan.core.validation import INVALID_RECORD

KINDS = {
    int(Priority.NORMAL): "fresh",
    int(Priority.RETRY): "retry",
    int(Priority.URGENT): "urgent",
    int(Priority.URGENT_RETRY): "urgent-retry",
}
PRIORITIES = {kind: priority for priority, kind in KINDS.items()}
# The priorities whose lanes are lists.
LISTED = (Priority.NORMAL, Priority.URGENT)
JSON = msgspec.json.Encoder()
PACK = msgspec.msgpack.Encoder()
UNPACK = msgspec.msgpack.Decoder()
ATTEMPT = msgspec.json.Decoder(Attempt)

TYPES: dict[Kind, Any] = {
    "text": str,
    "integer": int,
    "flag": bool,
    "bytes": bytes,
    "time": float,
    "seconds": float,
}
READ: dict[Kind, Callable[[bytes], Any]] = {
    **TYPES,
    "text": lambda value: value.decode("utf-8", "replace"),
}

OPTIONS = tuple(field for field in fields_of(NEW_JOB) if field.option)
# What only some new jobs say, as shared/add.lua reads it; what has its default is left out.
Options = msgspec.defstruct(
    "Options",
    [(field.name, TYPES[field.kind] | None, field.default) for field in OPTIONS],
    omit_defaults=True,
)

# The fields of a job that its text, its lane, its counts, its lease or its history spell.
SPELLED = {
    *("id", "created_at", "queue", "region", "priority", "task", "body"),
    *("scope", "lane_priority", "due", "sequence"),
    *("token", "retry_count", "replay", "snoozes"),
    *("status", "worker", "worker_region", "started_at", "result", "last_failure_reason"),
}
STATE: tuple[Field, ...] = tuple(field for field in fields_of(JOB) if field.name not in SPELLED)
# The fields of the state that a claim carries, as shared/claim_fields.lua reads them.
CLAIM_STATE = tuple((field.name, READ[field.kind]) for field in STATE if CLAIM in field.carriers)


def escape(name: str) -> str:
    """The name without the colon that separates the parts of a key."""
    return name.replace("%", "%25").replace(":", "%3A")


def escape_key(key: str) -> str:
    """A fairness key as the names of lines spell it."""
    return key.replace("%", "%25").replace("\t", "%09")


@lru_cache(maxsize=4096)
def spell_limit(name: str) -> str:
    """The name of a limit as scripts spell it: as in JSON, without the quotes."""
    return JSON.encode(name)[1:-1].decode()


def limit_name(text: str) -> str:
    """The name of a limit that scripts spell so."""
    return msgspec.json.decode(f'"{text}"', type=str)


def untabbed(name: str) -> str:
    """The name, or a refusal of one whose tab would break a text of several parts."""
    if "\t" in name:
        raise InvalidError(f"name {name!r} has a tab; remove it")
    return name


def lane_name(lane: Lane) -> str:
    """The lane as its key spells it."""
    return spell_lane(*lane)


@lru_cache(maxsize=4096)
def spell_lane(queue: str, scope: str, priority: int) -> str:
    """A lane's kind, queue and scope with colons between."""
    kind = KINDS.get(priority, str(int(priority)))
    return f"{kind}:{escape(untabbed(queue))}:{escape(untabbed(scope))}"


@lru_cache(maxsize=4096)
def lane_of(name: str) -> Lane:
    """The lane that a key spells."""
    kind, queue, scope = name.split(":")
    priority = PRIORITIES[kind] if kind in PRIORITIES else int(kind)
    return Lane(unquote(queue), unquote(scope), priority)


@lru_cache(maxsize=4096)
def home_of(name: bytes) -> Lane:
    """The lane that a job was enqueued for, as its text spells it."""
    return lane_of(name.decode())


@lru_cache(maxsize=4096)
def name_of(text: bytes) -> str:
    """A name that many jobs share, read once."""
    return text.decode()


@lru_cache(maxsize=4096)
def heading(task: str) -> bytes:
    """What comes before a body in a job's text; a tab in a name would end it too soon."""
    return f"{untabbed(task)}\t".encode()


@lru_cache(maxsize=4096)
def read_counts(text: bytes) -> tuple[int, int, int, int]:
    """Tokens used, retries, replays and snoozes of a job."""
    used, retry_count, replay, snoozes = map(int, text.split())
    return used, retry_count, replay, snoozes


def token_texts(tokens: Iterable[int]) -> Iterable[str]:
    """Tokens as leases begin with them."""
    return map("%016d".__mod__, tokens)


def float_text(seconds: float) -> str:
    """A time or a duration as scripts read it."""
    return repr(float(seconds))


def attempt_of(entry: bytes) -> Attempt:
    """An attempt as its job's history keeps it; of an invalid one, that it was there."""
    ended_at, _, rest = entry.partition(b" ")
    said, _, traceback = rest.partition(b"\n")
    try:
        return replace(
            ATTEMPT.decode(said),
            ended_at=None if ended_at == b"-" else float(ended_at),
            traceback=traceback.decode("utf-8", "replace") or None,
        )
    except (*UNREADABLE, *INVALID_RECORD) as error:
        message = f"what is stored of the attempt cannot be read ({error})"
        return Attempt(0, 0, "", "", 0.0, "InvalidRecord", message)


def attempt_text(attempt: Attempt) -> bytes:
    """An attempt as its job's history keeps it: when it ended, then what `failure_text` gives."""
    ended_at = "-" if attempt.ended_at is None else float_text(attempt.ended_at)
    return b"%s %s" % (ended_at.encode(), failure_text(attempt))


def failure_text(attempt: Attempt) -> bytes:
    """An attempt as a line of JSON; its traceback follows below, where lists do not read it."""
    if attempt.traceback is None:
        return JSON.encode(attempt)
    said = JSON.encode(replace(attempt, traceback=None))
    return b"%s\n%s" % (said, attempt.traceback.encode())


def state_of(job: Job) -> dict[str, str]:
    """The fields of a job's state that differ from their defaults."""
    values = {field.name: getattr(job, field.name) for field in STATE}
    return {
        field.name: float_text(value) if field.kind == "time" else str(value)
        for field in STATE
        if (value := values[field.name]) != field.default
    }


def claim_state(values: Sequence[bytes | None]) -> dict[str, Any]:
    """The fields of a job's state that a claim carries, but for those that have their defaults."""
    return {
        name: read(value)
        for (name, read), value in zip(CLAIM_STATE, values, strict=True)
        if value is not None
    }


def job_of(id_: str, row: list[Any]) -> Job:
    """A job from what get.lua gives of it; an invalid one is shown as far as it goes."""
    try:
        return read_job(id_, row)
    except INVALID_RECORD:
        text, cells, lease, _, _, failure = row
        known = dict(zip(cells[::2], cells[1::2], strict=True))
        ended = known.get(b"ended", b"pending").decode(errors="replace")
        return Job(
            id=id_,
            queue="",
            task="",
            region="",
            priority=0,
            status=cast("Status", "processing" if lease else ended),
            scope="",
            lane_priority=0,
            due=0.0,
            sequence=0,
            token=0,
            retry_count=0,
            replay=0,
            snoozes=0,
            created_at=0.0,
            body=text,
            last_failure_reason=attempt_of(failure).reason if failure else None,
        )


def read_job(id_: str, row: list[Any]) -> Job:
    """A job from what is stored of it; raises what taking apart an invalid one does."""
    text, cells, lease, holder, done, failure = row
    first_token, created_at, home, task, body = text.split(b"\t", 4)
    known = {key.decode(): value for key, value in zip(cells[::2], cells[1::2], strict=True)}
    state = {f.name: READ[f.kind](known[f.name]) for f in STATE if f.name in known}
    if "waits_for" in state:
        state["waits_for"] = limit_name(state["waits_for"])
    own_lane = home_of(home)
    lane = lane_of(known["lane"].decode()) if "lane" in known else own_lane
    status, result, worker = known.get("ended", b"pending").decode(), None, None
    counts = known.get("counts", b"0 0 0 0")
    started, _, region = known.get("ran", b"").partition(b" ")
    # The state is written when an attempt has ended otherwise than well. Until then the lease says
    # what goes on, and of a job that is done what is kept of its lease.
    if lease or done:
        common = done or lease.partition(b"\t")[2]
        counts, flags, _, started, region, _, *end = common.split(b"\t", 7)
        if b"r" in flags.partition(b"{")[0]:
            state["last_retry_at"] = float(started)
        if end:
            state["ended_at"] = float(end[0])
            status, result = "done", end[1][1:] if end[1] else None
        else:
            status, worker = "processing", holder.decode()
    used, retry_count, replay, snoozes = read_counts(counts)
    return Job(
        id=id_,
        queue=own_lane.queue,
        task=task.decode(),
        region=own_lane.scope,
        priority=own_lane.priority,
        status=cast("Status", status),
        scope=lane.scope,
        lane_priority=lane.priority,
        due=float(known.get("due", created_at)),
        sequence=int(known.get("sequence", first_token)),
        token=int(first_token) + used - 1,
        retry_count=retry_count,
        replay=replay,
        snoozes=snoozes,
        created_at=float(created_at),
        body=body,
        worker=worker,
        worker_region=region.decode() or None,
        started_at=float(started) if started else None,
        result=result,
        last_failure_reason=attempt_of(failure).reason if failure else None,
        **state,
    )
