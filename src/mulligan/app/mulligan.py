"""The app: a store, its tasks and its queues."""

import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, Unpack, overload

from mulligan.app.chain import Chain, Step, part_of
from mulligan.app.dead_letters import DeadLetters
from mulligan.app.decorator import TaskDecorator, TaskOptions
from mulligan.app.gather import (
    AnyCall,
    PreparedGather,
    gather_in,
    gather_value,
    send_gathered,
)
from mulligan.app.gather_handle import GatherHandle
from mulligan.app.handle import JobHandle
from mulligan.app.limits import DeclaredLimits
from mulligan.app.resources import Lifespan, check_lifespan
from mulligan.app.task import AsyncTask, PlainTask, Prepared, Task
from mulligan.core.budget import Budget
from mulligan.core.checks import Seconds, check_name, check_word
from mulligan.core.errors import InvalidError
from mulligan.core.event import EventName, JobEvent
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import FetchPolicy, parse_policy
from mulligan.core.gather import Failure
from mulligan.core.job import Enqueued, NewJob
from mulligan.core.limits import Limit, check_limit_name
from mulligan.core.retry import Retry
from mulligan.core.settings import AN_APP, BATCH_LIMIT, Settings
from mulligan.engine.current import CurrentCall
from mulligan.engine.tracing import Tracing, store_traced
from mulligan.stores import is_embedded, make_store, may_be_sharded, redact
from mulligan.stores.contract import Store

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from mulligan.app.schedules import Schedules
    from mulligan.app.sharded_ids import ShardedIds
    from mulligan.app.store_access import StoreAccess
    from mulligan.app.stored_limits import Limits
    from mulligan.app.user_transaction import UserTransactions
    from mulligan.core.key_share import KeyShare
    from mulligan.core.schedule import Schedule
    from mulligan.core.signature import Keys
    from mulligan.engine.events import EventHook
    from mulligan.engine.middleware import Middleware
    from mulligan.testing import Testing

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
M = TypeVar("M", bound=Callable[[Callable[[], Any], CurrentCall], Any])
H = TypeVar("H", bound=Callable[[JobEvent], Any])
KEYS_VARIABLE = "MULLIGAN_SIGNING_KEYS"
STORE_VARIABLE = "MULLIGAN_STORE"
DEFAULT_STORE = "sqlite:///mulligan.db"


