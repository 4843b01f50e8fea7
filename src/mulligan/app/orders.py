"""Orders to worker processes: notes in the store, which a worker looks for every few seconds."""

from typing import Any

from mulligan.app.overview import overview
from mulligan.core.checks import check_name
from mulligan.core.errors import InvalidError
from mulligan.core.worker import KEEP_ORDER, ORDER, Order, encode_note
from mulligan.stores.contract import Store


async def find_worker(store: Store, worker: str) -> dict[str, Any] | None:
    """The worker as the overview shows it; None if no worker of this id is known."""
    check_name("worker", worker)
    found = (each for each in (await overview(store))["workers"] if each["id"] == worker)
    return next(found, None)


async def leave_order(store: Store, worker: dict[str, Any], order: Order) -> None:
    """Have the worker drain or stop; refuses one that would never see the order."""
    if worker["about"] is None:
        raise InvalidError(
            f"worker {worker['id']!r} takes no orders: it is not alive, or no mulligan worker"
            " process; stop it where it runs"
        )
    await store.note(ORDER + worker["id"], encode_note(order), KEEP_ORDER)
