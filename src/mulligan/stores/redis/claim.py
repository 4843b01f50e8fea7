"""Claims: a plan as claim.lua reads it, and the jobs that it gives."""

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mulligan.core.answers import Claimed
from mulligan.core.job import Claim, Lease
from mulligan.core.lane import Lane
from mulligan.core.lines import step_of
from mulligan.core.outcome import Dead
from mulligan.core.plan import Cap, ClaimPlan, Group, Limit, Rate, Source, Take
from mulligan.core.validation import INVALID_RECORD, dead_record
from mulligan.core.worker import Worker
from mulligan.stores.redis.connection import Value
from mulligan.stores.redis.fields import (
    JSON,
    LISTED,
    PACK,
    claim_state,
    escape,
    escape_key,
    home_of,
    lane_name,
    name_of,
    read_counts,
)

# How many digits a job's text begins with.
SEQUENCE_WIDTH = 16
# A header that no job has: none has been read yet.
UNKNOWN_HEADER = b"\n"
# The token in a lease on a job that cannot be read: fail_invalid.lua asks who holds it instead.
NO_TOKEN = 0


class Shape(Struct, frozen=True):
    """What plans that differ only in numbers have in common, as the claim script reads it."""

    name: str
    values: tuple[Value, ...]
    lanes: tuple[Lane, ...]


class EncodedPlan(Struct, frozen=True):
    """A plan as the claim script reads it, and the lanes that its answer names by number."""

    values: tuple[Value, ...]
    lanes: tuple[Lane, ...]


def encode_plan(plan: ClaimPlan) -> EncodedPlan:
    """The plan for the script."""
    encoded = encode_unweighted(plan.demand, plan.groups, plan.steps, plan.epoch)
    if not plan.weights:
        return encoded
    steps = {
        escape(queue): {escape_key(key): step_of(weight) for key, weight in weights.items()}
        for queue, weights in plan.weights.items()
    }
    return EncodedPlan((*encoded.values[:-1], JSON.encode(steps)), encoded.lanes)


@lru_cache(maxsize=1024)
def encode_unweighted(
    demand: int, groups: tuple[Group, ...], steps: tuple[Take, ...], epoch: int
) -> EncodedPlan:
    """The plan but for the weights of keys; a worker asks by the same one again and again."""
    plan = ClaimPlan(demand, groups, steps, epoch)
    shape = shape_of(groups)
    numbers = (epoch, demand, packed_steps(steps), unlimited_lanes(plan, shape))
    return EncodedPlan((*numbers, shape.name, *shape.values, ""), shape.lanes)


