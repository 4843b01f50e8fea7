"""Mistakes with shards: which has a job, what each gives, and who is asked."""

from collections.abc import Mapping

from mulligan.core.job import NewJob
from mulligan.core.plan import ClaimPlan
from mulligan.core.shard_turns import ShardShares
from mulligan.core.shards import Layout, home_of_id
from mulligan.core.shards import home_of as right_home_of
from mulligan.stores.shards import enqueue
from tests.dst.zoo.cage import plant
from tests.store_kit import SHARDS


@plant(enqueue, "home_of", store=SHARDS)
def key_routed_by_id(job: NewJob, layout: Layout, homes: Mapping[str, int]) -> int:
    """A unique key is looked for in the shard of the job's id, and not in its own home."""
    return right_home_of(job, layout, homes) if job.limits else home_of_id(job.id, layout)


@plant(enqueue, "home_of", store=SHARDS)
def limited_jobs_spread(job: NewJob, layout: Layout, homes: Mapping[str, int]) -> int:
    """Jobs with limits are spread like all others, where nobody counts them."""
    keyed = job.unique_key is not None or job.gather is not None or job.awaits
    return right_home_of(job, layout, homes) if keyed else home_of_id(job.id, layout)


@plant(ShardShares, "fitted", store=SHARDS, first=8)
def shares_over_all_shards(self: ShardShares, plan: ClaimPlan) -> ClaimPlan:
    """What a worker owes of retries is counted over all shards: one may give fresh jobs alone."""
    return plan