class Mulligan:
    """An application: where its jobs are stored, which tasks it has, how its queues behave.

    Without a URL its store is the one in MULLIGAN_STORE, or else a SQLite file in this folder. An
    app connects at the first enqueue or when a worker starts. With `signing_keys` its jobs are
    signed with the first key, and its workers run no job that none of the keys has signed. Each
    worker process enters `lifespan` before its first claim and leaves it after its drain; what it
    yields are the resources that tasks ask for. Tasks that say nothing else have this `retry`
    policy, this `timeout`, and this task, by its name, that is told of their dead letters.
    """

    # Of all apps; `instrument(app)` gives an app one of its own.
    tracing: Tracing | None = None

    def __init__(
        self,
        url: str | None = None,
        *,
        settings: Settings | None = None,
        signing_keys: Sequence[str | bytes] | None = None,
        lifespan: Lifespan | None = None,
        retry: Retry | str | None = None,
        on_dead: str | None = None,
        timeout: Seconds | None = None,
    ) -> None:
        self.url = url = url or os.environ.get(STORE_VARIABLE) or DEFAULT_STORE
        # Its name in commands: module:attribute, if a command loaded it.
        self.called = AN_APP
        self.settings = settings or Settings()
        self.keys = keys_of(signing_keys, os.environ.get(KEYS_VARIABLE))
        self.tasks: dict[str, Task[..., Any]] = {}
        self.queues: dict[str, QueueSettings] = {}
        self.declared_limits = DeclaredLimits()
        given = {"retry": retry, "on_dead": on_dead, "timeout": timeout}
        # What tasks have that do not say it themselves.
        self.defaults: TaskOptions = {k: v for k, v in given.items() if v is not None}  # type: ignore[assignment]
        TaskDecorator(self, {})  # refuses defaults that no task could have
        if lifespan is not None:
            check_lifespan(lifespan)
        self.lifespan = lifespan
        self.middlewares: list[Middleware] = []
        self.event_hooks: dict[EventName, list[EventHook]] = {}
        # Those of the worker that runs in this process.
        self.resources: Mapping[str, Any] = {}
        self._memory: Store | None = make_store(url) if url.startswith("memory:") else None

    @cached_property
    def access(self) -> "StoreAccess":
        """How calls reach the store; made at the first call, since it imports asyncio."""
        from mulligan.app.store_access import (  # noqa: PLC0415 - to import quickly
            DirectAccess,
            ThreadAccess,
        )

        if is_embedded(self.url):
            return DirectAccess(partial(self.make_store, inline=True))
        return ThreadAccess(self.make_store)

    @cached_property
    def user_transactions(self) -> "UserTransactions":
        """How jobs are enqueued on connections of the user's."""
        from mulligan.app.user_transaction import (  # noqa: PLC0415 - to import quickly
            UserTransactions,
        )

        return UserTransactions(self)

    @cached_property
    def sharded_ids(self) -> "ShardedIds | None":
        """What makes ids that name a shard; None for an app with one store, as nearly all are."""
        if not may_be_sharded(self.url):
            return None
        from mulligan.app.sharded_ids import ShardedIds  # noqa: PLC0415 - few apps have shards
        from mulligan.stores.shards import shard_urls  # noqa: PLC0415 - as above

        count = len(shard_urls(self.url))
        return ShardedIds(count) if count > 1 else None

    @property
    def shown_url(self) -> str:
        """The store's URL without its password."""
        return redact(self.url)

    def make_store(self, *, inline: bool = False) -> Store:
        """A handle on the app's store, not yet open; all handles on memory:// share one."""
        return self.seen(self._memory or make_store(self.url, inline=inline))

    def seen(self, store: Store) -> Store:
        """The store, wrapped so that jobs are signed and checked if the app has signing keys."""
        if self.keys is None:
            return store
        from mulligan.stores.signed import signed  # noqa: PLC0415 - few apps sign

        return signed(store, self.keys)

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine of this app from plain code."""
        if "enqueue" not in self.event_hooks:
            return self.access.run(work)
        from mulligan.app.events import run_and_tell  # noqa: PLC0415 - few apps have hooks

        return run_and_tell(self, work)

    # -- tasks and queues ------------------------------------------------------------------

    # A coroutine function is also a plain callable; the first overload that fits is meant.
    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def task(self, function: Callable[P, R], /) -> PlainTask[P, R]: ...
    @overload
    def task(self, /, **options: Unpack[TaskOptions]) -> TaskDecorator: ...
    def task(
        self, function: Callable[..., Any] | None = None, /, **options: Unpack[TaskOptions]
    ) -> Task[..., Any] | TaskDecorator:
        """Make a function a task: `@app.task` or `@app.task(queue=…, retry=…, accept=…)`.

        `accept` says which results are good, by a predicate or a type; one that it refuses is a
        failed attempt. `sink` is called with each accepted result, and `on_dead` once with each
        dead letter. With `cron` or `every` the task runs by itself, once a tick.
        """
        decorator = TaskDecorator(self, options)
        return decorator if function is None else decorator(function)

    @overload
    def sink(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def sink(self, function: Callable[P, R], /) -> PlainTask[P, R]: ...
    @overload
    def sink(
        self, /, *, transactional: bool = False, **options: Unpack[TaskOptions]
    ) -> TaskDecorator: ...
    def sink(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        transactional: bool = False,
        **options: Unpack[TaskOptions],
    ) -> Task[..., Any] | TaskDecorator:
        """Make a function a sink: a last stage that is called as `sink(result, key=...)`.

        At least once for each accepted result, and always with the same key, by which it can tell
        that it has seen a result before. A transactional one is called as
        `sink(connection, result, key=...)` within the transaction that finishes it, so that what it
        writes is there exactly once; SQLite and PostgreSQL stores have such transactions.
        """
        decorator = TaskDecorator(self, options, transactional=transactional)
        return decorator if function is None else decorator(function)

    @overload
    def middleware(self, function: M, /) -> M: ...
    @overload
    def middleware(self, /, *, plain_only: bool = False) -> Callable[[M], M]: ...
    def middleware(
        self, function: M | None = None, /, *, plain_only: bool = False
    ) -> M | Callable[[M], M]:
        """Have a function surround every call of a task that workers make: `@app.middleware`.

        It is called as `function(call, job)`, and what it returns is the result of the attempt:
        `return await call()`, or in a plain one `return call()`. What it raises fails the attempt.
        The first that is declared is outermost. An async one surrounds every task. A plain one
        runs in the thread of a plain function, and cannot surround coroutines: an app that has
        both says `plain_only=True`.
        """
        if function is None:
            return lambda given: self._surround(given, plain_only=plain_only)
        return self._surround(function, plain_only=plain_only)

    def _surround(self, function: M, *, plain_only: bool) -> M:
        from mulligan.app.middleware import check, declared, wrap  # noqa: PLC0415 - few apps do

        added = [*self.middlewares, declared(function, self.middlewares, plain_only=plain_only)]
        for task in self.tasks.values():
            check(task, added)
        for task in self.tasks.values():
            wrap(task, added)
        self.middlewares = added
        return function

    def on(self, event: EventName) -> Callable[[H], H]:
        """Tell a function of events: `@app.on("dead")`. It is called with a `JobEvent`.

        `enqueue` is told in the process that enqueues, by a plain function, before the call
        returns. Workers tell of `start`, `success`, `retry` and `dead`, by plain functions and
        coroutines, in order, once the store has accepted what happened. A hook that raises is
        logged and counted, and changes nothing.
        """

        def add(function: H) -> H:
            from mulligan.app.events import hook_of  # noqa: PLC0415 - few apps have hooks

            hook = hook_of(event, function)
            self.event_hooks.setdefault(event, []).append(hook)
            return function

        return add

    def queue(
        self,
        name: str,
        *,
        policy: FetchPolicy | str = "balanced",
        budget: Budget | None = None,
        grace: Seconds = 2.0,
        weights: Mapping[str, float] | None = None,
    ) -> QueueSettings:
        """Set how a queue behaves. Workers store this when they start, so that all agree.

        `weights` are those of fairness keys: one of weight 2 has two turns for each of the others.
        """
        chosen = parse_policy(policy) if isinstance(policy, str) else policy
        shares = tuple(sorted((weights or {}).items()))
        self.queues[check_name("queue", name)] = QueueSettings(chosen, budget, grace, shares)
        return self.queues[name]

    def limit(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        rate: int | None = None,
        per: Seconds = 1.0,
        burst: int | None = None,
        pause_on_retry_after: bool = False,
    ) -> Limit:
        """Declare a limit, which jobs name: `@app.task(limits="openai")`.

        At most `concurrency` of them run at a time, and at most `rate` start in any `per` seconds,
        all workers and regions together. With `burst` the rate is a token bucket. A name that ends
        in `*` is a limit for each name that begins so. Workers store it when they start.
        """
        limit = Limit(concurrency, rate, per, burst, pause_on_retry_after)
        self.declared_limits[check_limit_name(name)] = limit
        return limit

    @property
    def queue_names(self) -> tuple[str, ...]:
        """Every queue that a task or a setting of the app names."""
        placements = [task.placement for task in self.tasks.values()]
        named = [each.queue for each in placements]
        followers = [stage.queue for each in placements for stage in each.followers]
        return tuple(dict.fromkeys([*named, *followers, *self.queues])) or ("default",)

    @property
    def asked_resources(self) -> dict[str, Mapping[str, str]]:
        """The resources that each task asks for, by its parameters."""
        return {task.name: task.resources for task in self.tasks.values() if task.resources}

    @property
    def declared_schedules(self) -> "list[Schedule]":
        """The schedules that tasks declare, by `cron=` or `every=`."""
        found = [task.declared_schedule() for task in self.tasks.values()]
        return [schedule for schedule in found if schedule is not None]

    @cached_property
    def schedules(self) -> "Schedules":
        """The schedules of the store: calls that run by themselves, to put, pause and remove."""
        from mulligan.app.schedules import Schedules  # noqa: PLC0415 - to import quickly

        return Schedules(self)

    @cached_property
    def limits(self) -> "Limits":
        """The limits of the store as they are now, to list, set, reset, pause and resume."""
        from mulligan.app.stored_limits import Limits  # noqa: PLC0415 - to import quickly

        return Limits(self)

    # -- chains ----------------------------------------------------------------------------

    @overload
    def chain(self, a: Task[P, A], b: Step[A, B], /) -> Chain[P, B]: ...
    @overload
    def chain(self, a: Task[P, A], b: Step[A, B], c: Step[B, C], /) -> Chain[P, C]: ...
    @overload
    def chain(
        self, a: Task[P, A], b: Step[A, B], c: Step[B, C], d: Step[C, D], /
    ) -> Chain[P, D]: ...
    @overload
    def chain(self, first: Task[P, Any], /, *steps: Any) -> Chain[P, Any]: ...
    def chain(self, first: Any, /, *steps: Any) -> Chain[..., Any]:
        """Stages in order: the result of each is the argument of the next; short: `a | b | c`."""
        return Chain([part_of(step) for step in (first, *steps)])

    @overload
    async def agather(
        self,
        calls: Iterable[Prepared[A] | PreparedGather[A]],
        then: Step[list[A], B],
        *,
        id: str | None = None,
        connection: Any = None,
        return_exceptions: Literal[False] = False,
    ) -> GatherHandle[B]: ...
    @overload
    async def agather(
        self,
        calls: Iterable[Prepared[A] | PreparedGather[A]],
        then: Step[list[A | Failure], B],
        *,
        id: str | None = None,
        connection: Any = None,
        return_exceptions: Literal[True],
    ) -> GatherHandle[B]: ...
    async def agather(
        self,
        calls: Iterable[AnyCall],
        then: Any,
        *,
        id: str | None = None,  # noqa: A002 - named as in `using`
        connection: Any = None,
        return_exceptions: bool = False,
    ) -> GatherHandle[Any]:
        """Enqueue the calls, and `then` with the list of their results when all have ended."""
        return await send_gathered(
            self, calls, then, id, connection, return_exceptions=return_exceptions
        )

    @overload
    def gather(
        self,
        calls: Iterable[Prepared[A] | PreparedGather[A]],
        then: Step[list[A], B],
        *,
        id: str | None = None,
        connection: Any = None,
        return_exceptions: Literal[False] = False,
    ) -> GatherHandle[B]: ...
    @overload
    def gather(
        self,
        calls: Iterable[Prepared[A] | PreparedGather[A]],
        then: Step[list[A | Failure], B],
        *,
        id: str | None = None,
        connection: Any = None,
        return_exceptions: Literal[True],
    ) -> GatherHandle[B]: ...
    def gather(
        self,
        calls: Iterable[AnyCall],
        then: Any,
        *,
        id: str | None = None,  # noqa: A002 - named as in `using`
        connection: Any = None,
        return_exceptions: bool = False,
    ) -> GatherHandle[Any]:
        """Enqueue the calls, and `then` with the list of their results when all are done.

        At most 10,000 calls, of tasks and chains, and gathers (`gather_call`). One that failed
        leaves the rest waiting until it is replayed; one that is cancelled cancels `then`. With
        `return_exceptions` instead `then` runs when all have ended, and each that did not succeed
        is a `Failure` in the list. With a `connection` all of it is part of its transaction.
        """
        prepared = list(calls)
        if self.joins(connection):
            return gather_in(
                self, prepared, then, id, connection, return_exceptions=return_exceptions
            )
        return self.run(
            lambda: send_gathered(self, prepared, then, id, return_exceptions=return_exceptions)
        )

    @overload
    def gather_call(
        self,
        calls: Iterable[Prepared[A] | PreparedGather[A]],
        then: Step[list[A], B],
        *,
        return_exceptions: Literal[False] = False,
    ) -> PreparedGather[B]: ...
    @overload
    def gather_call(
        self,
        calls: Iterable[Prepared[A] | PreparedGather[A]],
        then: Step[list[A | Failure], B],
        *,
        return_exceptions: Literal[True],
    ) -> PreparedGather[B]: ...
    def gather_call(
        self, calls: Iterable[AnyCall], then: Any, *, return_exceptions: bool = False
    ) -> PreparedGather[Any]:
        """The gather as a value, to be a member of another: the result of `then` arrives there."""
        return gather_value(calls, then, return_exceptions=return_exceptions)

    # -- jobs ------------------------------------------------------------------------------

    async def aenqueue_many(
        self, calls: Iterable[Prepared[R]], *, connection: Any = None
    ) -> list[JobHandle[R]]:
        """Enqueue calls in batches, each batch as a whole or not at all.

        With a `connection` of your own all of them are part of its transaction.
        """
        answers = await self.asend([call.job for call in calls], connection=connection)
        return [JobHandle(self, job, created) for job, created in answers]

    async def asend(
        self, jobs: Sequence[NewJob], *, together: bool = False, connection: Any = None
    ) -> list[Enqueued]:
        """Store jobs in batches; those that belong `together` share a trace."""
        if self.joins(connection):
            return await self.user_transactions.asend(connection, jobs, together=together)

        async def send(jobs: Sequence[NewJob]) -> list[Enqueued]:
            return await self.access.acall(lambda store: store.enqueue_all(jobs))

        answers = await store_traced(self.tracing, jobs, send, together=together)
        self._tell_accepted(jobs, answers)
        return answers

    async def asend_one(self, job: NewJob) -> Enqueued:
        """Store one job, in a batch with those that other callers have under way."""
        if self._unwatched:
            return await self.access.aenqueue(job)

        async def send(jobs: Sequence[NewJob]) -> list[Enqueued]:
            return [await self.access.aenqueue(job) for job in jobs]

        answers = await store_traced(self.tracing, [job], send)
        self._tell_accepted([job], answers)
        return answers[0]

    @property
    def _unwatched(self) -> bool:
        """Whether nobody follows what is enqueued."""
        return self.tracing is None and "enqueue" not in self.event_hooks

    def _tell_accepted(self, jobs: Sequence[NewJob], answers: Sequence[Enqueued]) -> None:
        if "enqueue" in self.event_hooks:
            from mulligan.app.events import accepted  # noqa: PLC0415 - few apps have hooks

            accepted(self, jobs, answers)

    def send_one(self, job: NewJob) -> Enqueued:
        """As `asend_one`, from plain code."""
        if self._unwatched:
            return self.access.enqueue(job)
        return self.run(lambda: self.asend_one(job))

    def enqueue_many(
        self, calls: Iterable[Prepared[R]], *, connection: Any = None
    ) -> list[JobHandle[R]]:
        """Enqueue calls in batches, each batch as a whole or not at all.

        With a `connection` of your own all of them are part of its transaction.
        """
        prepared = list(calls)  # a bad call is refused here, before anything is sent
        if self.joins(connection):
            answers = self.user_transactions.send(connection, [call.job for call in prepared])
            return [JobHandle(self, job, created) for job, created in answers]
        return self.run(lambda: self.aenqueue_many(prepared))

    def joins(self, connection: Any) -> bool:
        """Whether jobs are to be part of a transaction on the connection; never while testing."""
        return connection is not None and self.access.joins_transactions

    def job(self, job: str) -> JobHandle[Any]:
        """A handle on a job by its id."""
        return JobHandle(self, check_word("job", job), created=False)

    def dead_letters(self, queue: str | None = None) -> DeadLetters:
        """The failed jobs of a queue, or of all."""
        return DeadLetters(self, None if queue is None else check_word("queue", queue))

    async def aexplain(self, job: str) -> str:
        """One sentence on why the job is where it is."""
        # Whoever enqueues needs none of this.
        from mulligan.app.explain import explain_job  # noqa: PLC0415
        from mulligan.app.module_of import name_of  # noqa: PLC0415

        check_word("job", job)
        called = name_of(self)
        return await self.access.acall(lambda store: explain_job(store, job, called))

    # -- operating -------------------------------------------------------------------------

    async def apause(self, queue: str) -> None:
        """Start no more jobs of the queue; running ones go on."""
        check_name("queue", queue)
        await self.access.acall(lambda store: store.pause(queue, paused=True))

    def pause(self, queue: str) -> None:
        """Start no more jobs of the queue; running ones go on."""
        self.run(lambda: self.apause(queue))

    async def aresume(self, queue: str) -> None:
        """Undo a pause."""
        check_name("queue", queue)
        await self.access.acall(lambda store: store.pause(queue, paused=False))

    def resume(self, queue: str) -> None:
        """Undo a pause."""
        self.run(lambda: self.aresume(queue))

    async def afairness(self, queue: str) -> "list[KeyShare]":
        """The fairness keys of the queue that have work waiting; as `fairness`."""
        from mulligan.app.stored_limits import key_shares  # noqa: PLC0415 - few ask

        check_name("queue", queue)
        return await self.access.acall(lambda store: key_shares(store, queue))

    def fairness(self, queue: str) -> "list[KeyShare]":
        """The fairness keys of the queue that have work waiting, those with most work first.

        Each with its weight, and its share of the starts of its lane while all of them wait.
        """
        return self.run(lambda: self.afairness(queue))

    async def areplay(self, jobs: Sequence[str], *, from_start: bool = False) -> list[bool]:
        """Give failed jobs all their retries again; False where a job had not failed.

        They keep their steps and checkpoints, unless they begin `from_start`.
        """
        return await self.access.acall(
            lambda store: in_batches(partial(store.replay, from_start=from_start), jobs)
        )

    def replay(self, jobs: Sequence[str], *, from_start: bool = False) -> list[bool]:
        """Give failed jobs all their retries again; False where a job had not failed.

        They keep their steps and checkpoints, unless they begin `from_start`.
        """
        return self.run(lambda: self.areplay(jobs, from_start=from_start))

    async def apurge(self, jobs: Sequence[str]) -> list[bool]:
        """Delete jobs that have ended; False where one had not."""
        return await self.access.acall(lambda store: in_batches(store.purge, jobs))

    def purge(self, jobs: Sequence[str]) -> list[bool]:
        """Delete jobs that have ended; False where one had not."""
        return self.run(lambda: self.apurge(jobs))

    async def aconfigure(self) -> None:
        """Store the settings of every queue, and every limit, that the app declares."""

        async def store_all(store: Store) -> None:
            for name, settings in self.queues.items():
                await store.configure(name, settings)
            for name, limit in self.declared_limits.items():
                await store.set_limit(name, limit, declared=True)

        await self.access.acall(store_all)

    def configure(self) -> None:
        """Store the settings of every queue, and every limit, that the app declares."""
        self.run(self.aconfigure)

    def testing(
        self,
        *,
        regions: Sequence[str] = ("default",),
        queues: Sequence[str] = (),
        concurrency: int | None = None,
        seed: int = 0,
        hold_through_backoff: bool = False,
        resources: Mapping[str, Any] | None = None,
    ) -> "Testing":
        """The app's real engine on a virtual clock, with a store in memory of its own.

        `with app.testing() as t`, or in a coroutine `async with app.testing() as t`. With
        `resources` tasks get these, and the app's lifespan is not entered.
        """
        from mulligan.testing import Testing  # noqa: PLC0415 - only tests pay for it

        return Testing(
            self,
            regions=regions,
            queues=queues,
            concurrency=concurrency,
            seed=seed,
            hold_through_backoff=hold_through_backoff,
            resources=resources,
        )

    def connected(self) -> "AbstractAsyncContextManager[None]":
        """Keep a connection on the running loop: `async with app.connected(): …`.

        For programs with a long-lived loop, such as web servers: coroutines on it then call the
        store directly and not through the app's own thread.
        """
        return self.access.connected()

    def close(self) -> None:
        """End threads and close connections."""
        self.access.close()


async def in_batches(
    operate: Callable[[Sequence[str]], Awaitable[list[bool]]], jobs: Sequence[str]
) -> list[bool]:
    """Apply the operation to any number of jobs, a batch at a time."""
    if isinstance(jobs, str):
        raise InvalidError(f"jobs {jobs!r} must be a list of ids; for one job give [{jobs!r}]")
    for job in jobs:
        check_word("job", job)
    return [
        answer
        for start in range(0, len(jobs), BATCH_LIMIT)
        for answer in await operate(jobs[start : start + BATCH_LIMIT])
    ]


def keys_of(given: Sequence[str | bytes] | None, written: str | None) -> "Keys | None":
    """The keys that were given, or else those of the environment; None if neither is set.

    An empty set of keys is refused: signing must not stop because a secret is empty.
    """
    if given is None and written is None:
        return None
    from mulligan.core.signature import Keys, read_keys  # noqa: PLC0415 - few apps sign

    if given is not None:
        return Keys(given)
    keys = read_keys(written or "")
    if not keys:
        raise InvalidError(f"{KEYS_VARIABLE} {written!r} has no key; unset it to sign nothing")
    return Keys(keys)
