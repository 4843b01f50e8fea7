"""A handle on a job that was enqueued: ask how it is, wait for its result, cancel it."""

from math import inf
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, cast

from msgspec import Struct

from mulligan.app.no_pickle import refuse_pickling
from mulligan.core.checks import Seconds, check_seconds, clean, span
from mulligan.core.errors import (
    InvalidError,
    JobCancelledError,
    JobFailedError,
    ResultTimeoutError,
    UnknownJobError,
)
from mulligan.core.flow import following_of, sink_id
from mulligan.core.job import ENDED, NO_REASON, Attempt, Job, Status
from mulligan.core.record import SHOWN_LIMIT, Records, shown
from mulligan.core.settings import TEXT_LIMIT
from mulligan.core.signals import Fail
from mulligan.engine.current import RUNNING, awaiting

if TYPE_CHECKING:
    from mulligan.app.mulligan import Mulligan
else:
    Mulligan = Any  # help() reads annotations, and that module imports this one

R = TypeVar("R")
# Flags of code objects, as `inspect` has them, which takes a while to import.
CO_COROUTINE, CO_ASYNC_GENERATOR = 0x80, 0x200


class JobHandle(Struct, Generic[R], frozen=True, gc=False):
    """One job, by id. `created` is False if it was there before the call that returned this."""

    _app: "Mulligan"
    id: str
    created: bool

    def __repr__(self) -> str:
        return f"<job {self.id}>"

    async def ainfo(self) -> Job:
        """The job as it is now."""
        job = await self._app.access.acall(lambda store: store.get(self.id))
        if job is None:
            raise UnknownJobError(
                f"no job {self.id!r} is stored in {self._app.shown_url}; done and cancelled jobs"
                f" are kept for {span(self._app.settings.keep_done)} unless their task says keep="
            )
        return job

    def info(self) -> Job:
        """The job as it is now."""
        return self._app.run(self.ainfo)

    @property
    def status(self) -> Status:
        """Its status now."""
        return self.info().status

    async def aresult(self, timeout: Seconds | None = None) -> R:  # noqa: ASYNC109
        """Wait for the accepted result, in the type that the task declares.

        It is here a moment after the commit. It is kept for an hour, or as long as the task's
        `keep=` or the setting `keep_done` says; then the job is unknown. Raises if the job failed,
        was cancelled, is late or unknown, and if its result does not fit.
        """
        # A deadline may be over already, and endless is as good as None.
        within = inf if timeout is None else timeout
        job = await self._ended(check_seconds("timeout", within, least=-inf, most=inf))
        if job.status == "failed":
            attempts = await self._app.access.acall(lambda store: store.history(job.id))
            reason = job.last_failure_reason or NO_REASON
            raise JobFailedError(f"job {job.id} failed: {reason}", attempts)
        if job.status == "cancelled":
            reason = job.cancel_reason or NO_REASON
            raise JobCancelledError(f"job {job.id} was cancelled: {reason}")
        task = self._app.tasks.get(job.task)
        return cast("R", job.value() if task is None else task.returned(job))

    def result(self, timeout: Seconds | None = None) -> R:
        """Wait for the accepted result, in the type that the task declares.

        It is here a moment after the commit. It is kept for an hour, or as long as the task's
        `keep=` or the setting `keep_done` says; then the job is unknown. Raises if the job failed,
        was cancelled, is late or unknown, and if its result does not fit. It is refused in a task
        that is a coroutine, where it would block the worker's loop. Any other coroutine that calls
        it gets a RuntimeWarning.
        """
        refuse_in_coroutine(self)
        if self._app.access.blocks_loops:
            warn_in_coroutine()
        return self._app.run(lambda: self.aresult(timeout))

    async def _ended(self, within: float) -> Job:
        from mulligan.app.wait import until_over  # noqa: PLC0415 - to import quickly

        access = self._app.access
        with awaiting(self.id):
            job = await until_over(access.acall, access.waiter(), self.ainfo, self.is_over, within)
        if not self.is_over(job):
            raise ResultTimeoutError(
                f"job {self.id} has not ended after {within:g} s: {await self.aexplain()}"
            )
        return job

    def is_over(self, job: Job) -> bool:
        """Whether it has ended, with a result or without."""
        return job.status in ENDED

    async def ahistory(self) -> list[Attempt]:
        """Its failed and lost attempts, oldest first."""
        return await self._app.access.acall(lambda store: store.history(self.id))

    def history(self) -> list[Attempt]:
        """Its failed and lost attempts, oldest first."""
        return self._app.run(self.ahistory)

    async def arecords(self, *, full: bool = False) -> Records:
        """What it has recorded so far: steps, progress, log lines, its checkpoint.

        Unless `full`, results of steps, and a checkpoint, of more than 1,024 bytes are left out.
        """
        most = None if full else SHOWN_LIMIT
        found = await self._app.access.acall(lambda store: store.records(self.id, most))
        return shown(found)

    def records(self, *, full: bool = False) -> Records:
        """What it has recorded so far: steps, progress, log lines, its checkpoint.

        Unless `full`, results of steps, and a checkpoint, of more than 1,024 bytes are left out.
        """
        return self._app.run(lambda: self.arecords(full=full))

    async def asink(self) -> "JobHandle[Any]":
        """The job that gives its result to its sink; it is enqueued when this one is done."""
        job = await self.ainfo()
        follows = following_of(job.body)
        if follows.sink is None:
            raise InvalidError(f"job {job.id} of task {job.task} has no sink")
        return self._app.job(sink_id(job, follows))

    def sink(self) -> "JobHandle[Any]":
        """The job that gives its result to its sink; it is enqueued when this one is done."""
        return self._app.run(self.asink)

    async def acancel(self, reason: str = "cancelled by its caller") -> bool:
        """End the job; False if it had ended already."""
        said = storable(reason)
        answers = await self._app.access.acall(lambda store: store.cancel([self.id], said))
        return answers[0]

    def cancel(self, reason: str = "cancelled by its caller") -> bool:
        """End the job; False if it had ended already."""
        return self._app.run(lambda: self.acancel(reason))

    async def aexplain(self) -> str:
        """One sentence on why the job is where it is."""
        return await self._app.aexplain(self.id)

    def explain(self) -> str:
        """One sentence on why the job is where it is."""
        return self._app.run(self.aexplain)

    if not TYPE_CHECKING:  # for type checkers, what is not there is not there

        def __await__(self) -> NoReturn:
            """Refuse to wait for what is not asynchronous."""
            raise InvalidError(
                f"job {self.id} is enqueued already: enqueue() is for plain code and returns no"
                " coroutine; write await task.aenqueue(...), and await job.aresult() for its result"
            )

        __reduce__ = refuse_pickling

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobHandle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)


