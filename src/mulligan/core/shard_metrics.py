"""The metrics of shards, of an app that has several."""

from collections.abc import Sequence

from mulligan.core.metric import Metric, Sample, gauge
from mulligan.core.stats import ShardView


def shard_metrics(shards: Sequence[ShardView]) -> list[Metric]:
    """Whether each shard answers, and how much waits and runs there; nothing for one store."""
    if not shards:
        return []
    return [
        gauge(
            "mulligan_shard_up",
            "1 if the shard answers, 0 if it is away",
            (Sample({"shard": str(each.shard)}, float(each.away is None)) for each in shards),
        ),
        gauge(
            "mulligan_shard_waiting_jobs",
            "jobs that wait in the shard, due or delayed",
            (Sample({"shard": str(each.shard)}, float(each.waiting)) for each in shards),
        ),
        gauge(
            "mulligan_shard_running_jobs",
            "jobs of the shard that run",
            (Sample({"shard": str(each.shard)}, float(each.running)) for each in shards),
        ),
    ]
