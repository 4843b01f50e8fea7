"""What crosses to PostgreSQL: plans, new jobs and outcomes as arrays, times as microseconds."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from mulligan.core.job import Adopted, Attempt, Job, NewJob
from mulligan.core.lane import Lane
from mulligan.core.outcome import Again, Cancelled, Dead, Done, Keyed, Later, Outcome, Returned
from mulligan.core.plan import Cap, ClaimPlan, Limit, Source
from mulligan.stores.postgres._arrays import (
    alike,
    bytestrings,
    flags,
    numbers,
    packed_bytes,
    packed_texts,
    sparse,
    texts,
)
from mulligan.stores.postgres._statements import JOBS

Column = TypeVar("Column", bound=str | bytes)
KINDS: dict[type, int] = {Done: 1, Again: 2, Later: 3, Dead: 4, Returned: 5, Keyed: 5, Cancelled: 6}


def micros(seconds: float) -> int:
    """Seconds as whole microseconds."""
    return round(seconds * 1e6)


def micros_or_none(seconds: float | None) -> int | None:
    """As `micros`, where there may be no time."""
    return None if seconds is None else round(seconds * 1e6)


def plain(text: str) -> str:
    """The text without NUL, which PostgreSQL cannot store."""
    return text.replace("\0", "\ufffd")


def lane_name(lane: Lane) -> str:
    """The lane as the tables name it."""
    return f"{lane.queue}\x1f{lane.scope}\x1f{int(lane.priority)}"


def job_columns(jobs: Sequence[NewJob]) -> tuple[str | None, ...]:
    """New jobs as the columns that `add` takes. One that awaits others has no delay."""
    ids, bodies = texts([job.id for job in jobs]), bytestrings([job.body for job in jobs])
    return _columns(ids, bodies, jobs)


def packed_columns(jobs: Sequence[NewJob]) -> tuple[str | bytes | None, ...]:
    """As `job_columns`, for connections of psycopg."""
    ids, bodies = packed_texts([job.id for job in jobs]), packed_bytes([job.body for job in jobs])
    return _columns(ids, bodies, jobs)


def _columns(
    ids: Column, bodies: Column, jobs: Sequence[NewJob]
) -> tuple[Column | str | None, ...]:
    return (
        ids,
        texts(alike([job.queue for job in jobs])),
        texts(alike([job.task for job in jobs])),
        bodies,
        texts(alike([job.region for job in jobs])),
        numbers([int(priority) for priority in alike([job.priority for job in jobs])]),
        numbers([micros(d) for d in alike([0.0 if job.awaits else job.delay for job in jobs])]),
        sparse(texts, [job.unique_key for job in jobs]),
        sparse(texts, [job.concurrency_key for job in jobs]),
        numbers(alike([job.concurrency_limit for job in jobs])),
        sparse(numbers, [micros_or_none(job.expires) for job in jobs]),
        sparse(texts, [job.unique_in for job in jobs]),
        sparse(numbers, [job.awaits or None for job in jobs]),
        sparse(texts, [job.gather for job in jobs]),
        sparse(numbers, [job.gather_index or None for job in jobs]),
    )


# An idle worker claims by the same plan again and again.
@lru_cache(maxsize=100)
def plan_arrays(plan: ClaimPlan) -> tuple[Any, ...]:
    """A plan as the arrays that `claim` takes, from `lanes` on; SQL numbers its sources from 1."""
    sources = plan.sources
    tier_ends: list[tuple[int, int]] = []
    group_ends: list[tuple[int, int]] = []
    seen = 0
    for group in plan.groups:
        first = len(tier_ends) + 1
        for tier in group.tiers:
            tier_ends.append((seen + 1, seen + len(tier)))
            seen += len(tier)
        group_ends.append((first, len(tier_ends)))
    lanes = [source.lane for source in sources]
    return (
        texts([lane_name(lane) for lane in lanes]),
        numbers([micros(source.waited) for source in sources]),
        flags([s.yields for s in sources]) if any(s.yields for s in sources) else None,
        numbers([first for first, _ in tier_ends]),
        numbers([last for _, last in tier_ends]),
        numbers([first for first, _ in group_ends]),
        numbers([last for _, last in group_ends]),
        numbers([step.group + 1 for step in plan.steps]),
        numbers([step.until for step in plan.steps]),
        numbers([step.share for step in plan.steps]),
        numbers([step.carry for step in plan.steps]),
        texts([",".join(str(g + 1) for g in step.of) if step.of else None for step in plan.steps]),
        len(set(lanes)) < len(lanes),
        *gate_arrays(sources),
    )


def gate_arrays(sources: Sequence[Source]) -> tuple[str | None, ...]:
    """The gates of a plan as the arrays that `claim` takes, all None where there are none."""
    pairs = [(at, gate) for at, source in enumerate(sources, 1) for gate in source.limits]
    if not pairs:
        return (None,) * 9
    gates: dict[Limit, int] = {}
    keys: dict[str, int] = {}
    for _, gate in pairs:
        gates.setdefault(gate, len(gates) + 1)
        for key in (gate.key,) if isinstance(gate, Cap) else (gate.key, gate.of):
            if key:
                keys.setdefault(key, len(keys) + 1)
    rates = [None if isinstance(gate, Cap) else gate for gate in gates]
    return (
        numbers([at for at, _ in pairs]),
        numbers([gates[gate] for _, gate in pairs]),
        numbers([keys[gate.key] for gate in gates]),
        flags([rate is None for rate in rates]),
        numbers([gate.limit for gate in gates]),
        numbers([None if rate is None else micros(rate.per) for rate in rates]),
        numbers([0.0 if rate is None else rate.ratio for rate in rates]),
        numbers([None if rate is None or not rate.of else keys[rate.of] for rate in rates]),
        texts(list(keys)),
    )


def outcome_arrays(outcomes: Sequence[Outcome], history_limit: int) -> tuple[Any, ...]:
    """Outcomes as the arrays that `commit` takes, from `kinds` on."""
    lanes = [o.lane if isinstance(o, Again) else None for o in outcomes]
    following = [
        (at, job)
        for at, outcome in enumerate(outcomes, 1)
        if isinstance(outcome, Done | Dead)
        for job in outcome.next
    ]
    return (
        numbers([KINDS[type(o)] for o in outcomes]),
        texts([o.lease.job for o in outcomes]),
        numbers([o.lease.token for o in outcomes]),
        bytestrings([o.result if isinstance(o, Done) else None for o in outcomes]),
        numbers([micros(o.delay) if isinstance(o, Again | Later) else None for o in outcomes]),
        texts([None if lane is None else lane.scope for lane in lanes]),
        numbers([None if lane is None else int(lane.priority) for lane in lanes]),
        texts([failure_json(o.failure) if isinstance(o, Again | Dead) else None for o in outcomes]),
        texts([plain(o.reason) if isinstance(o, Cancelled) else None for o in outcomes]),
        texts([plain(o.trail) if isinstance(o, Again | Keyed) else None for o in outcomes]),
        sparse(flags, [(o.free or None) if isinstance(o, Again) else None for o in outcomes]),
        sparse(texts, [o.concurrency_key if isinstance(o, Keyed) else None for o in outcomes]),
        sparse(numbers, [o.concurrency_limit if isinstance(o, Keyed) else None for o in outcomes]),
        history_limit,
        numbers([at for at, _ in following]) if following else None,
        *(job_columns([job for _, job in following]) if following else (None,) * len(JOBS)),
    )


def failure_json(failure: Attempt) -> str:
    """An attempt as history keeps it."""
    encoded = msgspec.json.encode(failure)
    if b"\\u0000" in encoded:
        words = {k: plain(v) for k, v in asdict(failure).items() if isinstance(v, str)}
        encoded = msgspec.json.encode(replace(failure, **words))
    return encoded.decode()


def adopted_json(jobs: Sequence[Adopted]) -> str:
    """Jobs of another store as `adopt` takes them."""
    return msgspec.json.encode([_adopted(*each) for each in jobs]).decode()


def _adopted(
    job: Job, history: Sequence[Attempt], arrived: Mapping[int, bytes | None]
) -> dict[str, Any]:
    times = ("due", "created_at", "expires_at", "started_at", "last_retry_at", "ended_at")
    kept = {
        name: getattr(job, name)
        for name in (
            *("id", "queue", "task", "region", "priority", "status", "scope", "lane_priority"),
            *("token", "retry_count", "replay", "snoozes"),
            *("unique_key", "unique_in", "concurrency_key", "concurrency_limit"),
            *("trail", "awaits", "gather"),
        )
    }
    stamps = {name: micros_or_none(getattr(job, name)) for name in times}
    attempts = [msgspec.Raw(failure_json(attempt).encode()) for attempt in history]
    return {
        **kept,
        **stamps,
        "gather_index": job.gather_index,
        "body64": b64encode(job.body).decode(),
        "history": attempts,
        "arrived": [
            (place, None if result is None else b64encode(result).decode())
            for place, result in arrived.items()
        ],
    }
