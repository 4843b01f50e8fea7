"""What a run has shown: its history checked, its faults and recoveries counted."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from mulligan.stores import make_store
from tests.chaos.durations import longest_left, longest_return, longest_silence
from tests.history import (
    INVARIANTS,
    AnyEvent,
    Fault,
    Invariant,
    Stock,
    Violation,
    check,
    in_order,
    load,
    take_stock,
)
from tests.history.events import Claim, Commit, Configure, Enqueue, Reclaim, Report
from tests.history.queues import LanesKeepOrder
from tests.history.room import RoomIsUsed
from tests.history.shares import SharesAreKept
from tests.history.turns import KeysTakeTurns

# Word that a lease is lost goes from one thread to another, on a machine that is busy.
TOLD_WITHIN = 2.0
# How late a sleeping worker may start what fell due, in peace, on such a machine.
WOKEN_WITHIN = 15.0
# PostgreSQL's WAL writer is three rounds of 0.2 s behind at most, when it gets to run.
UNWRITTEN = 2.0


class Judgement(NamedTuple):
    """The figures of a run."""

    events: int
    jobs: int
    done: int
    failed: int
    cancelled: int
    lost: int
    stale: int
    reclaimed: int
    unanswered: int
    longest_silence: float
    longest_return: float
    longest_left: float
    violations: list[Violation]


def judge(folder: Path, url: str, calm_from: float) -> Judgement:
    """Read what every process wrote and what is stored, when nobody is at work any more.

    From the moment when it was calm, more is held against a store: see `promised_by`.
    """
    events = load(folder.glob("*.jsonl"))
    if url.startswith("mongodb"):
        events = parted(events)
    if url.startswith("postgresql"):
        events = forgetful(events)
    events = in_order(events)
    stock = asyncio.run(stored(url))
    statuses = [job.status for job in stock.jobs]
    return Judgement(
        events=len(events),
        jobs=len(stock.jobs),
        done=statuses.count("done"),
        failed=statuses.count("failed"),
        cancelled=statuses.count("cancelled"),
        lost=len(accepted(events) - {job.id for job in stock.jobs}),
        stale=sum((event.verdicts or []).count("stale") for event in commits(events)),
        reclaimed=sum(len(event.taken or ()) for event in events if isinstance(event, Reclaim)),
        unanswered=sum(event.ended is None for event in events),
        longest_silence=longest_silence(events),
        longest_return=longest_return(events),
        longest_left=longest_left(events),
        violations=[
            *check([*events, stock], promised_by(url), told_within=TOLD_WITHIN),
            *check(
                since(calm_from, events),
                promised_by(url, in_peace=True),
                told_within=TOLD_WITHIN,
                woken_within=WOKEN_WITHIN,
            ),
        ],
    )


def since(began: float, events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """The events of a time that began when all work had ended, and all settings and limits.

    Nothing is known of the jobs before, and nothing happens to them but that they are counted.
    """
    return [
        event
        for event in events
        if isinstance(event, Configure) or (event.began >= began and not isinstance(event, Report))
    ]


def promised_by(url: str, *, in_peace: bool = False) -> list[type[Invariant]]:
    """What the store promises while processes and connections die, or in peace.

    Order, turns and shares within a lane are kept by who claims. MongoDB has no transactions: what
    is on its way to a lane has its due time already, and others pass it; and of the jobs that a
    claim chose by their shares others may take some, and who lost to another stands back; a permit
    that a claim lost to another is free again a moment later. A claim of PostgreSQL passes by jobs
    that another has locked, whose connection may then be cut.
    """
    turns = (LanesKeepOrder, KeysTakeTurns, RoomIsUsed)
    always: dict[str, tuple[type[Invariant], ...]] = {"mongodb": (*turns, SharesAreKept)}
    at_war = {"postgresql": turns}
    but = (always if in_peace else always | at_war).get(url.partition(":")[0], ())
    return [each for each in INVARIANTS if each not in but]


def parted(events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """The events of a store that treats the jobs of a batch one by one, an event for each job.

    MongoDB has no transactions here: of two claims at a time, each may be first for some jobs.
    """
    parts: list[AnyEvent] = []
    for event in events:
        match event:
            case Claim(taken=[_, *_] as taken) | Reclaim(taken=[_, *_] as taken):
                parts += [replace(event, taken=[each]) for each in taken]
            case Commit(verdicts=[_, *_] as verdicts):
                pairs = zip(event.endings, verdicts, strict=True)
                parts += [replace(event, endings=[e], verdicts=[v]) for e, v in pairs]
            case _:
                parts.append(event)
    return parts


def forgetful(events: Sequence[AnyEvent]) -> list[AnyEvent]:
    """The events of a store whose counts of the last moments before a crash may be lost.

    PostgreSQL adds them without waiting for the disk: those are as good as not answered.
    """
    kills = [e.began for e in events if isinstance(e, Fault) and e.what == "server killed"]
    return [
        replace(event, ended=None)
        if isinstance(event, Report)
        and event.ended is not None
        and any(event.began <= kill <= event.ended + UNWRITTEN for kill in kills)
        else event
        for event in events
    ]


async def stored(url: str) -> Stock:
    """All that is in the store."""
    store = make_store(url)
    await store.open()
    try:
        return await take_stock(store, rest=True)
    finally:
        await store.close()


def accepted(events: Iterable[AnyEvent]) -> set[str]:
    """The jobs that a producer was told are stored, and the next stages of finished ones."""
    ids: set[str] = set()
    for event in events:
        if isinstance(event, Enqueue):
            ids.update(answer.id for answer in event.answers or ())
        elif isinstance(event, Commit):
            for ending, verdict in zip(event.endings, event.verdicts or (), strict=False):
                if verdict == "written":
                    ids.update(new.id for new in ending.next)
    return ids


def commits(events: Iterable[AnyEvent]) -> list[Commit]:
    """Every commit."""
    return [event for event in events if isinstance(event, Commit)]
