"""Commits the attempts of HTTP workers, by the same rules as those of workers in process."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mulligan.app import Task
from mulligan.core.decide import decide, with_use
from mulligan.core.declared import completed, limited
from mulligan.core.errors import UNREADABLE
from mulligan.core.facts import Facts
from mulligan.core.job import Claim, Job, Lease
from mulligan.core.limits import ALL_LIMITS, check_costs, check_spent, costs_of, covering
from mulligan.core.outcome import (
    Again,
    Cancelled,
    Dead,
    Done,
    Failed,
    Later,
    Limited,
    Outcome,
    Result,
    Returned,
    Succeeded,
    Verdict,
)
from mulligan.core.settings import Settings
from mulligan.core.signature import Keys
from mulligan.engine.decider import LaneDepths
from mulligan.engine.job_log import log_failure
from mulligan.engine.reporter import Reporter, ending_of
from mulligan.engine.result_gate import refusal, too_large
from mulligan.server.problems import Refusal
from mulligan.server.shapes.workers import Committed, Ended, Held
from mulligan.stores.contract import Store

if TYPE_CHECKING:
    from mulligan.engine.breakers import Ending

# How many claims of this server to keep in memory, so that commits need not read them.
REMEMBERED = 10_000
LONGEST_REMEMBERED_BODY = 4096
# How long the token of a worker may pause a limit, unless the operator says otherwise.
LONGEST_PAUSE = 3600.0
LOOK_UP_AT_ONCE = 50
# The result of an attempt, from its index in the request and its claim.
ResultOf = Callable[[int, Claim], Result]


class Marks(Struct):
    """The fields of a job's body that say who may judge its result."""

    gated: bool = False
    sink: Any = None


decode_marks = msgspec.json.Decoder(Marks).decode


def is_gated(body: bytes) -> bool:
    """Whether the app that enqueued the job has a result gate for it."""
    try:
        marks = decode_marks(body)
    except UNREADABLE:
        return False
    return marks.gated or marks.sink is not None


def bounded_pauses(outcome: Outcome, longest: float) -> Outcome:
    """The outcome, pausing limits for so long at most: a worker's token is not an operator's."""
    if isinstance(outcome, Returned | Limited | Cancelled) or outcome.use is None:
        return outcome
    use = outcome.use
    pauses = tuple((name, min(seconds, longest)) for name, seconds in use.pauses)
    wait = None if use.retry_after is None else min(use.retry_after, longest)
    return replace(outcome, use=replace(use, pauses=pauses, retry_after=wait))


