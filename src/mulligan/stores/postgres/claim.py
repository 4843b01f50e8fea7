"""Claims: a plan as the record that `claim` walks, and its rows as claims."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from operator import attrgetter, itemgetter
from typing import Any

import msgspec

from mulligan.core.answers import Claimed
from mulligan.core.lines import step_of
from mulligan.core.plan import Cap, ClaimPlan, Group, Limit, Source, Take
from mulligan.core.worker import Worker
from mulligan.stores.postgres.arrays import flags, numbers, texts
from mulligan.stores.postgres.database import Database
from mulligan.stores.postgres.fields import ROW_NAMES, Row, claims, lane_name, micros
from mulligan.stores.postgres.statements import PLAN
from mulligan.stores.postgres.workers import worker_json

ordinal = itemgetter(0)
of_whole = itemgetter(*map(ROW_NAMES.index, ("source", "id", "token", "due")))
of_lane = attrgetter("lane")
NO_SHARES = dict.fromkeys(("step_share", "step_carry", "step_of"))
NO_LIMITS = dict.fromkeys(name for name in PLAN.fields if "limit" in name)


async def claim(database: Database, plan: ClaimPlan, worker: Worker, channel: str) -> Claimed:
    """Walk the plan and hand its jobs to the worker; `channel` is where it is woken."""
    rows = await database.call_counting(
        "claim", self=worker_json(worker), channel=channel, plan=plan_values(plan)
    )
    return claimed(rows, plan.sources, worker)


def claimed(rows: list[Row], sources: Sequence[Source], worker: Worker) -> Claimed:
    """The rows of `claim`: the first speaks of the whole, the others are jobs."""
    stale, more, now, again_in = of_whole(rows[0])
    if stale:
        return Claimed([], stale=True)
    del rows[0]
    rows.sort(key=ordinal)
    taken = claims(rows, lanes_of(sources), (worker.id, worker.region, now / 1e6)) if rows else []
    return Claimed(taken, tuple([letter == "t" for letter in more]), again_in)


def lanes_of(sources: Sequence[Source]) -> list[tuple[str, str, int]]:
    """The lane of each source, its priority as a plain number."""
    return [(queue, scope, int(priority)) for queue, scope, priority in map(of_lane, sources)]


def plan_values(plan: ClaimPlan) -> tuple[Any, ...]:
    """A plan as the values of `claim_plan`."""
    steps = turn_steps(plan.weights) if plan.weights else None
    return planned(plan.epoch, plan.demand, plan.groups, plan.steps, steps)


def turn_steps(weights: Mapping[str, Mapping[str, float]]) -> str:
    """How far apart the turns of fairness keys are, by queue and key, as JSON."""
    steps = {
        queue: {key: step_of(weight) for key, weight in each.items()}
        for queue, each in weights.items()
    }
    return msgspec.json.encode(steps).decode()


# An idle worker claims by the same plan again and again.
@lru_cache(maxsize=100)
def planned(
    epoch: int, demand: int, groups: tuple[Group, ...], steps: tuple[Take, ...], turns: str | None
) -> tuple[Any, ...]:
    """The parts of a plan as values; SQL numbers its sources, tiers and groups from 1."""
    sources = [source for group in groups for tier in group.tiers for source in tier]
    tiers = [len(tier) for group in groups for tier in group.tiers]
    lanes, yields = lanes_of(sources), [source.yields for source in sources]
    return PLAN.values(
        {
            "epoch": epoch,
            "demand": demand,
            "lanes": texts([lane_name(source.lane) for source in sources]),
            "waits": numbers([micros(source.waited) for source in sources]),
            "yields": flags(yields) if any(yields) else None,
            "lanes_repeat": len(set(lanes)) < len(lanes),
            "tier_last": numbers(accumulate(tiers)),
            "group_last": numbers(accumulate(len(group.tiers) for group in groups)),
            "step_group": numbers([step.group + 1 for step in steps]),
            "step_until": numbers([step.until for step in steps]),
            **share_values(steps),
            **limit_values(sources),
            "turn_steps": turns,
        }
    )


def share_values(steps: Sequence[Take]) -> dict[str, str | None]:
    """The shares of a plan's steps, None where no step has any."""
    if not any(step.of for step in steps):
        return NO_SHARES
    groups = [",".join(str(group + 1) for group in step.of) for step in steps]
    return {
        "step_share": numbers([step.share for step in steps]),
        "step_carry": numbers([step.carry for step in steps]),
        "step_of": texts([each or None for each in groups]),
    }


def limit_values(sources: Sequence[Source]) -> dict[str, str | None]:
    """The limits of a plan, None where there are none; SQL numbers them and their keys from 1."""
    pairs = [(number, limit) for number, source in enumerate(sources, 1) for limit in source.limits]
    if not pairs:
        return NO_LIMITS
    limits: dict[Limit, int] = {}
    keys: dict[str, int] = {}
    for _, limit in pairs:
        limits.setdefault(limit, len(limits) + 1)
        for key in (limit.key,) if isinstance(limit, Cap) else (limit.key, limit.of):
            if key:
                keys.setdefault(key, len(keys) + 1)
    rates = [None if isinstance(limit, Cap) else limit for limit in limits]
    return {
        "limited_source": numbers([source for source, _ in pairs]),
        "source_limit": numbers([limits[limit] for _, limit in pairs]),
        "limit_key": numbers([keys[limit.key] for limit in limits]),
        "limit_is_cap": flags([rate is None for rate in rates]),
        "limit_most": numbers([limit.limit for limit in limits]),
        "limit_per": numbers([None if rate is None else micros(rate.per) for rate in rates]),
        "limit_ratio": numbers([0.0 if rate is None else rate.ratio for rate in rates]),
        "limit_of": numbers([keys[rate.of] if rate and rate.of else None for rate in rates]),
        "limit_keys": texts(list(keys)),
    }
