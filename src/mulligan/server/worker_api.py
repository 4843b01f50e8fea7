"""The routes under /worker/: a worker's life over HTTP, each request safe to send again."""

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct
from starlette.requests import Request

from mulligan.core.checks import check_depth, clean
from mulligan.core.decide import beyond
from mulligan.core.errors import UNREADABLE, InvalidError
from mulligan.core.gather import raw_results
from mulligan.core.health import DATA_ERRORS
from mulligan.core.job import NONE_ARRIVE, Arrivals, Claim, Lease
from mulligan.core.limits import check_paused_name, costs_of
from mulligan.core.outcome import Drained, Failed, Result, Returned, Snoozed
from mulligan.core.signals import BadSignature
from mulligan.engine.result_gate import failed
from mulligan.engine.traceback import bounded, kept_message
from mulligan.server.attempts import ResultOf
from mulligan.server.service import Service
from mulligan.server.sessions import check_owner
from mulligan.server.shapes.workers import (
    Acks,
    ClaimedJob,
    ClaimedJobs,
    ClaimRequest,
    CommittedJobs,
    Heartbeat,
    HeartbeatAnswer,
    Held,
    Join,
    Joined,
    Leave,
    Left,
    Nacks,
    Returns,
    Snoozes,
)
from mulligan.stores.for_attempts import arrivals_for_attempt


class RawCall(Struct):
    """The part of a body that a worker needs; the arguments are passed on undecoded."""

    args: Raw = Raw(b"[]")
    kwargs: Raw = Raw(b"{}")
    timeout: float | None = None
    flow: Arrivals = NONE_ARRIVE
    refused: str | None = None


decode_raw_call = msgspec.json.Decoder(RawCall).decode


async def join(service: Service, body: Join, principal: bytes) -> Joined:
    """Become a worker: its id for this run, how long leases last and how often to beat."""
    settings = service.settings
    lease = settings.lease if body.lease is msgspec.UNSET else body.lease
    session = await service.sessions.join(body, lease, principal)
    beat = min(settings.beat, lease / 3)
    return Joined(session.worker.id, lease, beat)


async def heartbeat(service: Service, body: Heartbeat, principal: bytes) -> HeartbeatAnswer:
    """Keep all leases of a worker, and tell it which it has lost.

    Jobs that it holds in the store and has not shown for a whole lease are given back.
    """
    session = await service.sessions.of(body.worker, principal)
    holding = [Lease(each.id, each.token) for each in body.holding or ()]
    beat = await service.sessions.beat(session, holding)
    if body.holding is None:
        return HeartbeatAnswer([], [])
    if beat.forgotten:
        await service.store.commit([Returned(lease) for lease in beat.forgotten])
    return HeartbeatAnswer(
        [Held(*lease) for lease in beat.lost], [Held(*lease) for lease in beat.forgotten]
    )


async def claim(
    service: Service, body: ClaimRequest, request: Request, principal: bytes
) -> ClaimedJobs:
    """Jobs to run now, by the policy of the queue; waits for the first one if asked to."""
    session = await service.sessions.of(body.worker, principal)

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    claims = await service.sessions.claim(session, body.limit, body.wait, gone)
    claims = service.attempts.started(await service.attempts.under_limits(claims))
    jobs: list[ClaimedJob] = []
    unreadable: list[tuple[Claim, Result]] = []
    for each in claims:
        try:
            call = decode_raw_call(each.body)
        except UNREADABLE as error:
            unreadable.append((each, failed(error)))
            continue
        if call.refused is not None:
            unreadable.append((each, failed(BadSignature(call.refused, "signature"))))
        elif (spent := beyond(each)) is not None:
            unreadable.append((each, spent))
        else:
            try:
                if call.flow.gathers and not call.flow.ignores:
                    call.args = await gathered(service, each, call.args)
            except BadSignature as error:
                unreadable.append((each, failed(error)))
                continue
            jobs.append(handed_out(each, call))
    if unreadable:
        await fail_unreadable(service, body.worker, unreadable)
    return ClaimedJobs(jobs)


