"""What comes back from PostgreSQL: rows as the values of the contract."""

from collections.abc import Sequence
from typing import Any

import msgspec

from mulligan.core.answers import Claimed
from mulligan.core.facts import Facts, Region, read_settings
from mulligan.core.health import Breaker, Health
from mulligan.core.job import Attempt, Claim, Job
from mulligan.core.lane import Lane
from mulligan.core.plan import Source
from mulligan.core.stats import DelayedStats, LaneStats, Stats
from mulligan.core.worker import Worker, WorkerView

Row = tuple[Any, ...]
# A failure as it is stored, in words.
REASON = "{type}: {message}"


def claimed(rows: list[Row], sources: Sequence[Source], worker: Worker) -> Claimed:
    """The rows of `claim`: the first speaks of the whole, the others are jobs."""
    _, stale, _, now, more, _, _, _, again, *_ = rows[0]
    if stale:
        return Claimed([], stale=True)
    rows.sort(key=_ordinal)
    started, who, where = now / 1e6, worker.id, worker.region
    lanes = [source.lane for source in sources]
    claims = []
    for (
        _,
        source,
        job,
        token,
        task,
        body,
        region,
        priority,
        due,
        retries,
        replay,
        snoozes,
        trail,
    ) in rows[1:]:
        queue, scope, level = lanes[source - 1]
        at = due / 1e6
        claims.append(
            Claim(
                job, token, queue, task, body, region, priority, scope, int(level), at, retries,
                replay, snoozes, who, where, started, trail,
            )
        )  # fmt: skip
    left = tuple(letter == "t" for letter in more)
    return Claimed(claims, left, None if again is None else again / 1e6)


def _ordinal(row: Row) -> int:
    number: int = row[0]
    return number


def reclaimed(row: Row) -> Claim:
    """A row of `reclaim`."""
    job, token, queue, task, body, region, priority, scope, level, due, *counts = row
    retries, replay, snoozes, worker, worker_region, started_at, trail = counts
    at, started = due / 1e6, started_at / 1e6
    return Claim(
        job, token, queue, task, body, region, priority, scope, level, at, retries, replay,
        snoozes, worker, worker_region, started, trail,
    )  # fmt: skip


def facts(row: Sequence[Any]) -> Facts:
    """The facts as `facts` gives them, and `beat` in the end."""
    epoch, queues, regions, paused, health, now = row
    return Facts(
        epoch,
        {name: read_settings(name, settings) for name, settings in queues.items()},
        tuple(Region(name, frozenset(serves)) for name, serves in sorted(regions.items())),
        frozenset(paused),
        healths(health),
        now / 1e6,
    )


def healths(document: list[Any]) -> dict[tuple[str, str], Health]:
    """The document of `health`."""
    return {
        (queue, region): Health(
            int(good), int(bad), Breaker(is_open, since / 1e6, probes, probed_at / 1e6)
        )
        for queue, region, good, bad, is_open, since, probes, probed_at in document
    }


def job(row: Row) -> Job:
    """A row of `every_job`."""
    id_, queue, task, region, priority, status, scope, lane_priority, due, sequence, token = row[
        :11
    ]
    retry_count, replay, snoozes, created_at, body, unique_key, concurrency_key = row[11:18]
    limit, held, expires_at, worker, worker_region, started_at, last_retry_at = row[18:25]
    ended_at, result, cancel_reason, trail, unique_in, awaits, gather, gather_index = row[25:33]
    last_failure = row[35]
    return Job(
        id=id_,
        queue=queue,
        task=task,
        region=region,
        priority=priority,
        status=status,
        scope=scope,
        lane_priority=lane_priority,
        due=due / 1e6,
        sequence=sequence,
        token=token,
        retry_count=retry_count,
        replay=replay,
        snoozes=snoozes,
        created_at=created_at / 1e6,
        body=body,
        unique_key=unique_key,
        concurrency_key=concurrency_key,
        concurrency_limit=limit,
        held=held,
        expires_at=seconds(expires_at),
        worker=worker,
        worker_region=worker_region,
        started_at=seconds(started_at),
        last_retry_at=seconds(last_retry_at),
        ended_at=seconds(ended_at),
        result=result,
        last_failure_reason=None if last_failure is None else REASON.format_map(last_failure),
        cancel_reason=cancel_reason,
        trail=trail,
        unique_in=unique_in,
        awaits=awaits,
        gather=gather,
        gather_index=gather_index,
    )


def place(row: Row) -> int:
    """The place of a row of `every_job` among all jobs."""
    number: int = row[33]
    return number


def attempt(failure: dict[str, Any]) -> Attempt:
    """A stored attempt."""
    return msgspec.convert(failure, Attempt)


def stats(document: dict[str, Any]) -> Stats:
    """The document of `stats`."""
    return Stats(
        document["now"] / 1e6,
        sorted(
            (
                LaneStats(Lane(queue, scope, priority), ready, delayed, oldest / 1e6)
                for queue, scope, priority, ready, delayed, oldest in document["lanes"]
            ),
            key=lambda lane: lane.lane,
        ),
        {(queue, region): many for queue, region, many in document["running"]},
        {(queue, status): many for queue, status, many in document["ended"]},
        {queue: DelayedStats(*counts) for queue, *counts in document["delayed"]},
        [
            WorkerView(msgspec.convert(me, Worker), beat / 1e6, joined / 1e6, live, int(running))
            for me, beat, joined, live, running in document["workers"]
        ],
        document["gathering"],
    )


def seconds(micros: int | None) -> float | None:
    """Microseconds as seconds, where there is a time."""
    return None if micros is None else micros / 1e6