@lru_cache(maxsize=256)
def shape_of(groups: tuple[Group, ...]) -> Shape:
    """The shape of a plan with these groups; workers of one shape wait for the same things."""
    sources: dict[Lane, list[tuple[object, ...]]] = {}
    waits: dict[Lane, str] = {}
    limits: set[Limit] = set()
    shares: set[tuple[str, str]] = set()
    for group, tier, source in numbered(groups):
        yields = source.yields and source.waited > 0
        waits[source.lane] = f"{source.waited!r} yields" if yields else repr(source.waited)
        sources.setdefault(source.lane, []).append(
            (group, tier, source.waited, yields, [packed_limit(limit) for limit in source.limits])
        )
        limits.update(source.limits)
        shares.update(
            (limit.of, lane_name(source.lane))
            for limit in source.limits
            if isinstance(limit, Rate) and limit.of
        )
    sleeps = JSON.encode(
        {
            "lanes": [(lane_name(lane), how) for lane, how in waits.items()],
            "limits": sorted({limit.key for limit in limits if isinstance(limit, Cap)}),
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


def packed_limit(limit: Limit) -> tuple[str, str, int, float, float, str]:
    """A limit as the script reads it; one of -1 starts only counts."""
    if isinstance(limit, Cap):
        return ("running", limit.key, limit.limit, 0.0, 0.0, "")
    most = -1 if limit.limit is None else limit.limit
    return ("rate", limit.key, most, limit.per, limit.ratio, limit.of)


def unlimited_lanes(plan: ClaimPlan, shape: Shape) -> str:
    """For each lane of the shape a 1 if all its due jobs may start when no other lane has jobs."""
    unshared = {step.group for step in plan.steps if not step.of and step.until >= plan.demand}
    unlimited = {
        lane
        for lane, [(group, _, source), *others] in plan.spots.items()
        if lane.priority in LISTED and not others and group in unshared and source == Source(lane)
    }
    return "".join("1" if lane in unlimited else "0" for lane in shape.lanes)


def packed_steps(steps: tuple[Take, ...]) -> bytes:
    """The steps of a plan, groups numbered from 1."""
    return PACK.encode(
        [
            (step.group + 1, step.until, step.share, step.carry, [each + 1 for each in step.of])
            for step in steps
        ]
    )


def claimed_of(
    answer: list[Any], lanes: tuple[Lane, ...], worker: Worker
) -> tuple[Claimed, list[Dead]]:
    """What claim.lua gave, and the ends of jobs in it that cannot be read."""
    try:
        return read_claimed(answer, lanes, worker), []
    except INVALID_RECORD:
        return without_invalid(answer, lanes, worker)


def read_claimed(answer: list[Any], lanes: tuple[Lane, ...], worker: Worker) -> Claimed:
    """What claim.lua gave; raises what taking apart an invalid job does."""
    stamp, again_in, left, ids, texts, abouts = answer
    started, holder, region = float(stamp), worker.id, worker.region
    claims: list[Claim] = []
    jobs = zip(ids, texts, strict=True)
    for about, count, state in zip(abouts[::3], abouts[1::3], abouts[2::3], strict=True):
        number, counts, *named = about.split(b"\t", 2)
        queue, scope, lane_priority = lanes[int(number) - 1]
        used, retry_count, replay, snoozes = read_counts(counts)
        due = state[0] if state else None
        limits = name_of(named[0]) if named else None
        header = UNKNOWN_HEADER
        for id_, text in islice(jobs, count):
            # Jobs that were enqueued together have all but their sequences and bodies in common.
            if not text.startswith(header, SEQUENCE_WIDTH):
                _, created_at, home, task, _ = text.split(b"\t", 4)
                header = b"\t%b\t%b\t%b\t" % (created_at, home, task)
                body_at = SEQUENCE_WIDTH + len(header)
                home_lane, name, due_at = home_of(home), name_of(task), float(due or created_at)
            # By position: by name takes several times as long, for each of up to a thousand.
            claims.append(
                Claim(
                    id_.decode(),
                    int(text[:SEQUENCE_WIDTH]) + used - 1,
                    queue,
                    name,
                    text[body_at:],
                    home_lane.scope,
                    home_lane.priority,
                    scope,
                    lane_priority,
                    due_at,
                    retry_count,
                    replay,
                    snoozes,
                    holder,
                    region,
                    started,
                    "",
                    limits,
                )
            )
        if state:  # of one job
            claims[-1] = replace(claims[-1], **claim_state(state[3:]))
    flags = tuple(flag == ord("1") for flag in left)
    return Claimed(claims, flags, float(again_in) if again_in else None)


def without_invalid(
    answer: list[Any], lanes: tuple[Lane, ...], worker: Worker
) -> tuple[Claimed, list[Dead]]:
    """The claims that can be read, taken apart one by one; there is more to claim at once."""
    stamp, again_in, left, ids, texts, abouts = answer
    claims: list[Claim] = []
    invalid: list[Dead] = []
    runs = zip(abouts[::3], abouts[1::3], abouts[2::3], strict=True)
    each_about = ((about, 1, state) for about, count, state in runs for _ in range(count))
    for id_, text, about in zip(ids, texts, each_about, strict=True):
        alone = [stamp, again_in, left, [id_], [text], about]
        try:
            claims += read_claimed(alone, lanes, worker).claims
        except INVALID_RECORD as error:
            lease = Lease(id_.decode(), NO_TOKEN)
            invalid.append(dead_record(lease, worker.region, worker.id, float(stamp), error))
    whole = read_claimed([stamp, again_in, left, [], [], []], lanes, worker)
    return replace(whole, claims=claims, again_in=0.0), invalid
