"""From values of the contract to arguments of scripts."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from mulligan.core.errors import InvalidError
from mulligan.core.job import NewJob
from mulligan.core.lane import Lane, Priority
from mulligan.core.outcome import Again, Cancelled, Dead, Done, Keyed, Later, Outcome, Returned
from mulligan.core.plan import Cap, ClaimPlan, Group, Limit, Rate, Source, Take
from mulligan.stores.redis.server import Value

KINDS = {
    int(Priority.NORMAL): "fresh",
    int(Priority.RETRY): "retry",
    int(Priority.URGENT): "urgent",
    int(Priority.URGENT_RETRY): "urgent-retry",
}
PRIORITIES = {kind: priority for priority, kind in KINDS.items()}
# Those whose lanes are lists.
LISTED = (Priority.NORMAL, Priority.URGENT)
JSON = msgspec.json.Encoder()
PACK = msgspec.msgpack.Encoder()
NO_OPTIONS = b"{}"
RUN_WIDTH, JOB_WIDTH = 4, 2  # as in shared/adding.lua


def escape(name: str) -> str:
    """The name without the colon that separates the parts of a key."""
    return name.replace("%", "%25").replace(":", "%3A")


def lane_name(lane: Lane) -> str:
    """The lane as its key spells it."""
    return spelled(*lane)


@lru_cache(maxsize=4096)
def spelled(queue: str, scope: str, priority: int) -> str:
    """A lane's kind, queue and scope with colons between."""
    kind = KINDS.get(priority, str(int(priority)))
    return f"{kind}:{escape(untabbed(queue))}:{escape(untabbed(scope))}"


@lru_cache(maxsize=4096)
def lane_of(name: str) -> Lane:
    """The lane that a key spells."""
    kind, queue, scope = name.split(":")
    priority = PRIORITIES[kind] if kind in PRIORITIES else int(kind)
    return Lane(unquote(queue), unquote(scope), priority)


class Options(Struct, omit_defaults=True):
    """What is out of the ordinary about a new job; of an ordinary one nothing is written."""

    unique_key: str | None = None
    unique_in: str | None = None
    concurrency_key: str | None = None
    concurrency_limit: int = 1
    expires: float | None = None
    awaits: int = 0
    gather: str | None = None
    gather_index: int = 0


# What the jobs of a run have in common.
run_of = attrgetter("queue", "region", "priority", "delay", *Options.__struct_fields__)


def runs_values(jobs: Iterable[NewJob]) -> list[Value]:
    """New jobs as shared/adding.lua reads them: cut where the lane or what goes with it changes."""
    values: list[Value] = []
    for (queue, region, priority, delay, *options), run in groupby(jobs, run_of):
        more = JSON.encode(Options(*options))
        start = len(values)
        values += (
            spelled(queue, region, priority),
            repr(float(delay)) if delay else "0",
            b"" if more == NO_OPTIONS else more,
            0,
        )
        for job in run:
            values += (untabbed(job.id), heading(job.task) + job.body)
        values[start + 3] = (len(values) - start - RUN_WIDTH) // JOB_WIDTH
    return values


@lru_cache(maxsize=4096)
def heading(task: str) -> bytes:
    """What stands before a body; a tab in a name would end it too soon."""
    return f"{untabbed(task)}\t".encode()


def untabbed(name: str) -> str:
    """The name, or a refusal of one that would break a line of fields."""
    if "\t" in name:
        raise InvalidError(f"name {name!r} has a tab; remove it")
    return name


def commit_values(outcomes: Sequence[Outcome]) -> list[Value]:
    """What commit.lua reads after the time and the worker."""
    letters: list[str] = []
    data: list[Value] = []
    for outcome in outcomes:
        if type(outcome) is Done and not outcome.next:
            if outcome.result is None:
                letters.append("d")
            else:
                letters.append("v")
                data.append(outcome.result)
        else:
            letter, *values = outcome_values(outcome)
            letters.append(str(letter))
            data += values
    ids, tokens = zip(*[outcome.lease for outcome in outcomes], strict=True)
    kinds = "".join(f"{letter}{len(list(run))}" for letter, run in groupby(letters))
    once = int(len(set(ids)) == len(ids))
    return [once, len(ids), kinds, *ids, *token_texts(tokens), *data]


def token_texts(tokens: Iterable[int]) -> Iterable[str]:
    """Tokens as leases begin with them."""
    return map("%016d".__mod__, tokens)


