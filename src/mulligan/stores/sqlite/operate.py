"""What operators do with jobs, the housekeeping that every worker does, notes, counts and facts.

Facts are what plans are made from: queues, regions, what is counted there, breakers.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import takewhile

from mulligan.core.counts import Count, Counts
from mulligan.core.facts import Facts, QueueSettings, Region, read_settings
from mulligan.core.health import CLOSED, SLOT, Breaker, Health, changes_plans, first_slot
from mulligan.core.job import EXPIRED
from mulligan.stores.rules import operate as rules
from mulligan.stores.sqlite.fields import as_json
from mulligan.stores.sqlite.limits import prune_states
from mulligan.stores.sqlite.read import ended_groups
from mulligan.stores.sqlite.rows import apply, delete
from mulligan.stores.sqlite.statements import load
from mulligan.stores.sqlite.transaction import Transaction

SQL = load("operate")
_EXPIRED = SQL["expired"]
_PRUNE = SQL["prune"]
_PRUNE_KEPT = SQL["prune_kept"]
_PRUNE_NOTES = SQL["prune_notes"]
_PRUNE_COUNTS = SQL["prune_counts"]
_PRUNE_WORKERS = SQL["prune_workers"]
_KEEP_NOTE = SQL["keep_note"]
_FORGET_NOTE = SQL["forget_note"]
_LIST_NOTES = SQL["list_notes"]
_EPOCH = SQL["epoch"]
_REGIONS = SQL["regions"]
_QUEUES = SQL["queues"]
_CONFIGURE = SQL["configure"]
_PAUSE = SQL["pause"]
_COUNT = SQL["count"]
_COUNT_RECENT = SQL["count_recent"]
_COUNTS = SQL["counts"]
_RECENT_COUNTS = SQL["recent_counts"]
_COUNTED_IN = SQL["counted_in"]
_ATTEMPTS = SQL["attempts"]
_BREAKERS = SQL["breakers"]
_SWITCH = SQL["switch"]

# Long enough for an operator to see which workers were killed.
KEEP_DEAD_WORKERS = 86_400.0
# A queue and a region.
Where = tuple[str, str]


def promote(tx: Transaction, limit: int) -> int:
    """End jobs that expired before they could start; lanes need no other care."""
    ended = 0
    while ended < limit and (firsts := tx.db.execute(_EXPIRED, (tx.now, tx.now)).fetchall()):
        apply(tx, rules.cancel, [min(firsts)[2]], EXPIRED)
        ended += 1
    return ended


def prune(tx: Transaction, keep_done: float, limit: int) -> int:
    """Delete done and cancelled jobs that ended long enough ago, the oldest of each queue first.

    And notes that are past their time, counts that are no longer recent, workers long dead.
    """
    before = tx.now - keep_done
    gone: list[int] = []
    for queue, status in ended_groups(tx):
        for statement, time in ((_PRUNE_KEPT, tx.now), (_PRUNE, before)):
            if status != "failed" and len(gone) < limit:
                rows = tx.db.execute(statement, (queue, status, time, limit - len(gone)))
                gone += [number for (number,) in rows]
    delete(tx, gone)
    prune_states(tx)
    tx.db.execute(_PRUNE_NOTES, (tx.now,))
    tx.db.execute(_PRUNE_COUNTS, (first_slot(tx.now, CLOSED),))
    tx.db.execute(_PRUNE_WORKERS, (tx.now - KEEP_DEAD_WORKERS,))
    return len(gone)


def note(tx: Transaction, key: str, value: bytes | None, keep: float) -> None:
    """Keep the value, or forget the one that was kept."""
    if value is None:
        tx.db.execute(_FORGET_NOTE, (key,))
    else:
        tx.db.execute(_KEEP_NOTE, (key, value, tx.now + keep))


def notes(tx: Transaction, prefix: str) -> dict[str, bytes]:
    """The values whose keys begin so: in order of key they stand together, from the prefix on."""
    found = tx.db.execute(_LIST_NOTES, (prefix, tx.now))
    return dict(takewhile(lambda row: row[0].startswith(prefix), found))


def facts(tx: Transaction) -> Facts:
    """What plans are made from, at this instant."""
    epoch = tx.db.execute(_EPOCH).fetchone()[0]
    settings, paused = queues(tx)
    return Facts(epoch, settings, regions(tx), paused, health(tx), tx.now)


def queues(tx: Transaction) -> tuple[dict[str, QueueSettings], frozenset[str]]:
    """The settings of queues, and which of them are paused."""
    rows = tx.db.execute(_QUEUES).fetchall()
    settings = {name: read_settings(name, text) for name, text, _ in rows if text is not None}
    return settings, frozenset(name for name, _, paused in rows if paused)


def regions(tx: Transaction) -> tuple[Region, ...]:
    """Every region that has had a worker, with the queues that live ones serve."""
    serves: dict[str, set[str]] = defaultdict(set)
    for name, queue in tx.db.execute(_REGIONS, (tx.now,)):
        serves[name] |= set() if queue is None else {queue}
    return tuple(Region(name, frozenset(served)) for name, served in serves.items())


def configure(tx: Transaction, queue: str, settings: QueueSettings) -> None:
    """Store the queue's settings, if they are new."""
    # As they read when they come back, so that 2 and 2.0 are the same settings.
    text = as_json(read_settings(queue, as_json(settings)))
    if tx.db.execute(_CONFIGURE, (queue, text)).rowcount:
        tx.change_facts()


