"""Workers and their leases, and the facts that plans are made from."""

from collections.abc import Sequence

from msgspec.json import Decoder

from mulligan.core.facts import Facts, QueueSettings, Region
from mulligan.core.job import Claim, Lease
from mulligan.core.worker import Worker
from mulligan.stores.contract import Beat
from mulligan.stores.sqlite import _waiting as waiting
from mulligan.stores.sqlite._keys import release
from mulligan.stores.sqlite._sql import as_json, load
from mulligan.stores.sqlite._transaction import Transaction

_JOIN = load("worker_join")
_LEAVE = load("worker_leave")
_LIVES = load("worker_lives")
_ADD_REGION = load("region_add")
_REGIONS = load("region_list")
_QUEUES = load("queue_list")
_CONFIGURE = load("queue_configure")
_PAUSE = load("queue_pause")
_EPOCH = load("epoch")
_NEXT_EPOCH = load("epoch_next")
_RUNNING = load("running")
_NEXT_WORKER = load("seize_worker")
_SEIZE_ROWS = load("seize_rows")
_SEIZE_LEASE = load("seize_lease")

decode_settings = Decoder(QueueSettings).decode


def beat(tx: Transaction, worker: Worker, holding: Sequence[Lease]) -> Beat:
    """Keep the worker's leases, and say which are lost and which it seems to have forgotten."""
    join(tx, worker)
    running = {Lease(job, token): at for job, token, at in tx.db.execute(_RUNNING, (worker.id,))}
    shown = set(holding)
    return Beat(
        [lease for lease in holding if lease not in running],
        facts(tx),
        [
            lease
            for lease, leased_at in running.items()
            if leased_at + worker.lease < tx.now and lease not in shown
        ],
    )


def join(tx: Transaction, worker: Worker, *, anew: bool = False) -> int:
    """Note that the worker is alive; gives 1 if it is the first of its region ever, else 0."""
    row = (worker.id, worker.region, worker.lease, tx.now, as_json(worker), anew)
    tx.db.execute(_JOIN, row)
    first = tx.db.execute(_ADD_REGION, (worker.region,)).rowcount
    if first:
        change(tx)
    return first


def leave(tx: Transaction, worker: Worker) -> None:
    """Forget the worker; what it holds may be seized."""
    tx.db.execute(_LEAVE, (worker.id,))
    waiting.leave(tx, worker.id)


def lives(tx: Transaction, worker: str) -> bool:
    """Whether the worker has beaten within its lease."""
    return tx.db.execute(_LIVES, (worker, tx.now)).fetchone() is not None


def seize(tx: Transaction, limit: int, worker: Worker) -> list[Claim]:
    """Claim the jobs of workers that stopped beating, the longest running first."""
    if not lives(tx, worker.id):
        join(tx, worker, anew=True)
    waiting.bury(tx)
    rows = []
    holder = ""
    while found := tx.db.execute(_NEXT_WORKER, (holder,)).fetchone():
        holder = found[0]
        if not lives(tx, holder):
            rows += tx.db.execute(_SEIZE_ROWS, (holder, limit)).fetchall()
    rows = sorted(rows, key=lambda row: row[:3])[:limit]
    if rows:
        places = as_json([place for _, _, place, *_ in rows])
        tx.db.execute(_SEIZE_LEASE, (worker.id, tx.now, places))
        release(tx, [(job, key) for _, _, _, key, job, *_ in rows])
    return [Claim(*fields) for _, _, _, _, *fields in rows]


def facts(tx: Transaction) -> Facts:
    """What plans are made from, at this instant."""
    epoch = tx.db.execute(_EPOCH).fetchone()[0]
    regions = tuple(
        Region(name, live=bool(live)) for name, live in tx.db.execute(_REGIONS, (tx.now,))
    )
    queues = tx.db.execute(_QUEUES).fetchall()
    return Facts(
        epoch,
        {name: decode_settings(settings) for name, settings, _ in queues if settings is not None},
        regions,
        frozenset(name for name, _, paused in queues if paused),
    )


def configure(tx: Transaction, queue: str, settings: QueueSettings) -> None:
    """Store the queue's settings, if they are new."""
    if facts(tx).queues.get(queue) != settings:
        tx.db.execute(_CONFIGURE, (queue, as_json(settings)))
        change(tx)


def pause(tx: Transaction, queue: str, *, paused: bool) -> None:
    """Store whether the queue is paused, if that is new."""
    if (queue in facts(tx).paused) != paused:
        tx.db.execute(_PAUSE, (queue, paused))
        change(tx)


def change(tx: Transaction) -> None:
    """Facts changed: plans made before are refused, and every sleeper makes a new one."""
    tx.db.execute(_NEXT_EPOCH)
    tx.everyone = True
