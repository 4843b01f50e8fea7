"""What is counted by queue and region, and the breakers that follow from it."""

from collections.abc import Sequence

from mulligan.core.counts import Count, Counts
from mulligan.core.health import CLOSED, SLOT, Breaker, Health, changes_plans, first_slot
from mulligan.stores.sqlite._sql import load
from mulligan.stores.sqlite._transaction import Transaction

_ADD = load("tally_add")
_ADD_RECENT = load("recent_add")
_EVER = load("tally_list")
_RECENT = load("recent_list")
_PLACES = load("recent_places")
_ATTEMPTS = load("recent_attempts")
_BREAKERS = load("breaker_list")
_SWITCH = load("breaker_switch")

Place = tuple[str, str]


def count(tx: Transaction, counts: Sequence[Count]) -> dict[Place, Health]:
    """Add to the sums, and say how the queues and regions named are now."""
    slot = tx.now // SLOT * SLOT
    tx.db.executemany(_ADD, counts)
    tx.db.executemany(_ADD_RECENT, [(*names, slot, value) for *names, value in counts])
    known = breakers(tx)
    places = {(each.queue, each.region) for each in counts}
    return {place: health_of(tx, place, known.get(place, CLOSED)) for place in places}


def counts(tx: Transaction) -> Counts:
    """All that was counted."""
    ever, recent = tx.db.execute(_EVER), tx.db.execute(_RECENT, (first_slot(tx.now, CLOSED),))
    return Counts(
        {(queue, region, name): value for queue, region, name, value in ever},
        {(queue, region, name): value for queue, region, name, value in recent},
    )


def health(tx: Transaction) -> dict[Place, Health]:
    """How attempts went lately, wherever something was counted or a breaker is known."""
    known = breakers(tx)
    places = {*known, *tx.db.execute(_PLACES, (first_slot(tx.now, CLOSED),))}
    return {place: health_of(tx, place, known.get(place, CLOSED)) for place in places}


def health_of(tx: Transaction, place: Place, breaker: Breaker) -> Health:
    """How attempts went there since the breaker turned, or in the last minute."""
    bounds = (*place, first_slot(tx.now, breaker))
    succeeded, failed = tx.db.execute(_ATTEMPTS, bounds).fetchone()
    return Health(int(succeeded), int(failed), breaker)


def breakers(tx: Transaction) -> dict[Place, Breaker]:
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
