"""From answers of scripts to values of the contract."""

from functools import lru_cache
from typing import Any, Literal, cast
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace

from mulligan.core.damage import DAMAGE
from mulligan.core.errors import UNREADABLE
from mulligan.core.facts import Facts, QueueSettings, Region, read_settings
from mulligan.core.job import Attempt, Job, Status
from mulligan.core.lane import Lane
from mulligan.core.stats import DelayedStats, LaneStats, Stats
from mulligan.core.worker import Worker, WorkerView
from mulligan.stores.redis.counting import healths_of
from mulligan.stores.redis.encoding import lane_of

UNPACK = msgspec.msgpack.Decoder()
ATTEMPT = msgspec.json.Decoder(Attempt)
SETTINGS = msgspec.json.Decoder(QueueSettings)
WORKER = msgspec.json.Decoder(Worker)


@lru_cache(maxsize=4096)
def home_of(name: bytes) -> Lane:
    """The lane that a job was enqueued for, as its text spells it."""
    return lane_of(name.decode())


@lru_cache(maxsize=4096)
def name_of(text: bytes) -> str:
    """A name that many jobs share, read once."""
    return text.decode()


@lru_cache(maxsize=4096)
def read_counts(text: bytes) -> tuple[int, int, int, int]:
    """Tokens used, retries, replays and snoozes of a job."""
    used, retry_count, replay, snoozes = map(int, text.split())
    return used, retry_count, replay, snoozes


def attempt_of(entry: bytes) -> Attempt:
    """An attempt as its job's history keeps it; of a damaged one, that it was there."""
    ended_at, _, rest = entry.partition(b" ")
    try:
        return replace(ATTEMPT.decode(rest), ended_at=None if ended_at == b"-" else float(ended_at))
    except (*UNREADABLE, *DAMAGE) as error:
        message = f"what is stored of the attempt cannot be read ({error})"
        return Attempt(0, 0, "", "", 0.0, "Damaged", message)


def job_of(id_: str, row: list[Any]) -> Job:
    """A job from what get.lua gives of it; a damaged one is shown as far as it goes."""
    try:
        return read_job(id_, row)
    except DAMAGE:
        text, cells, lease, _, _, failure = row
        known = dict(zip(cells[::2], cells[1::2], strict=True))
        ended = known.get(b"ended", b"pending").decode(errors="replace")
        status = cast("Status", "processing" if lease else ended)
        reason = attempt_of(failure).reason if failure else None
        return Job(
            id_, "", "", "", 0, status, "", 0, 0.0, 0, 0, 0, 0, 0, 0.0, text,
            last_failure_reason=reason,
        )  # fmt: skip


def read_job(id_: str, row: list[Any]) -> Job:
    """A job from what is stored of it; raises what taking apart a damaged one does."""
    text_, cells, lease, holder, done, failure = row
    place, created_at, home, task, body = text_.split(b"\t", 4)
    known = {key.decode(): value for key, value in zip(cells[::2], cells[1::2], strict=True)}

    def text(name: str) -> str | None:
        return known[name].decode() if name in known else None

    def time(name: str) -> float | None:
        return float(known[name]) if name in known else None

    own_lane = home_of(home)
    lane = lane_of(known["lane"].decode()) if "lane" in known else own_lane
    status = cast("Status", text("ended") or "pending")
    counts, worker = known.get("counts", b"0 0 0 0"), None
    started, _, region = known.get("ran", b"").partition(b" ")
    last_retry_at, ended_at, result = time("last_retry_at"), time("ended_at"), None
    # The state learns of an attempt that is over and did not go well; of others the lease knows.
    if lease or done:
        common = done or lease.partition(b"\t")[2]
        counts, flags, _, started, region, _, *end = common.split(b"\t", 7)
        last_retry_at = float(started) if b"r" in flags else last_retry_at
        if end:
            status, ended_at, result = "done", float(end[0]), end[1][1:] if end[1] else None
        else:
            status, worker = "processing", holder.decode()
    used, retry_count, replay, snoozes = read_counts(counts)
    return Job(
        id=id_,
        queue=own_lane.queue,
        task=task.decode(),
        region=own_lane.scope,
        priority=own_lane.priority,
        status=status,
        scope=lane.scope,
        lane_priority=lane.priority,
        due=float(known.get("due", created_at)),
        sequence=int(known.get("stands_at", place)),
        token=int(place) + used - 1,
        retry_count=retry_count,
        replay=replay,
        snoozes=snoozes,
        created_at=float(created_at),
        body=body,
        unique_key=text("unique_key"),
        concurrency_key=text("concurrency_key"),
        concurrency_limit=int(known.get("concurrency_limit", 1)),
        held="held" in known,
        expires_at=time("expires_at"),
        worker=worker,
        worker_region=region.decode() or None,
        started_at=float(started) if started else None,
        last_retry_at=last_retry_at,
        ended_at=ended_at,
        result=result,
        last_failure_reason=attempt_of(failure).reason if failure else None,
        cancel_reason=text("cancel_reason"),
        trail=known.get("trail", b"").decode(errors="replace"),
        unique_in=text("unique_in"),
        awaits=int(known.get("awaits", 0)),
        gather=text("gather"),
        gather_index=int(known.get("gather_index", 0)),
    )


def facts_of(packed: bytes) -> Facts:
    """What plans are made from."""
    now, epoch, settings, regions, serving, paused, healths = UNPACK.decode(packed)
    serves: dict[str, set[str]] = {name: set() for name in sorted(regions)}
    for name in serving:
        region, *queues = map(unquote, name.split(":"))
        serves[region].update(queues)
    return Facts(
        epoch,
        {queue: read_settings(queue, text) for queue, text in settings},
        tuple(Region(name, frozenset(queues)) for name, queues in serves.items()),
        frozenset(paused),
        healths_of(healths),
        float(now),
    )


def arrivals_of(cells: list[bytes]) -> dict[int, bytes | None]:
    """What has arrived at a job, in the order of the places; a sign stands before each result."""
    pairs = zip(cells[::2], cells[1::2], strict=True)
    return dict(sorted((int(place), text[1:] if text else None) for place, text in pairs))


def stats_of(packed: bytes) -> Stats:
    """What stats.lua counted."""
    now, lanes, running, ended, delayed, workers, gathering = UNPACK.decode(packed)
    counts: dict[tuple[str, str], int] = {}
    for name, region, count in running:
        where = (lane_of(name).queue, region)
        counts[where] = counts.get(where, 0) + count
    return Stats(
        float(now),
        sorted(
            (
                LaneStats(lane_of(name), ready, later, float(oldest))
                for name, ready, later, oldest in lanes
            ),
            key=lambda each: each.lane,
        ),
        counts,
        {ended_key(name): count for name, count in ended},
        {unquote(queue): DelayedStats(*numbers) for queue, *numbers in delayed},
        [
            WorkerView(WORKER.decode(about), float(beat), float(joined), live, held)
            for about, beat, joined, live, held in workers
        ],
        {unquote(queue): count for queue, count in gathering},
    )


def ended_key(name: str) -> tuple[str, Status]:
    """Queue and status from the name of a count."""
    status, _, queue = name.partition(":")
    return unquote(queue), cast("Literal['done', 'failed', 'cancelled']", status)
