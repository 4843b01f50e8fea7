"""Jobs that no live worker may take, and the command that starts a worker for them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from mulligan.core.facts import Facts
from mulligan.core.fairness import groups_of
from mulligan.core.lane import ANYWHERE, Lane
from mulligan.core.settings import AN_APP
from mulligan.core.worker import DEFAULT_REGION, Worker

if TYPE_CHECKING:
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
    taken = served((view.worker for view in snapshot.workers if view.live), facts)
    found: dict[tuple[str, str, bool], int] = {}
    for count in snapshot.lanes:
        lane = count.lane
        if count.ready and lane not in taken and lane.queue not in facts.paused:
            key = lane.queue, region_of(lane), lane.is_retry
            found[key] = found.get(key, 0) + count.ready
    return [Unserved(*key, jobs) for key, jobs in sorted(found.items())]


def served(workers: Iterable[Worker], facts: Facts) -> frozenset[Lane]:
    """Every lane that is in a plan of one of the workers."""
    kinds = {(queue, each.region, each.only) for each in workers for queue in each.queues}
    return frozenset(
        source.lane
        for queue, region, only in kinds
        for group in groups_of(queue, region, facts.queue(queue), facts, only)
        for tier in group.tiers
        for source in tier
    )


def region_of(lane: Lane) -> str:
    """The region whose workers may take from the lane; `*` if any may."""
    return ANYWHERE if lane.is_global else lane.scope


def region_text(region: str) -> str:
    """The region for a sentence."""
    return "any region" if region == ANYWHERE else f"region {region}"


def start_one(queue: str, region: str, app: str = AN_APP) -> str:
    """The command that starts a worker for the queue in the region."""
    where = "" if region in (ANYWHERE, DEFAULT_REGION) else f" --region {region}"
    return f"start one with: mulligan worker {app}{where} --queue {queue}"
