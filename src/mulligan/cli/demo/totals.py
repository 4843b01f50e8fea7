"""The totals of the demo, counted from the store and from what the tasks recorded."""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

from msgspec import Struct

from mulligan.core.job import Attempt, Job

Story = tuple[Job, Sequence[Attempt]]


class Totals(Struct, frozen=True):
    """The totals, and what does not add up."""

    jobs: int
    done: int
    dead: tuple[Story, ...]
    retries: int
    elsewhere: int
    refused: int
    lost: int
    waits: tuple[float, ...]
    problems: tuple[str, ...]

    @property
    def median_wait(self) -> float:
        """The median wait of a due retry."""
        return median(self.waits) if self.waits else 0.0

    @property
    def longest_wait(self) -> float:
        """The longest wait of a due retry."""
        return max(self.waits, default=0.0)


def totals(
    enqueued: Iterable[str], stories: Sequence[Story], ledger: Sequence[str], poison: str
) -> Totals:
    """Count; `ledger` has a line "job token attempt region" for each attempt that started."""
    retries = [retry for job, history in stories for retry in retries_of(job, history)]
    failures = [attempt for _, history in stories for attempt in history]
    return Totals(
        jobs=len(stories),
        done=sum(job.status == "done" for job, _ in stories),
        dead=tuple(story for story in stories if story[0].status == "failed"),
        retries=len(retries),
        elsewhere=sum(before != after for before, after, _ in retries),
        refused=sum(attempt.type == "Refused" for attempt in failures),
        lost=sum(attempt.type == "Lost" for attempt in failures),
        waits=tuple(wait for _, _, wait in retries),
        problems=tuple(problems(set(enqueued), stories, ledger, poison)),
    )


def retries_of(job: Job, history: Sequence[Attempt]) -> list[tuple[str, str, float]]:
    """Each retry of a job: where it had failed, where it ran, and how long it waited once due."""
    starts = [(attempt.region, attempt.started_at) for attempt in history[1:]]
    if job.status == "done" and history:
        starts.append((job.worker_region or "", job.started_at or 0.0))
    found = []
    for failed, (region, started) in zip(history, starts, strict=False):
        due = (failed.ended_at or 0.0) + (failed.delay or 0.0)
        found.append((failed.region, region, max(0.0, started - due)))
    return found


def problems(
    enqueued: set[str], stories: Sequence[Story], ledger: Sequence[str], poison: str
) -> Iterable[str]:
    """Errors: jobs that were lost, unfinished or unknown, and attempts that ran twice."""
    stored = {job.id for job, _ in stories}
    if stored != enqueued:
        yield f"lost or doubled jobs: {sorted(stored ^ enqueued)}"
    for job, _ in stories:
        wanted = "failed" if job.id == poison else "done"
        if job.status != wanted:
            yield f"{job.id} is {job.status} and should be {wanted}"
    leases = Counter(tuple(line.split()[:2]) for line in ledger)
    yield from (f"{job} ran twice under token {n}" for (job, n), k in leases.items() if k > 1)
    starts = Counter(line.split()[0] for line in ledger)
    for job, history in stories:
        known = len(history) + (job.status == "done")
        if starts[job.id] > known:
            yield f"{job.id} started {starts[job.id]} times, and {known} attempts are known"