def outcome_values(outcome: Outcome) -> list[Value]:
    """The letter for an outcome, and what goes with it."""
    match outcome:
        case Done(_, result, following):
            values, kept = runs_values(following), [] if result is None else [result]
            return ["w" if kept else "n", *kept, len(values), *values]
        case Again(_, lane, delay, failure, trail, free):
            values = [lane_name(Lane(*lane)), repr(float(delay)), JSON.encode(failure), trail]
            return ["f" if free else "a", *values]
        case Later(_, delay):
            return ["l", repr(float(delay))]
        case Dead(_, failure, following):
            values = runs_values(following)
            return ["x", JSON.encode(failure), len(values), *values]
        case Keyed(_, key, limit, trail):
            return ["k", key, limit, trail]
        case Returned() | Cancelled():
            return ["r"] if isinstance(outcome, Returned) else ["c", outcome.reason]


class Shape(Struct, frozen=True):
    """What plans that differ only in numbers have in common, as the claim script reads it."""

    name: str
    values: tuple[Value, ...]
    lanes: tuple[Lane, ...]


class Asked(Struct, frozen=True):
    """A plan as the claim script reads it, and the lanes that its answer names by number."""

    values: tuple[Value, ...]
    lanes: tuple[Lane, ...]


@lru_cache(maxsize=1024)
def asked_by(plan: ClaimPlan) -> Asked:
    """The plan for the script; a worker asks by the same one again and again."""
    shape = shape_of(plan.groups)
    steps, plain = packed_steps(plan.steps), plain_lanes(plan, shape)
    numbers = (plan.epoch, plan.demand, steps, plain)
    return Asked((*numbers, shape.name, *shape.values), shape.lanes)


@lru_cache(maxsize=256)
def shape_of(groups: tuple[Group, ...]) -> Shape:
    """The shape of a plan with these groups; workers of one shape wait for the same things."""
    sources: dict[Lane, list[tuple[object, ...]]] = {}
    waits: dict[Lane, str] = {}
    gates: set[Limit] = set()
    shares: set[tuple[str, str]] = set()
    for group, tier, source in numbered(groups):
        yields = source.yields and source.waited > 0
        waits[source.lane] = f"{source.waited!r} yields" if yields else repr(source.waited)
        sources.setdefault(source.lane, []).append(
            (group, tier, source.waited, yields, [packed_gate(gate) for gate in source.limits])
        )
        gates.update(source.limits)
        shares.update(
            (gate.of, lane_name(source.lane))
            for gate in source.limits
            if isinstance(gate, Rate) and gate.of
        )
    sleeps = JSON.encode(
        {
            "lanes": [(lane_name(lane), how) for lane, how in waits.items()],
            "gates": sorted({gate.key for gate in gates if isinstance(gate, Cap)}),
            "shares": sorted(shares),
        }
    )
    values: tuple[Value, ...] = (
        sleeps,
        " ".join(str(len(group.tiers)) for group in groups),
        len(sources),
        *map(lane_name, sources),
        *map(PACK.encode, sources.values()),
    )
    name = hashlib.sha1(sleeps, usedforsecurity=False).hexdigest()[:16]
    return Shape(name, values, tuple(sources))


def numbered(groups: tuple[Group, ...]) -> Iterator[tuple[int, int, Source]]:
    """Every source of a plan, with the numbers from 1 of its group and its tier."""
    for number, group in enumerate(groups, 1):
        for tier, sources in enumerate(group.tiers, 1):
            for source in sources:
                yield number, tier, source


def packed_gate(gate: Limit) -> tuple[str, str, int, float, float, str]:
    """A gate as the script reads it; a limit of -1 only counts."""
    if isinstance(gate, Cap):
        return ("running", gate.key, gate.limit, 0.0, 0.0, "")
    limit = -1 if gate.limit is None else gate.limit
    return ("rate", gate.key, limit, gate.per, gate.ratio, gate.of)


def plain_lanes(plan: ClaimPlan, shape: Shape) -> str:
    """For each lane of the shape a 1 if all that is due there may start when no other has jobs."""
    unshared = {step.group for step in plan.steps if not step.of and step.until >= plan.demand}
    plain = {
        lane
        for lane, [(group, _, source), *others] in plan.spots.items()
        if lane.priority in LISTED and not others and group in unshared and source == Source(lane)
    }
    return "".join("1" if lane in plain else "0" for lane in shape.lanes)


def packed_steps(steps: tuple[Take, ...]) -> bytes:
    """The steps of a plan, groups numbered from 1."""
    return PACK.encode(
        [
            (step.group + 1, step.until, step.share, step.carry, [each + 1 for each in step.of])
            for step in steps
        ]
    )
