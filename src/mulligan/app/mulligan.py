"""The app: a store, its tasks and its queues."""

import re
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import cached_property
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
from mulligan.app.no_pickle import refuse_pickling
from mulligan.app.operations import Operations
from mulligan.app.other_words import app_here
from mulligan.app.resources import Lifespan, check_lifespan
from mulligan.app.task import AsyncTask, PlainTask, Task
from mulligan.app.using import Prepared, jobs_of, listed
from mulligan.core.budget import Budget
from mulligan.core.checks import Seconds, check_name, check_word
from mulligan.core.errors import InvalidError
from mulligan.core.event import EventName, JobEvent
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import FetchPolicy, parse_policy
from mulligan.core.gather import Failure
from mulligan.core.limits import Limit, check_limit_name
from mulligan.core.lines import listed_weights
from mulligan.core.retry import Retry
from mulligan.core.settings import AN_APP, Settings
from mulligan.core.worker import DEFAULT_REGION
from mulligan.engine.current import CurrentCall
from mulligan.stores.contract import Store

if TYPE_CHECKING:
    from mulligan.app.schedules import Schedules
    from mulligan.app.stored_limits import Limits
    from mulligan.core.schedule import Schedule
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


class Mulligan(Operations):
    """An application: where its jobs are stored, which tasks it has, how its queues behave.

    Without a URL its store is the one in MULLIGAN_STORE, or else a SQLite file in this folder. An
    app connects at the first enqueue or when a worker starts. With `signing_keys` its jobs are
    signed with the first key, and its workers run no job that none of the keys has signed. Each
    worker process enters `lifespan` before its first claim and leaves it after its drain; what it
    yields are the resources that tasks ask for. Tasks that say nothing else have this `retry`
    policy, this `timeout`, and this task, by its name, that gets their dead letters. What the words
    and patterns of `redact` find is hidden like passwords.
    """

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
        redact: Sequence[str | re.Pattern[str]] = (),
    ) -> None:
        super().__init__(url, signing_keys)
        # Words in names, and patterns, that are secret besides the usual ones.
        self.redact = self._hide(redact) if redact else ()
        # Its name in commands: module:attribute, if a command loaded it.
        self.called = AN_APP
        self.settings = Settings() if settings is None else settings
        if not isinstance(self.settings, Settings):
            raise InvalidError(
                f"settings {settings!r} must be Settings, such as Settings(lease=30)"
            )
        self.tasks: dict[str, Task[..., Any]] = {}
        self.queues: dict[str, QueueSettings] = {}
        given = {"retry": retry, "on_dead": on_dead, "timeout": timeout}
        # What tasks have that do not say it themselves.
        self.defaults: TaskOptions = {k: v for k, v in given.items() if v is not None}  # type: ignore[assignment]
        TaskDecorator(self, {})  # refuses defaults that no task could have
        if lifespan is not None:
            check_lifespan(lifespan)
        self.lifespan = lifespan
        # Seconds since 1970; a test may have another start.
        self.clock: Callable[[], float] = time.time
        self.middlewares: list[Middleware] = []
        # Those of the worker that runs in this process.
        self.resources: Mapping[str, Any] = {}

    @staticmethod
    def _hide(given: Sequence[str | re.Pattern[str]]) -> tuple[str | re.Pattern[str], ...]:
        from mulligan.core.redaction import check_redact  # noqa: PLC0415 - few apps say more
        from mulligan.engine.traceback import SECRETS  # noqa: PLC0415 - as above

        checked = check_redact(given)
        SECRETS.add(checked)
        return checked

    if not TYPE_CHECKING:  # for type checkers, what is not there is not there
        __reduce__ = refuse_pickling

        def __getattr__(self, name: str) -> Any:
            """Say what an attribute of another queue's app is called here."""
            text = f"a Mulligan app has no attribute {name!r}{app_here(name)}"
            raise AttributeError(text, name=name, obj=self)

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

        The process that enqueues calls the hooks of `enqueue`, which are plain functions, before
        the call returns. Workers call those of `start`, `success`, `retry` and `dead`, plain
        functions and coroutines, in order, once the store has accepted what happened. A hook that
        raises is logged and counted, and changes nothing.
        """
        from mulligan.app.events import check_event, hook_of  # noqa: PLC0415 - few apps have hooks

        check_event(event)

        def add(function: H) -> H:
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
        shares = {} if weights is None else weights
        self.queues[check_name("queue", name)] = QueueSettings(
            chosen, budget, grace, listed_weights(shares)
        )
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
        home: int = 0,
    ) -> Limit:
        """Declare a limit, which jobs name: `@app.task(limits="openai")`.

        At most `concurrency` of them run at a time, and at most `rate` start in any `per` seconds,
        all workers and regions together. With `burst` the rate is a token bucket. A name that ends
        in `*` is a limit for each name that begins so. Workers store it when they start, and
        producers before the first job that names a limit. `home` is the shard in which it lives,
        for good, with all jobs that name it, where the app has several; all limits of a job have
        the same.
        """
        limit = Limit(concurrency, rate, per, burst, pause_on_retry_after, home)
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
        prepared = listed(calls)
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
        answers = await self.asend(jobs_of(listed(calls), self), connection=connection)
        return [JobHandle(self, job, created) for job, created in answers]

    def enqueue_many(
        self, calls: Iterable[Prepared[R]], *, connection: Any = None
    ) -> list[JobHandle[R]]:
        """Enqueue calls in batches, each batch as a whole or not at all.

        With a `connection` of your own all of them are part of its transaction.
        """
        prepared = listed(calls)  # a bad call is refused here, before anything is sent
        if self.joins(connection):
            answers = self.user_transactions.send(connection, jobs_of(prepared, self))
            return [JobHandle(self, job, created) for job, created in answers]
        return self.run(lambda: self.aenqueue_many(prepared))

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

    def worker(
        self,
        *,
        region: str = DEFAULT_REGION,
        queues: Sequence[str] = (),
        concurrency: int | None = None,
    ) -> AbstractAsyncContextManager[None]:
        """A worker on the running loop, in this process: `async with app.worker(): …`.

        For notebooks and small services. It serves `queues`, or all of the app, and drains when the
        block ends. A process of its own is `mulligan worker`.
        """
        from mulligan.app.worker import embedded, new_worker  # noqa: PLC0415 - few programs do

        worker = new_worker(self, region=region, queues=queues, concurrency=concurrency)
        return embedded(self, worker)

    # -- what the app declares, stored -----------------------------------------------------

    async def store_declared(self, store: Store) -> None:
        """Store there the settings of every queue, and every limit, that the app declares."""
        for name, settings in self.queues.items():
            await store.configure(name, settings)
        if self.declared_limits:
            await self.declared_limits.store_in(store)

    async def aconfigure(self) -> None:
        """Store the settings of every queue, and every limit, that the app declares."""
        await self.access.acall(self.store_declared)
        if self.declared_limits:
            self.declared_limits.were_stored_by(self.access)

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
        hold_through_backoff: bool | None = None,
        resources: Mapping[str, Any] | None = None,
        start: datetime | None = None,
    ) -> "Testing":
        """The app's real engine on a virtual clock, with a store in memory of its own.

        `with app.testing() as t`, or in a coroutine `async with app.testing() as t`. With
        `resources` tasks get these, and the app's lifespan is not entered. `start` is the date at
        which the clock starts: 1970-01-01 unless given.
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
            start=start,
        )
