"""Outcomes: batches of them, cut where their order could matter, and those of a user's own work."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import psycopg
from psycopg.rows import tuple_row

from mulligan.core.errors import InvalidError
from mulligan.core.job import NewJob
from mulligan.core.outcome import (
    Again,
    Cancelled,
    Dead,
    Done,
    Later,
    Limited,
    LimitUse,
    Outcome,
    Returned,
    Verdict,
)
from mulligan.core.settings import HISTORY_LIMIT
from mulligan.stores.postgres.arrays import alike, bytestrings, flags, numbers, sparse, texts
from mulligan.stores.postgres.connection import Connection
from mulligan.stores.postgres.database import Database
from mulligan.stores.postgres.fields import NO_JOBS, failure_json, job_columns, micros, plain
from mulligan.stores.postgres.named_limits import pause_micros
from mulligan.stores.postgres.statements import OUTCOMES
from mulligan.stores.postgres.url import ended_key

Work = Callable[[Connection], Awaitable[Any]]

# A statement is prepared for each number of parts, each with all parameters of a commit.
TOGETHER = 16
VERDICTS: dict[int, Verdict] = {1: "written", 2: "already", 3: "stale"}
KINDS: dict[type, int] = {
    Done: 1,
    Again: 2,
    Later: 3,
    Dead: 4,
    Returned: 5,
    Cancelled: 6,
    Limited: 7,
}


class Written(NamedTuple):
    """What became of each outcome, whether callers wait for jobs to end, and were told of these."""

    verdicts: list[Verdict]
    any_watching: bool
    told: bool = False


async def commit(
    database: Database, outcomes: Sequence[Outcome], told: str | None = None
) -> Written:
    """Write each outcome whose lease is still held, and say what became of each.

    Those that are plainly done are written by one quick statement, others by a full one. Where
    somebody is likely to wait for jobs to end, `told` is what the quick one says to them.
    """
    if not outcomes:
        return Written([], any_watching=False)
    if plainly_done(outcomes):
        return await finish(database, outcomes, told)
    return await commit_parts(database, outcomes)


async def finish(database: Database, outcomes: Sequence[Any], told: str | None) -> Written:
    """Write outcomes that are plainly done."""
    ids, tokens = zip(*[outcome.lease for outcome in outcomes], strict=True)
    results = sparse(bytestrings, alike([outcome.result for outcome in outcomes]))
    values: dict[str, Any] = {"ids": texts(ids), "tokens": numbers(tokens), "results": results}
    name = "finish"
    if told is not None:
        name = "finish_and_tell"
        values |= {"watch_key": ended_key(database.url.schema), "told": told}
    [[answers, any_watching]] = await database.call(name, **values)
    answers = [1] * len(outcomes) if answers is None else answers
    return Written([VERDICTS[answer] for answer in answers], any_watching, told is not None)


async def commit_parts(database: Database, outcomes: Sequence[Outcome]) -> Written:
    """Write the parts one after the other, as many as may be in one statement.

    In a transaction of several, the server would wait for us between them with all that the
    first has locked, and every other worker for it.
    """
    parts = list(in_parts(outcomes))
    verdicts: list[Verdict] = []
    any_watching = False
    for start in range(0, len(parts), TOGETHER):
        some = parts[start : start + TOGETHER]
        values = [
            value for each in some for value in database.values("commit", outcome_values(each))
        ]
        if len(some) > 1:
            values.insert(0, texts([outcome.lease.job for each in some for outcome in each]))
        [row] = await database.pool.run(database.statements.commits(len(some)), tuple(values))
        _, *answered, any_watching = row
        verdicts += [VERDICTS[answer] for answers in answered for answer in answers]
    return Written(verdicts, any_watching)


def plainly_done(outcomes: Sequence[Outcome]) -> bool:
    """Whether all are Done of different jobs, without next jobs and without a use of limits."""
    for outcome in outcomes:
        if type(outcome) is not Done or outcome.next or outcome.use is not None:
            return False
    return len({outcome.lease.job for outcome in outcomes}) == len(outcomes)


def in_parts(outcomes: Sequence[Outcome]) -> Iterator[list[Outcome]]:
    """Cut a batch so that writing each part at once is the same as writing one by one.

    In a part jobs end and are put back first, then next jobs are enqueued, then members arrive, and
    last those that are cancelled are missed. So a job that is put back must not come after a next
    job, nor one that is done after one that is cancelled; a unique key must not be freed, nor a
    member arrive, before or after a next job that asks for it; next jobs that join lines must not
    come before or after others that do; and a job occurs once.
    """
    part: list[Outcome] = []
    seen: set[str] = set()
    following = cancelled = False
    for outcome in outcomes:
        more, use = (outcome.next, outcome.use) if isinstance(outcome, Done | Dead) else ((), None)
        alone = any(matters(job) for job in more) or (use is not None and bool(more))
        late = (following and isinstance(outcome, Again | Later)) or (
            cancelled and isinstance(outcome, Done)
        )
        if part and (alone or late or outcome.lease.job in seen):
            yield part
            part, seen, following, cancelled = [], set(), False, False
        part.append(outcome)
        seen.add(outcome.lease.job)
        following = following or bool(more)
        cancelled = cancelled or isinstance(outcome, Cancelled)
        if alone:
            yield part
            part, seen, following, cancelled = [], set(), False, False
    if part:
        yield part


def matters(job: NewJob) -> bool:
    """Whether a next job reads what an outcome before or after it may change."""
    asks = job.unique_key, job.limits, job.fairness_key
    return job.awaits > 0 or any(each is not None for each in asks)


def outcome_values(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Outcomes and their next jobs as `commit` takes them."""
    lanes = [o.lane if isinstance(o, Again) else None for o in outcomes]
    failures = [o.failure if isinstance(o, Again | Dead) else None for o in outcomes]
    delays = [micros(o.delay) if isinstance(o, Again | Later) else None for o in outcomes]
    trails = [plain(o.trail) if isinstance(o, Again | Limited) else None for o in outcomes]
    frees = [(o.free or None) if isinstance(o, Again) else None for o in outcomes]
    limits = [o.limits if isinstance(o, Limited) else None for o in outcomes]
    keys = [o.fairness_key if isinstance(o, Limited) else None for o in outcomes]
    uses = [o.use if isinstance(o, Done | Again | Later | Dead) else None for o in outcomes]
    hands_on = [(o.hands_on or None) if isinstance(o, Done) else None for o in outcomes]
    following = [
        (number, job)
        for number, outcome in enumerate(outcomes, 1)
        if isinstance(outcome, Done | Dead)
        for job in outcome.next
    ]
    record = {
        "kind": numbers([KINDS[type(o)] for o in outcomes]),
        "id": texts([o.lease.job for o in outcomes]),
        "token": numbers([o.lease.token for o in outcomes]),
        "result": bytestrings([o.result if isinstance(o, Done) else None for o in outcomes]),
        "delay": numbers(delays),
        "scope": texts([None if lane is None else lane.scope for lane in lanes]),
        "priority": numbers([None if lane is None else int(lane.priority) for lane in lanes]),
        "failure": texts([None if f is None else failure_json(f) for f in failures]),
        "reason": texts([plain(o.reason) if isinstance(o, Cancelled) else None for o in outcomes]),
        "trail": texts(trails),
        "free": sparse(flags, frees),
        "limits": sparse(texts, limits),
        "fairness_key": sparse(texts, keys),
        "use": sparse(texts, [None if use is None else use_json(use) for use in uses]),
        "hands_on": sparse(flags, hands_on),
    }
    return {
        "outcomes": OUTCOMES.values(record),
        "history_limit": HISTORY_LIMIT,
        "parents": numbers([parent for parent, _ in following]) if following else None,
        "following": job_columns([job for _, job in following]) if following else NO_JOBS,
    }


