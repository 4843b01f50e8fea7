"""From values of the contract to arguments of scripts."""

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from mulligan.core.errors import InvalidError
from mulligan.core.job import Job, NewJob
from mulligan.core.lane import Lane, Priority
from mulligan.core.outcome import Again, Cancelled, Dead, Done, Later, Outcome, Returned
from mulligan.core.plan import Gate, Group, Rate, Running, Source, Take
from mulligan.stores.redis.server import Value

KINDS = {
    int(Priority.NORMAL): "fresh",
    int(Priority.RETRY): "retry",
    int(Priority.URGENT): "urgent",
    int(Priority.URGENT_RETRY): "urgent-retry",
}
PRIORITIES = {kind: priority for priority, kind in KINDS.items()}
JSON = msgspec.json.Encoder()
PACK = msgspec.msgpack.Encoder()
NO_OPTIONS = b"{}"


def escape(name: str) -> str:
    """The name without the colon that separates the parts of a key."""
    return name.replace("%", "%25").replace(":", "%3A")


@lru_cache(maxsize=4096)
def lane_name(lane: Lane) -> str:
    """The lane as its key spells it: kind, queue, scope."""
    kind = KINDS.get(lane.priority, str(lane.priority))
    return f"{kind}:{escape(lane.queue)}:{escape(lane.scope)}"


@lru_cache(maxsize=4096)
def lane_of(name: str) -> Lane:
    """The lane that a key spells."""
    kind, queue, scope = name.split(":")
    priority = PRIORITIES[kind] if kind in PRIORITIES else int(kind)
    return Lane(unquote(queue), unquote(scope), priority)


class Lanes:
    """The lanes that the jobs of one batch join, numbered from 1."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str, int], int] = {}

    def number(self, job: NewJob) -> int:
        """The number of the job's lane."""
        return self._numbers.setdefault(
            (job.queue, job.region, job.priority), len(self._numbers) + 1
        )

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def values(self) -> list[Value]:
        """The names of the lanes."""
        return [lane_name(Lane(*lane)) for lane in self._numbers]


class Options(Struct, omit_defaults=True):
    """What is out of the ordinary about a new job; of an ordinary one nothing is written."""

    unique_key: str | None = None
    unique_in: str | None = None
    concurrency_key: str | None = None
    concurrency_limit: int = 1
    expires: float | None = None
    awaits: int = 0
    gather: str | None = None
    place: int = 0


def job_values(job: NewJob, lanes: Lanes) -> tuple[Value, ...]:
    """Five values for a new job."""
    options = JSON.encode(
        Options(
            job.unique_key,
            job.unique_in,
            job.concurrency_key,
            job.concurrency_limit,
            job.expires,
            job.awaits,
            job.gather,
            job.place,
        )
    )
    more = b"" if options == NO_OPTIONS else options
    delay = repr(float(job.delay)) if job.delay else "0"
    return (job.id, lanes.number(job), job_text(job), delay, more)


def job_text(job: NewJob | Job) -> bytes:
    """A job as it is kept, without the sequence and the time that the store puts before it."""
    return heading(job.queue, job.region, job.priority, job.task) + job.body


@lru_cache(maxsize=4096)
def heading(queue: str, region: str, priority: int, task: str) -> bytes:
    """What stands before the body; a tab in a name would end it too soon."""
    for name in (queue, region, task):
        if "\t" in name:
            raise InvalidError(f"name {name!r} has a tab; remove it")
    return f"{queue}\t{region}\t{int(priority)}\t{task}\t".encode()


def jobs_values(jobs: Iterable[NewJob], lanes: Lanes) -> list[Value]:
    """Five values for each new job."""
    values: list[Value] = []
    for job in jobs:
        values += job_values(job, lanes)
    return values


def commit_values(outcomes: Sequence[Outcome]) -> list[Value]:
    """What commit.lua reads after the time."""
    lanes = Lanes()
    letters: list[str] = []
    data: list[Value] = []
    for outcome in outcomes:
        if type(outcome) is Done and outcome.result is None and not outcome.next:
            letters.append("d")
        else:
            letter, *values = outcome_values(outcome, lanes)
            letters.append(str(letter))
            data += values
    ids: list[Value] = [outcome.lease[0] for outcome in outcomes]
    tokens: list[Value] = [outcome.lease[1] for outcome in outcomes]
    return ["".join(letters), len(lanes), *lanes.values, *ids, *tokens, *data]


def outcome_values(outcome: Outcome, lanes: Lanes) -> list[Value]:
    """The letter for an outcome, and what goes with it."""
    match outcome:
        case Done(_, result, following):
            some = 0 if result is None else 1
            return ["f", result or b"", some, len(following), *jobs_values(following, lanes)]
        case Again(_, lane, delay, failure, trail):
            return ["a", lane_name(Lane(*lane)), repr(float(delay)), JSON.encode(failure), trail]
        case Later(_, delay):
            return ["l", repr(float(delay))]
        case Dead(_, failure, following):
            return ["x", JSON.encode(failure), len(following), *jobs_values(following, lanes)]
        case Returned():
            return ["r"]
        case Cancelled(_, reason):
            return ["c", reason]


class Shape(Struct, frozen=True):
    """What plans that differ only in numbers have in common, as the claim script reads it."""

    name: str
    packed: bytes
    waits: bytes
    lanes: tuple[Lane, ...]


@lru_cache(maxsize=256)
def shape_of(groups: tuple[Group, ...]) -> Shape:
    """The shape of a plan with these groups; workers of one shape wait for the same things."""
    lanes: dict[Lane, int] = {}
    gates: dict[Gate, int] = {}
    waits: dict[Lane, str] = {}

    def packed_source(source: Source) -> tuple[int, float, list[int], bool]:
        yields = source.yields and source.waited > 0
        waits[source.lane] = f"{source.waited!r} yields" if yields else repr(source.waited)
        return (
            lanes.setdefault(source.lane, len(lanes) + 1),
            source.waited,
            [gates.setdefault(gate, len(gates) + 1) for gate in source.gates],
            yields,
        )

    packed_groups = [
        [[packed_source(source) for source in tier] for tier in group.tiers] for group in groups
    ]
    packed = PACK.encode(
        ([lane_name(lane) for lane in lanes], [packed_gate(gate) for gate in gates], packed_groups)
    )
    sleeps = JSON.encode(
        {
            "lanes": [(lane_name(lane), how) for lane, how in waits.items()],
            "gates": sorted({gate.key for gate in gates if isinstance(gate, Running)}),
            "shares": sorted(
                {
                    (gate.of, lane_name(source.lane))
                    for group in groups
                    for tier in group.tiers
                    for source in tier
                    for gate in source.gates
                    if isinstance(gate, Rate) and gate.of
                }
            ),
        }
    )
    name = hashlib.sha1(sleeps, usedforsecurity=False).hexdigest()[:16]
    return Shape(name, packed, sleeps, tuple(lanes))


def packed_gate(gate: Gate) -> tuple[str, str, int, float, float, str]:
    """A gate as the script reads it; a limit of -1 only counts."""
    if isinstance(gate, Running):
        return ("running", gate.key, gate.limit, 0.0, 0.0, "")
    limit = -1 if gate.limit is None else gate.limit
    return ("rate", gate.key, limit, gate.per, gate.ratio, gate.of)


def packed_steps(steps: tuple[Take, ...]) -> bytes:
    """The steps of a plan, groups numbered from 1."""
    return PACK.encode(
        [
            (step.group + 1, step.until, step.share, step.carry, [each + 1 for each in step.of])
            for step in steps
        ]
    )
