"""`cancel`, `pause`, `resume` and `drain`."""

from collections.abc import Sequence

import click

from mulligan.app.orders import find_worker, leave_order
from mulligan.cli.find_app import about_a_store, find_app, json_option, with_store
from mulligan.cli.group import RefusalError, printable
from mulligan.cli.show import print_json
from mulligan.core.checks import check_name
from mulligan.core.settings import BATCH_LIMIT
from mulligan.core.status import names
from mulligan.core.worker import LOOK_EVERY, Order
from mulligan.stores.contract import Store


@click.command()
@click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
@click.option(
    "--reason", default="cancelled from the command line", show_default=True,
    help="The reason, which is stored with each job.",
)  # fmt: skip
@json_option
@about_a_store
def cancel(
    job_ids: Sequence[str], *, reason: str, as_json: bool, app: str | None, store: str | None
) -> None:
    """End pending and running jobs.

    A coroutine that runs is stopped at its worker's next beat; a plain function runs on, and what
    it returns is not stored. Exit code 1 if one of the jobs had ended or is not stored.
    """
    ids = list(dict.fromkeys(job_ids))

    async def end(opened: Store) -> dict[str, str]:
        said = {}
        for start in range(0, len(ids), BATCH_LIMIT):
            part = ids[start : start + BATCH_LIMIT]
            for job, done in zip(part, await opened.cancel(part, reason), strict=True):
                found = None if done else await opened.get(job)
                said[job] = (
                    "cancelled" if done else f"already {found.status}" if found else "unknown"
                )
        return said

    said = with_store(find_app(None, app, store), end, writes=True)
    if as_json:
        print_json({"jobs": said})
    wrong = [f"{job} ({what})" for job, what in said.items() if what != "cancelled"]
    if not as_json and len(said) > len(wrong):
        click.echo(f"Cancelled {len(said) - len(wrong)} of {len(said)}.")
    if wrong:
        raise RefusalError(f"not cancelled: {printable(', '.join(wrong))}", 1)


@click.command()
@click.argument("queues", metavar="QUEUE...", nargs=-1, required=True)
@json_option
@about_a_store
def pause(queues: Sequence[str], *, as_json: bool, app: str | None, store: str | None) -> None:
    """Start no more jobs of queues; running jobs go on.

    The pause is kept in the store and holds for all workers until `mulligan resume`.
    """
    switch(queues, app, store, paused=True, as_json=as_json)


@click.command()
@click.argument("queues", metavar="QUEUE...", nargs=-1, required=True)
@json_option
@about_a_store
def resume(queues: Sequence[str], *, as_json: bool, app: str | None, store: str | None) -> None:
    """Undo a pause."""
    switch(queues, app, store, paused=False, as_json=as_json)


def switch(
    queues: Sequence[str], app: str | None, store: str | None, *, paused: bool, as_json: bool
) -> None:
    """Pause or resume the queues, and say so."""
    target = find_app(None, app, store)
    for queue in queues:
        check_name("queue", queue)

    async def apply(opened: Store) -> tuple[frozenset[str], list[str]]:
        facts = await opened.facts()
        known = names(await opened.stats(), facts)
        for queue in queues:
            await opened.pause(queue, paused=paused)
        return facts.paused, known

    before, known = with_store(target, apply, writes=True)
    word, unchanged = ("paused", "was paused already") if paused else ("resumed", "was not paused")
    changed = {queue: (queue in before) != paused for queue in queues}
    if as_json:
        each = [{"queue": queue, "paused": paused, "changed": changed[queue]} for queue in queues]
        print_json({"queues": each})
    for queue in queues:
        if not as_json:
            click.echo(f"{queue}: {word if changed[queue] else unchanged}")
        if queue not in {*known, *(target.queue_names if target.tasks else ())}:
            click.echo(f"note: queue {queue!r} has no job, worker or setting so far", err=True)


@click.command()
@click.argument("workers", metavar="WORKER...", nargs=-1, required=True)
@click.option("--now", is_flag=True, help="Exit at once; the jobs that run are cut off.")
@json_option
@about_a_store
def drain(
    workers: Sequence[str], *, now: bool, as_json: bool, app: str | None, store: str | None
) -> None:
    """Have workers finish what they run, and exit.

    They start nothing more. WORKER is an id as `mulligan workers` shows it. With --now they exit at
    once; the jobs that they run are cut off, and run again elsewhere. A worker sees the order
    within seconds. A supervisor starts another one instead. Exit code 1 if one of the workers
    is not known.
    """
    order: Order = "stop" if now else "drain"

    async def leave(opened: Store) -> list[str]:
        unknown = []
        for worker in dict.fromkeys(workers):
            found = await find_worker(opened, worker)
            if found is None:
                unknown.append(worker)
            else:
                await leave_order(opened, found, order)
        return unknown

    unknown = with_store(find_app(None, app, store), leave, writes=True)
    ordered = [worker for worker in dict.fromkeys(workers) if worker not in unknown]
    if as_json:
        print_json({"order": order, "workers": ordered, "unknown": unknown})
    else:
        for worker in ordered:
            click.echo(f"{printable(worker)}: will {order} within {LOOK_EVERY:g} s")
    if unknown:
        raise RefusalError(
            f"no such worker: {printable(', '.join(unknown))}; see: mulligan workers", 1
        )