async def ack(service: Service, body: Acks, principal: bytes) -> CommittedJobs:
    """Attempts that succeeded. A result that the task's `accept` refuses is a failed attempt."""
    for each in body.jobs:
        check_depth(f"the result of job {each.id}", bytes(each.result))

    def result_of(index: int, claim: Claim) -> Result:
        return service.attempts.judge(claim, bytes(body.jobs[index].result))

    check_owner(body.worker, principal)
    return await written(service, body.worker, body.jobs, result_of)


async def nack(service: Service, body: Nacks, principal: bytes) -> CommittedJobs:
    """Attempts that failed: retried by the job's policy, unless non-retryable or the last."""

    def result_of(index: int, claim: Claim) -> Result:
        said = body.jobs[index]
        if said.pause and said.delay is None:
            raise InvalidError(
                f"job {said.id}: pause {', '.join(said.pause)} needs a delay, which says how long"
            )
        paused = check_pauses(claim, said.pause)
        return Failed(
            clean(said.type),
            kept_message(said.reason),
            None if said.code is None else clean(said.code),
            said.delay,
            said.non_retryable,
            about_region=said.delay is None and said.type not in DATA_ERRORS,
            traceback=bounded(said.traceback) if said.traceback else None,
            classes=(said.type, *said.classes),
            pause=paused,
        )

    check_owner(body.worker, principal)
    return await written(service, body.worker, body.jobs, result_of)


def check_pauses(claim: Claim, names: Sequence[str]) -> tuple[str, ...]:
    """The limits to pause; refuses those that the job does not name."""
    paused = tuple(map(check_paused_name, names))
    named = [name for name, _ in costs_of(claim.limits)]
    for name in paused:
        if name not in named:
            raise InvalidError(
                f"job {claim.id}: limit {name!r} is not one of the job's limits"
                f" ({', '.join(named) or 'none'}); a worker pauses those of its own jobs, and"
                " an operator any: POST /api/limits/LIMIT/pause"
            )
    return paused


async def snooze(service: Service, body: Snoozes, principal: bytes) -> CommittedJobs:
    """Run these later; no attempt is used."""

    def result_of(index: int, _claim: Claim) -> Result:
        return Snoozed(body.jobs[index].delay)

    check_owner(body.worker, principal)
    return await written(service, body.worker, body.jobs, result_of)


async def give_back(service: Service, body: Returns, principal: bytes) -> CommittedJobs:
    """Give back what was not started; no attempt is used."""

    def result_of(_index: int, _claim: Claim) -> Result:
        return Drained()

    check_owner(body.worker, principal)
    return await written(service, body.worker, body.jobs, result_of)


async def leave(service: Service, body: Leave, principal: bytes) -> Left:
    """Stop being a worker; what it still holds may be reclaimed at once."""
    await service.sessions.leave(body.worker, principal)
    return Left(body.worker)


async def written(
    service: Service, worker: str, said: Sequence[Held], result_of: ResultOf
) -> CommittedJobs:
    """Commit the results, and answer what became of each."""
    facts = await service.sessions.known_facts()
    return CommittedJobs(await service.attempts.commit(worker, said, result_of, facts))


async def fail_unreadable(
    service: Service, worker: str, claims: Sequence[tuple[Claim, Result]]
) -> None:
    """Fail jobs whose arguments cannot be read, as a worker in process would."""
    held = [Held(claim.id, claim.token) for claim, _ in claims]
    await written(service, worker, held, lambda index, _claim: claims[index][1])


async def gathered(service: Service, claim: Claim, bound: Raw) -> Raw:
    """The arguments of a gathering job: those that were bound, and the results that arrived."""
    arrived = await arrivals_for_attempt(service.store, claim.id)
    args = [*msgspec.json.decode(bound, type=list[Raw]), raw_results(arrived)]
    return Raw(msgspec.json.encode(args))


def handed_out(claim: Claim, call: RawCall) -> ClaimedJob:
    """The job as a worker gets it."""
    return ClaimedJob(
        claim.id,
        claim.token,
        claim.task,
        call.args,
        call.kwargs,
        call.timeout,
        claim.queue,
        claim.region,
        claim.attempt,
        claim.replay,
        claim.lane.label,
    )