def pause(tx: Transaction, queue: str, *, paused: bool) -> None:
    """Store whether the queue is paused, if that is new."""
    held = {name for name, _, is_paused in tx.db.execute(_QUEUES) if is_paused}
    if (queue in held) != paused:
        tx.db.execute(_PAUSE, (queue, paused))
        tx.change_facts()


def count(tx: Transaction, counts: Sequence[Count]) -> dict[Where, Health]:
    """Add to the sums; returns the health of the queues and regions named."""
    slot = tx.now // SLOT * SLOT
    tx.db.executemany(_COUNT, counts)
    tx.db.executemany(_COUNT_RECENT, [(*names, slot, value) for *names, value in counts])
    known = breakers(tx)
    named = {(each.queue, each.region) for each in counts}
    return {each: health_of(tx, each, known.get(each, CLOSED)) for each in named}


def counts(tx: Transaction) -> Counts:
    """All that was counted."""
    ever = tx.db.execute(_COUNTS)
    recent = tx.db.execute(_RECENT_COUNTS, (first_slot(tx.now, CLOSED),))
    return Counts(
        {(queue, region, name): value for queue, region, name, value in ever},
        {(queue, region, name): value for queue, region, name, value in recent},
    )


def health(tx: Transaction) -> dict[Where, Health]:
    """How attempts went lately, wherever something was counted or a breaker is known."""
    known = breakers(tx)
    counted = {*known, *tx.db.execute(_COUNTED_IN, (first_slot(tx.now, CLOSED),))}
    return {each: health_of(tx, each, known.get(each, CLOSED)) for each in counted}


def health_of(tx: Transaction, where: Where, breaker: Breaker) -> Health:
    """How attempts went there since the breaker turned, or in the last minute."""
    bounds = (*where, first_slot(tx.now, breaker))
    succeeded, failed = tx.db.execute(_ATTEMPTS, bounds).fetchone()
    return Health(int(succeeded), int(failed), breaker)


def breakers(tx: Transaction) -> dict[Where, Breaker]:
    """Every breaker that has been switched."""
    return {
        (queue, region): Breaker(bool(open_), since, probes, probed_at)
        for queue, region, open_, since, probes, probed_at in tx.db.execute(_BREAKERS)
    }


def switch(tx: Transaction, queue: str, region: str, before: Breaker, after: Breaker) -> bool:
    """Replace the breaker if it is still as it was."""
    if breakers(tx).get((queue, region), CLOSED) != before:
        return False
    since = tx.now if before.open != after.open else before.since
    tx.db.execute(_SWITCH, (queue, region, after.open, since, after.probes, after.probed_at))
    if changes_plans(before, after):
        tx.change_facts()
    return True
