"""Jobs that no live worker may take, and the command that starts a worker for them."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from mulligan.core.facts import Facts
from mulligan.core.lane import ANYWHERE, Lane, plain_region
from mulligan.core.settings import AN_APP
from mulligan.core.takers import Takers, takers_of
from mulligan.core.worker import DEFAULT_REGION, Worker

if TYPE_CHECKING:
    from mulligan.core.fetch import Only
    from mulligan.core.status import Snapshot


class Unserved(NamedTuple):
    """Due jobs of a queue for one region, or for any, that no live worker may take.

    Fresh jobs and retries are counted separately, since some workers take only one of them.
    """

    queue: str
    region: str
    retries: bool
    jobs: int

    @property
    def sentence(self) -> str:
        """What is wrong."""
        many = self.jobs > 1
        words = ("retry", "retries") if self.retries else ("job", "jobs")
        return (
            f"{self.jobs} {words[many]} of queue {self.queue} for"
            f" {region_text(self.region)} {'wait' if many else 'waits'},"
            f" and no live worker may take {'them' if many else 'it'}"
        )

    def remedy(self, app: str = AN_APP) -> str:
        """What to do about it."""
        return start_one(self.queue, self.region, app)


def unserved(snapshot: "Snapshot", facts: Facts) -> list[Unserved]:
    """Due jobs that no live worker may take, without those of paused queues."""
    due = [
        count for count in snapshot.lanes if count.ready and count.lane.queue not in facts.paused
    ]
    takers = live_takers(
        {count.lane.queue for count in due}, (v.worker for v in snapshot.workers if v.live), facts
    )
    found: dict[tuple[str, str, bool], int] = defaultdict(int)
    for count in due:
        lane = count.lane
        if takers[lane.queue].first(lane) is None:
            found[lane.queue, region_of(lane), lane.is_retry] += count.ready
    return [Unserved(*key, jobs) for key, jobs in sorted(found.items())]


def live_takers(
    queues: Collection[str], workers: Iterable[Worker], facts: Facts
) -> dict[str, Takers]:
    """The takers of each queue among these workers."""
    kinds: dict[str, dict[tuple[str, Only | None], None]] = {queue: {} for queue in queues}
    for worker in workers:
        for queue in kinds.keys() & worker.queues:
            kinds[queue][worker.region, worker.only] = None
    return {queue: takers_of(queue, [*found], facts) for queue, found in kinds.items()}


def may_take(worker: Worker, lane: Lane, facts: Facts) -> bool:
    """Whether the worker may take from the lane, now or after a grace."""
    return live_takers([lane.queue], [worker], facts)[lane.queue].first(lane) is not None


def region_of(lane: Lane) -> str:
    """The region whose workers may take from the lane; `*` if any may."""
    return ANYWHERE if lane.is_global else plain_region(lane.scope)


def region_text(region: str) -> str:
    """The region for a sentence."""
    return "any region" if region == ANYWHERE else f"region {region}"


def start_one(queue: str, region: str, app: str = AN_APP) -> str:
    """The command that starts a worker for the queue in the region."""
    where = "" if region in (ANYWHERE, DEFAULT_REGION) else f" --region {region}"
    return f"start one with: mulligan worker {app}{where} --queue {queue}"
