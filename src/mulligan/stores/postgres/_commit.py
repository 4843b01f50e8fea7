"""Committing: batches of outcomes, cut where their order could matter to the result."""

from collections.abc import Iterator, Sequence
from typing import Any

from mulligan.core.outcome import Again, Cancelled, Dead, Done, Later, Outcome, Verdict
from mulligan.core.settings import HISTORY_LIMIT
from mulligan.stores.postgres._arrays import alike, bytestrings, numbers, sparse, texts
from mulligan.stores.postgres._connections import Connections
from mulligan.stores.postgres._encode import outcome_arrays
from mulligan.stores.postgres._statements import Statements

# A statement is prepared for each number of parts, each with all parameters of a commit.
TOGETHER = 16
VERDICTS: dict[int, Verdict] = {1: "written", 2: "already", 3: "stale"}


class Committer:
    """Writes outcomes: those that are plainly done in one quick statement, others in a full one."""

    def __init__(self, connections: Connections, statements: Statements) -> None:
        self._connections = connections
        self._statements = statements

    async def commit(self, outcomes: Sequence[Outcome], now: int | None) -> list[Verdict]:
        """Write each outcome whose lease is still held, and say what became of each."""
        if not outcomes:
            return []
        if plainly_done(outcomes):
            return await self._finish_all(outcomes, now)
        return await self._commit_all(outcomes, now)

    async def _finish_all(self, outcomes: Sequence[Any], now: int | None) -> list[Verdict]:
        ids, tokens = zip(*[outcome.lease for outcome in outcomes], strict=True)
        results = sparse(bytestrings, alike([outcome.result for outcome in outcomes]))
        values = (now, texts(ids), numbers(tokens), results)
        [[answers]] = await self._connections.run(self._statements["finish"], values)
        if answers is None:
            return ["written"] * len(outcomes)
        return [VERDICTS[answer] for answer in answers]

    async def _commit_all(self, outcomes: Sequence[Outcome], now: int | None) -> list[Verdict]:
        """Write the parts one after the other, as many as may be in one statement.

        In a transaction of several, the server would wait for us between them with all that the
        first has locked, and every other worker for it.
        """
        parts = [(now, *outcome_arrays(part, HISTORY_LIMIT)) for part in in_parts(outcomes)]
        verdicts: list[Verdict] = []
        for start in range(0, len(parts), TOGETHER):
            some = parts[start : start + TOGETHER]
            values = tuple(value for part in some for value in part)
            [row] = await self._connections.run(self._statements.commits(len(some)), values)
            verdicts += [VERDICTS[answer] for answers in row for answer in answers]
        return verdicts


def plainly_done(outcomes: Sequence[Outcome]) -> bool:
    """Whether all are Done of different jobs, with nothing to follow."""
    for outcome in outcomes:
        if type(outcome) is not Done or outcome.next:
            return False
    return len({outcome.lease.job for outcome in outcomes}) == len(outcomes)


def in_parts(outcomes: Sequence[Outcome]) -> Iterator[list[Outcome]]:
    """Cut a batch so that writing each part at once is the same as writing one by one.

    In a part jobs end and are put back first, then next jobs are enqueued, then members arrive, and
    last those that are cancelled are missed. So a job that is put back must not come after a next
    job, nor one that is done after one that is cancelled; a unique key must not be freed, nor a
    member arrive, before or after a next job that asks for it; and a job occurs once.
    """
    part: list[Outcome] = []
    seen: set[str] = set()
    following = cancelled = False
    for outcome in outcomes:
        more = outcome.next if isinstance(outcome, Done | Dead) else ()
        alone = any(job.unique_key is not None or job.awaits for job in more)
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