def use_json(use: LimitUse) -> str:
    """What an attempt says of limits as `note_use` takes it."""
    said: dict[str, Any] = {
        "spent": use.spent,
        "pauses": [(name, pause_micros(pause)) for name, pause in use.pauses],
    }
    if use.retry_after is not None:
        said["retry_after"] = pause_micros(use.retry_after)
    return msgspec.json.encode(said).decode()


# -- with work of the user's own -----------------------------------------------------------------


class TransactionalSink:
    """Has work done and its outcome written, both or neither.

    The connections are for nothing else: work may take long, and may use the store meanwhile.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def commit(self, outcome: Done, work: Work) -> Written:
        """Have the work done and write the outcome, in one transaction.

        The lease is looked at first, so that no work is done in vain, and again when the outcome is
        written. In between the job is not locked: it can be reclaimed from a worker that hangs.
        """
        pool = self._database.sink_pool
        failure: BaseException | None = None
        any_watching = False
        try:
            async with pool.use() as connection, connection.transaction() as transaction:
                await pool.set_in_transaction(connection)
                verdict = await self._begin(connection, outcome)
                if verdict == "written":
                    try:
                        with connection.unlimited():
                            await work(connection)
                    except BaseException as error:  # noqa: BLE001 - raised when all is undone
                        failure = error
                    else:
                        verdict, any_watching = await self._write(connection, outcome)
                    transaction.force_rollback = failure is not None or verdict != "written"
        except psycopg.Error as error:
            if failure is None:
                raise await pool.explained(error) from None
        if failure is not None:
            raise failure
        return Written([verdict], any_watching)

    async def _begin(self, connection: Connection, outcome: Done) -> Verdict:
        """Begin the transaction; what would become of the outcome now."""
        job, token = outcome.lease
        [answer] = await self._ask(connection, "begin_sink", in_id=job, in_token=token)
        return VERDICTS[answer]

    async def _write(self, connection: Connection, outcome: Done) -> tuple[Verdict, bool]:
        job = outcome.lease.job
        if (await self._ask(connection, "still_in_sink", in_id=job))[0] is not True:
            raise InvalidError(
                f"the work of job {job!r} ended the transaction that it was given;"
                " leave COMMIT and ROLLBACK to the store"
            )
        values = outcome_values([outcome])
        [answer], any_watching, _ = await self._ask(connection, "commit_last", **values)
        return VERDICTS[answer], any_watching

    async def _ask(self, connection: Connection, name: str, /, **values: Any) -> Any:
        # rows as we read them, whatever the work has set for the connection
        async with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
            statement = self._database.statements[name]
            await cursor.execute(statement.encode(), self._database.values(name, values))
            row = await cursor.fetchone()
        return row or (None,)
