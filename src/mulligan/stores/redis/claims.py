"""Claims, from what claim.lua and reclaim.lua give. What cannot be read is told apart."""

from itertools import islice
from typing import Any

from msgspec.structs import replace

from mulligan.core.answers import Claimed
from mulligan.core.damage import DAMAGE, set_aside
from mulligan.core.job import Claim, Lease
from mulligan.core.lane import Lane
from mulligan.core.outcome import Dead
from mulligan.core.worker import Worker
from mulligan.stores.redis.decoding import home_of, name_of, read_counts
from mulligan.stores.redis.encoding import lane_of

RECLAIMED_WIDTH = 9
PLACE_WIDTH = 16
# No text goes on so after its place.
UNKNOWN_HEADER = b"\n"
# A lease on a job that cannot be read: it is fenced by who holds it.
NO_TOKEN = 0


def claimed_of(
    answer: list[Any], lanes: tuple[Lane, ...], worker: Worker
) -> tuple[Claimed, list[Dead]]:
    """What claim.lua gave, and the ends of jobs in it that cannot be read."""
    try:
        return read_claimed(answer, lanes, worker), []
    except DAMAGE:
        return without_damaged(answer, lanes, worker)


def read_claimed(answer: list[Any], lanes: tuple[Lane, ...], worker: Worker) -> Claimed:
    """What claim.lua gave; raises what taking apart a damaged job does."""
    stamp, again_in, left, ids, texts, abouts = answer
    started, holder, region = float(stamp), worker.id, worker.region
    claims: list[Claim] = []
    jobs = zip(ids, texts, strict=True)
    for about, count in zip(abouts[::2], abouts[1::2], strict=True):
        number, due, counts, left_behind = about.split(b"\t", 3)
        queue, scope, lane_priority = lanes[int(number) - 1]
        used, retry_count, replay, snoozes = read_counts(counts)
        trail = left_behind.decode(errors="replace")
        header = UNKNOWN_HEADER
        for id_, text in islice(jobs, count):
            # Jobs that were enqueued together have all but their places and bodies in common.
            if not text.startswith(header, PLACE_WIDTH):
                _, created_at, home, task, _ = text.split(b"\t", 4)
                header = b"\t%b\t%b\t%b\t" % (created_at, home, task)
                body_at = PLACE_WIDTH + len(header)
                home_lane, name, due_at = home_of(home), name_of(task), float(due or created_at)
            claims.append(
                Claim(
                    id_.decode(),
                    int(text[:PLACE_WIDTH]) + used - 1,
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
                    trail,
                )
            )
    flags = tuple(flag == ord("1") for flag in left)
    return Claimed(claims, flags, float(again_in) if again_in else None)


def without_damaged(
    answer: list[Any], lanes: tuple[Lane, ...], worker: Worker
) -> tuple[Claimed, list[Dead]]:
    """The claims that can be read, taken apart one by one; there is more to claim at once."""
    stamp, again_in, left, ids, texts, abouts = answer
    claims: list[Claim] = []
    damaged: list[Dead] = []
    each_about = (a for a, n in zip(abouts[::2], abouts[1::2], strict=True) for _ in range(n))
    for id_, text, about in zip(ids, texts, each_about, strict=True):
        alone = [stamp, again_in, left, [id_], [text], [about, 1]]
        try:
            claims += read_claimed(alone, lanes, worker).claims
        except DAMAGE as error:
            lease = Lease(id_.decode(), NO_TOKEN)
            damaged.append(set_aside(lease, worker.region, worker.id, float(stamp), error))
    whole = read_claimed([stamp, again_in, left, [], [], []], lanes, worker)
    return replace(whole, claims=claims, again_in=0.0), damaged


def reclaimed_of(answer: list[Any]) -> tuple[list[Claim], list[Dead]]:
    """What reclaim.lua gave, and the ends of jobs in it that cannot be read."""
    claims: list[Claim] = []
    damaged: list[Dead] = []
    for at in range(0, len(answer), RECLAIMED_WIDTH):
        row = answer[at : at + RECLAIMED_WIDTH]
        try:
            claims.append(read_reclaimed(row))
        except DAMAGE as error:
            id_, worker, region = (row[number].decode() for number in (0, 6, 7))
            lease = Lease(id_, NO_TOKEN)
            damaged.append(set_aside(lease, region, worker, float(row[8]), error))
    return claims, damaged


def read_reclaimed(row: list[Any]) -> Claim:
    """One lease that was taken over; raises what taking apart a damaged job does."""
    id_, name, text, due, counts, trail, worker, region, started = row
    lane = lane_of(name.decode())
    place, created_at, home, task, body = text.split(b"\t", 4)
    _, home_region, priority = home_of(home)
    used, retry_count, replay, snoozes = read_counts(counts)
    return Claim(
        id_.decode(),
        int(place) + used - 1,
        lane.queue,
        name_of(task),
        body,
        home_region,
        priority,
        lane.scope,
        lane.priority,
        float(due or created_at),
        retry_count,
        replay,
        snoozes,
        worker.decode(),
        region.decode(),
        float(started),
        trail.decode(errors="replace"),
    )
