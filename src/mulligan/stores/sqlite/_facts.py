"""The facts that plans are made from, and what changes them."""

from collections import defaultdict

from mulligan.core.facts import Facts, QueueSettings, Region, read_settings
from mulligan.stores.sqlite._counting import health
from mulligan.stores.sqlite._sql import as_json, load
from mulligan.stores.sqlite._transaction import Transaction

_REGIONS = load("region_list")
_QUEUES = load("queue_list")
_CONFIGURE = load("queue_configure")
_PAUSE = load("queue_pause")
_EPOCH = load("epoch")


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
