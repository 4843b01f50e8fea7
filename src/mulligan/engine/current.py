"""The current job: what a task may ask about its own attempt, and record of it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from mulligan.core import record
from mulligan.core.checks import all_finite
from mulligan.core.errors import InvalidError, MulliganError
from mulligan.core.job import Claim, Lease
from mulligan.core.limits import check_costs, check_spent

if TYPE_CHECKING:
    from mulligan.engine.attempt_records import Records, TaskRecords

RUNNING: ContextVar[Claim] = ContextVar("mulligan_running")
RECORDS: ContextVar["Records"] = ContextVar("mulligan_records")
# How often the function was called in this attempt.
CALL: ContextVar[int] = ContextVar("mulligan_call", default=1)
# By lease of a running attempt: the job whose result it waits for.
AWAITED: dict[Lease, str] = {}


class CurrentJob(Struct, frozen=True):
    """The running attempt. `attempt` counts from 1; `replay` is how often it was replayed.

    `call` is 1, and more if a transactional sink is called again in the same attempt because its
    transaction was cut off.

    What it records is kept with the job: `progress` and `log` are sent soon, a checkpoint at once.
    Once the lease was lost, each of them raises LeaseLost.
    """

    id: str
    task: str
    queue: str
    region: str
    worker_region: str
    worker: str
    attempt: int
    retry_count: int
    replay: int
    lane: str
    token: int
    call: int = 1

    def step_key(self, name: str) -> str:
        """A key for this step, the same at every attempt: an idempotency key for a service."""
        return record.step_key(self.id, name)

    def progress(self, done: float, of: float | None = None, note: str | None = None) -> None:
        """Say how far the job is; sent twice a second at most, and the last one in any case."""
        recording().note("progress", record.progress_value(done, of, note))

    async def aprogress(
        self, done: float, of: float | None = None, note: str | None = None
    ) -> None:
        """As `progress`, which waits for nothing either."""
        self.progress(done, of, note)

    def log(self, text: str) -> None:
        """Keep a line with the job, of which the newest 200 stay; sent soon."""
        recording().note("log", record.line_value(text))

    async def alog(self, text: str) -> None:
        """As `log`, which waits for nothing either."""
        self.log(text)

    def spend(self, limit: str, cost: int) -> None:
        """Charge a limit for what was only known now, such as tokens: with the outcome, once.

        The attempt goes on; jobs of the limit wait until there is room again. Refuses a limit that
        neither the app declares nor the job names.
        """
        [(name, checked)] = check_costs({limit: cost}).items()
        mine = recording()
        check_spent([name], running().limits, RECORDS.get().limits)
        mine.spend(name, checked)

    def checkpoint(self, cursor: Any) -> None:
        """Keep where a later attempt goes on; it is stored when this returns."""
        value, mine = encoded(cursor), recording()
        mine.wait_for(lambda: mine.write("checkpoint", "", value))

    async def acheckpoint(self, cursor: Any) -> None:
        """Keep where a later attempt goes on; it is stored when this returns."""
        value, mine = encoded(cursor), recording()
        await mine.await_on_loop(lambda: mine.write("checkpoint", "", value))

    @property
    def last_checkpoint(self) -> Any:
        """The newest checkpoint, as JSON gives it; None if there is none."""
        mine = recording()
        return decoded(mine.wait_for(mine.last_checkpoint))

    async def alast_checkpoint(self) -> Any:
        """The newest checkpoint, as JSON gives it; None if there is none."""
        mine = recording()
        return decoded(await mine.await_on_loop(mine.last_checkpoint))


class CurrentCall(CurrentJob, frozen=True, kw_only=True):
    """The running attempt as middleware sees it: with the arguments, converted, of the call.

    `resources` are all that the lifespan has yielded, whether the task asks for them or not.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    resources: Mapping[str, Any]


def current_job() -> CurrentJob:
    """The job whose task is running in this coroutine or thread."""
    return CurrentJob(**fields_of(running()))


@contextmanager
def awaiting(job: str) -> Iterator[None]:
    """Note that the attempt that is running here, if one is, waits for the result of the job."""
    claim = RUNNING.get(None)
    if claim is None:
        yield
        return
    AWAITED[claim.lease] = job
    try:
        yield
    finally:
        AWAITED.pop(claim.lease, None)


def running() -> Claim:
    """The claim whose task is running here."""
    claim = RUNNING.get(None)
    if claim is None:
        raise MulliganError("current_job() was called outside a running task; call it inside one")
    return claim


def recording() -> "TaskRecords":
    """What the attempt that is running here records."""
    claim = running()
    records = RECORDS.get(None)
    if records is None:
        raise MulliganError(
            f"job {claim.id}: a transactional sink runs within the commit of its job, and records"
            " nothing; let a task before it do that"
        )
    return records.of(claim)


def current_call(
    args: Sequence[Any], kwargs: Mapping[str, Any], resources: Mapping[str, Any]
) -> CurrentCall:
    """The current job, and this call of its task."""
    return CurrentCall(
        **fields_of(RUNNING.get()), args=tuple(args), kwargs=kwargs, resources=resources
    )


def fields_of(claim: Claim) -> dict[str, Any]:
    """What a CurrentJob says of the attempt."""
    return {
        "id": claim.id,
        "task": claim.task,
        "queue": claim.queue,
        "region": claim.region,
        "worker_region": claim.worker_region,
        "worker": claim.worker,
        "attempt": claim.attempt,
        "retry_count": claim.retry_count,
        "replay": claim.replay,
        "lane": claim.lane.label,
        "token": claim.token,
        "call": CALL.get(),
    }


def encoded(cursor: Any) -> bytes:
    """A checkpoint as JSON; refuses what cannot be written and read back."""
    try:
        value = msgspec.json.encode(cursor)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidError(
            f"checkpoint {repr(cursor)[:80]} cannot be written as JSON: {error}; keep text,"
            " numbers, lists and dicts"
        ) from error
    if b"null" in value and not all_finite(msgspec.to_builtins(cursor, str_keys=True)):
        raise InvalidError(f"checkpoint {repr(cursor)[:80]} holds NaN or Infinity; keep others")
    return record.checked_value("the checkpoint", value)


def decoded(value: bytes | None) -> Any:
    """A checkpoint, read."""
    return None if value is None else msgspec.json.decode(value)
