"""The facts that plans are made from: queues, regions, what is counted there, breakers."""

from collections import defaultdict
from collections.abc import Sequence

from mulligan.core.counts import Count, Counts
from mulligan.core.facts import Facts, QueueSettings, Region, read_settings
from mulligan.core.health import CLOSED, SLOT, Breaker, Health, changes_plans, first_slot
from mulligan.stores.sqlite.statements import as_json, load
from mulligan.stores.sqlite.transaction import Transaction

SQL = load("facts")
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

# A queue and a region.
Where = tuple[str, str]


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
    """Add to the sums, and say how the queues and regions named are now."""
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