def refuse_in_coroutine(handle: JobHandle[Any]) -> None:
    """Refuse to block a loop that runs other jobs, perhaps the awaited one among them."""
    if RUNNING.get(None) is None:
        return
    import asyncio  # noqa: PLC0415 - a worker has imported it

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise Fail(
        f"result() of job {handle.id} would hold up every job of this worker, perhaps the awaited"
        " one too; in a task that is a coroutine function use: await handle.aresult()",
        "blocking",
    )


def warn_in_coroutine() -> None:
    """Warn a coroutine, such as an endpoint, that it blocks its event loop."""
    import sys  # noqa: PLC0415 - not for `enqueue`

    caller = sys._getframe(2)  # noqa: SLF001 - the code that calls `result()`
    if caller.f_code.co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR):
        import warnings  # noqa: PLC0415

        warnings.warn(
            f"result() in the coroutine {caller.f_code.co_qualname} blocks its event loop, and all"
            " that runs there, until the job has ended; use: await job.aresult()",
            RuntimeWarning,
            stacklevel=3,
        )


def storable(reason: str) -> str:
    """The reason, so that every store can keep it."""
    if not isinstance(reason, str):
        raise InvalidError(f"reason {reason!r} must be text, not {type(reason).__name__}")
    return clean(reason)[:TEXT_LIMIT]