class Attempts:
    """Turns what workers report about their leases into commits."""

    def __init__(
        self,
        store: Store,
        reporter: Reporter,
        settings: Settings,
        tasks: Mapping[str, Task[..., Any]],
        draw: Callable[[], float],
        *,
        keys: Keys | None = None,
        limits: Collection[str] = (),
        longest_pause: float = LONGEST_PAUSE,
    ) -> None:
        self._longest_pause = longest_pause
        self._limits = limits
        self._store = store
        self._reporter = reporter
        self._settings = settings
        self._tasks = tasks
        self._draw = draw
        self._keys = keys
        self._claims: OrderedDict[Lease, Claim] = OrderedDict()
        # When claims of this server were handed out; runtimes of others' are not measured.
        self._began: OrderedDict[Lease, float] = OrderedDict()
        self._depths = LaneDepths(store, monotonic)

    async def under_limits(self, claims: Sequence[Claim]) -> list[Claim]:
        """The claims to hand out; one that lacks its task's limits gets them and waits."""
        ready: list[Claim] = []
        waiting: list[Outcome] = []
        for claim in claims:
            task = self._tasks.get(claim.task)
            outcome = None if task is None else limited(claim, task.declared)
            if outcome is None:
                ready.append(claim)
            else:
                waiting.append(outcome)
        if waiting:
            await self._store.commit(waiting)
        return ready

    def started(self, claims: Sequence[Claim]) -> list[Claim]:
        """Count the starts, and return the claims completed with what their tasks declare."""
        claims = list(map(self._completed, claims))
        for claim in claims:
            self._reporter.started(claim)
            if len(claim.body) <= LONGEST_REMEMBERED_BODY:
                self._claims[claim.lease] = claim
            self._began[claim.lease] = monotonic()
        for remembered in (self._claims, self._began):
            while len(remembered) > REMEMBERED:
                remembered.popitem(last=False)
        return claims

    async def commit(
        self,
        worker: str,
        said: Sequence[Held],
        result_of: ResultOf,
        facts: Facts,
    ) -> list[Committed]:
        """Commit the outcome of each lease; that of a job which is not stored is stale.

        So is a lease that another worker holds, or that was never given out.

        If `result_of` refuses one, nothing is written.
        """
        found = await self._claims_of([Lease(each.id, each.token) for each in said])
        # a job that does not run has no worker: its outcome is already written, or stale
        claims = [c if c is not None and c.worker in ("", worker) else None for c in found]
        results = [
            None if claim is None else result_of(index, claim) for index, claim in enumerate(claims)
        ]
        decided: list[tuple[Claim, Result]] = []
        outcomes: list[Outcome] = []
        endings: list[Ending] = []
        for each, claim, result in zip(said, claims, results, strict=True):
            if claim is None or result is None:
                continue
            spent = await self._spent_by(each, claim)
            depth = await self._depths.of(claim) if isinstance(result, Failed) else 0
            decision = decide(claim, result, facts, self._draw(), depth)
            outcome = bounded_pauses(with_use(decision, result, spent), self._longest_pause)
            decided.append((claim, result))
            outcomes.append(outcome)
            endings.append(ending_of(claim, result, outcome, facts))
        verdicts = await self._store.commit(outcomes) if outcomes else []
        for (claim, result), outcome, ending, verdict in zip(
            decided, outcomes, endings, verdicts, strict=True
        ):
            if verdict != "already":  # counted when it was written
                self._reporter.answered(ending, verdict)
                began = self._began.pop(claim.lease, None)
                if began is not None:
                    self._reporter.ran(claim, result, outcome, monotonic() - began)
            if verdict == "written" and isinstance(outcome, Again | Dead):
                log_failure(claim, outcome)
        written = iter(zip(outcomes, verdicts, strict=True))
        return [
            Committed(each.id, each.token, "stale") if claim is None else answer(*next(written))
            for each, claim in zip(said, claims, strict=True)
        ]

    def judge(self, claim: Claim, raw: bytes) -> Result:
        """The result of a success: refused if the task's `accept` refuses it."""
        task = self._tasks.get(claim.task)
        if task is None and is_gated(claim.body):
            raise Refusal(
                "result-gate",
                f"job {claim.id}: results of task {claim.task!r} pass a gate of its app, which this"
                " server does not have; start it with: mulligan serve APP",
                jobs=[claim.id],
            )
        if task is not None and task.transactional:
            raise Refusal(
                "result-gate",
                f"job {claim.id}: sink {claim.task!r} is transactional, and runs within a commit;"
                " leave its queue to: mulligan worker APP",
                jobs=[claim.id],
            )
        if task is not None and task.accept is not None:
            wrong = refusal(task.accept, msgspec.json.decode(raw))
            if wrong is not None:
                return wrong
        result = None if raw == b"null" else raw
        return too_large(result, self._settings.result_limit) or Succeeded(result)

    async def _spent_by(self, said: Held, claim: Claim) -> dict[str, int]:
        """Return what the attempt says it spent; refuses limits that nobody has declared or set."""
        if not isinstance(said, Ended) or not said.spent:
            return {}
        spent = check_costs(said.spent)
        named = {name for name, _ in costs_of(claim.limits)}
        if all(name in named or covering(name, self._limits) for name in spent):
            return spent
        stored = await self._store.limits(ALL_LIMITS)
        in_force = {view.name for view in stored if view.stored.in_force is not None}
        check_spent(spent, claim.limits, {*self._limits, *in_force})
        return spent

    async def _claims_of(self, leases: Sequence[Lease]) -> list[Claim | None]:
        """The claim of each lease; claims of other servers are read from the store."""
        found: dict[Lease, Claim | None] = {
            lease: self._claims.pop(lease, None) for lease in leases
        }
        missing = [lease for lease, claim in found.items() if claim is None]
        for start in range(0, len(missing), LOOK_UP_AT_ONCE):
            part = missing[start : start + LOOK_UP_AT_ONCE]
            jobs = await asyncio.gather(*(self._store.get(lease.job) for lease in part))
            for lease, job in zip(part, jobs, strict=True):
                if job is not None and lease.token <= job.token:
                    found[lease] = self._claim_of(job, lease.token)
        return [found[lease] for lease in leases]

    def _claim_of(self, job: Job, token: int) -> Claim:
        claim = replace(claim_of(job), token=token)
        return self._completed(claim if self._keys is None else self._keys.checked(claim))

    def _completed(self, claim: Claim) -> Claim:
        task = self._tasks.get(claim.task)
        return claim if task is None else completed(claim, task.declared)


def claim_of(job: Job) -> Claim:
    """The claim that a commit of this running job needs."""
    return Claim(
        job.id,
        job.token,
        job.queue,
        job.task,
        job.body,
        job.region,
        job.priority,
        job.scope,
        job.lane_priority,
        job.due,
        job.retry_count,
        job.replay,
        job.snoozes,
        job.worker or "",
        job.worker_region or job.region,
        job.started_at or 0.0,
        job.trail,
        job.limits,
    )


def answer(outcome: Outcome, verdict: Verdict) -> Committed:
    """The answer to the worker; it has the outcome only if that was written now."""
    job, token = outcome.lease
    if verdict != "written":
        return Committed(job, token, verdict)
    match outcome:
        case Done():
            return Committed(job, token, verdict, "done")
        case Again():
            return Committed(job, token, verdict, "retry", outcome.delay, outcome.failure.message)
        case Dead():
            return Committed(job, token, verdict, "failed", reason=outcome.failure.message)
        case Later():
            return Committed(job, token, verdict, "later", outcome.delay)
        case _:
            return Committed(job, token, verdict, "returned")
