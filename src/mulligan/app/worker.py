"""Runs a worker of an app in this process."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mulligan.app.mulligan import Mulligan
from mulligan.app.resources import entered
from mulligan.core.checks import check_name, check_region
from mulligan.core.declared_settings import declared_settings
from mulligan.core.errors import InvalidError
from mulligan.core.fetch import Only
from mulligan.core.settings import Settings
from mulligan.core.worker import DEFAULT_REGION, Worker
from mulligan.engine.worker import Engine
from mulligan.stores import is_embedded
from mulligan.stores.contract import Store

if TYPE_CHECKING:
    from mulligan.engine.processes import Processes


def new_worker(
    app: Mulligan,
    *,
    region: str = DEFAULT_REGION,
    queues: Sequence[str] = (),
    concurrency: int | None = None,
    only: Only | None = None,
) -> Worker:
    """A new incarnation of a worker; its id says where it runs and is never used again."""
    # Not `secrets`: it loads OpenSSL, which stays in the worker's memory.
    return Worker(
        id=f"{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}",
        region=check_region(region, anywhere=False),
        queues=tuple(check_name("queue", queue) for queue in queues) or app.queue_names,
        lease=app.settings.lease,
        concurrency=concurrency or app.settings.concurrency,
        only=only,
    )


async def work(
    app: Mulligan, worker: Worker, ready: Callable[[Engine], None] = lambda _engine: None
) -> Engine:
    """Run the worker until its engine is stopped; `ready` gets the engine before it starts."""
    for task in app.tasks.values():
        task.read_types()
    store = app.make_store()
    # With a handle of its own the heartbeat goes on while this loop is blocked.
    heart = store if is_embedded(app.url) else app.make_store()
    settings = replace(app.settings, concurrency=worker.concurrency)
    try:
        await store.open()
        app.access.use_on_loop(store)
        await app.aconfigure()
        check_sinks(app, store)
        needs_resources = app.lifespan is not None or app.asked_resources
        resources = entered(app) if needs_resources else nullcontext()
        async with resources, children(app, settings) as processes:
            engine = Engine(
                store,
                app.tasks,
                worker,
                settings,
                heart=heart,
                declared=app.declared_schedules,
                tracing=app.tracing,
                hold_through_backoff=settings.hold_through_backoff,
                app=app.called,
                processes=processes,
                pool_queues=pool_queues(app, worker),
                limits=app.declared_limits,
                hooks=app.event_hooks,
                declared_settings=declared_settings(app.queues, app.declared_limits),
            )
            ready(engine)
            await engine.run()
        return engine
    finally:
        app.access.use_on_loop(None)
        await store.close()


@asynccontextmanager
async def embedded(app: Mulligan, worker: Worker) -> AsyncIterator[None]:
    """Run the worker on the running loop while the block runs; it is drained at the end.

    Raises what ends the worker, such as a store that cannot be opened.
    """
    started: asyncio.Future[Engine] = asyncio.get_running_loop().create_future()
    running = asyncio.ensure_future(work(app, worker, started.set_result))
    await asyncio.wait({started, running}, return_when=asyncio.FIRST_COMPLETED)
    try:
        if started.done():
            yield
    finally:
        if started.done():
            started.result().stop()
        await running


@asynccontextmanager
async def children(app: Mulligan, settings: Settings) -> AsyncIterator["Processes | None"]:
    """The child processes of a worker, if a task of the app runs in one; they end afterwards."""
    pooled = [task for task in app.tasks.values() if task.runs.pool is not None]
    if not pooled:
        yield None
        return
    from mulligan.app.child import path_of  # noqa: PLC0415 - few apps have such tasks
    from mulligan.engine.processes import Processes, can_measure_memory  # noqa: PLC0415

    measured = [task.name for task in pooled if task.runs.max_memory is not None]
    if measured and not can_measure_memory():
        raise InvalidError(
            f"task {measured[0]!r} has max_memory, and the memory of a process can be read on Linux"
            " alone; run its workers there, or leave it out"
        )
    processes = await Processes.start(path_of(app), settings)
    try:
        yield processes
    finally:
        await processes.close()


def pool_queues(app: Mulligan, worker: Worker) -> set[str]:
    """The queues of the worker in which all tasks of the app run in child processes."""
    pools = [(task.placement.queue, task.runs.pool) for task in app.tasks.values()]
    mixed = {queue for queue, pool in pools if pool is None}
    return {queue for queue, _ in pools if queue in worker.queues} - mixed


def check_sinks(app: Mulligan, store: Store) -> None:
    """Refuse sinks that the store cannot call within its transactions."""
    for task in app.tasks.values():
        if not task.transactional:
            continue
        if not hasattr(store, "commit_within"):
            raise InvalidError(
                f"sink {task.name} is transactional, and {app.shown_url} has no transactions;"
                " use SQLite or PostgreSQL, or let it tell by its key what it has seen"
            )
        if is_embedded(app.url) and task.placement.timeout is not None:
            raise InvalidError(
                f"sink {task.name} has timeout {task.placement.timeout:g}, and what runs within a"
                " commit of SQLite cannot be stopped; leave the timeout out and keep it short"
            )
        if task.is_async == is_embedded(app.url):
            kind = "a plain function" if is_embedded(app.url) else "a coroutine function"
            raise InvalidError(f"sink {task.name} must be {kind} for {app.shown_url}")


def run_loop(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run the coroutine on uvloop where it is installed, else on asyncio's own loop."""
    try:
        import uvloop  # noqa: PLC0415 - optional
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
