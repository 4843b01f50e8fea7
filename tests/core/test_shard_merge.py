"""What several shards answer becomes one answer."""

from msgspec.structs import replace

from mulligan.core.facts import Facts, QueueSettings, Region
from mulligan.core.lane import Lane
from mulligan.core.limits import KeyView
from mulligan.core.shard_merge import merged_facts, merged_keys, merged_stats, merged_worker
from mulligan.core.shard_metrics import shard_metrics
from mulligan.core.stats import DelayedStats, LaneStats, ShardView, Stats
from mulligan.core.worker import Worker, WorkerView

EU, US = Lane("q", "EU", 0), Lane("q", "US", 0)
ANN, BOB = Worker("ann"), Worker("bob")


def test_facts_are_those_of_the_first_shard_with_the_regions_of_all():
    settings = {"q": QueueSettings(grace=5.0)}
    home = Facts(3, settings, (Region("EU", frozenset({"q"})),), now=100.0)
    other = Facts(9, {}, (Region("US"), Region("EU", frozenset({"r"}))), now=200.0)
    assert merged_facts([home, other], 7) == Facts(
        7, settings, (Region("EU", frozenset({"q", "r"})), Region("US")), now=100.0
    )


def test_stats_are_summed_and_each_worker_is_counted_once():
    one = Stats(
        now=100.0,
        lanes=[LaneStats(US, 1, 0, 90.0), LaneStats(EU, 2, 1, 80.0)],
        running={("q", "EU"): 1},
        ended={("q", "done"): 5},
        delayed={"q": DelayedStats(3, 1, 2)},
        workers=[WorkerView(ANN, 90.0, 50.0, live=False, running=1)],
        gathering={"q": 1},
    )
    other = Stats(
        now=110.0,
        lanes=[LaneStats(EU, 3, 2, 70.0)],
        running={("q", "EU"): 2, ("r", "EU"): 1},
        ended={("q", "failed"): 1},
        delayed={"q": DelayedStats(10, 10, 10), "r": DelayedStats(1, 0, 0)},
        workers=[
            WorkerView(ANN, 95.0, 60.0, live=True, running=2),
            WorkerView(BOB, 10.0, 10.0, live=False, running=0),
        ],
    )
    shards = (ShardView(0, "a"), ShardView(1, "b"))
    assert merged_stats([one, other], shards) == Stats(
        now=110.0,
        lanes=[LaneStats(EU, 5, 3, 70.0), LaneStats(US, 1, 0, 90.0)],
        running={("q", "EU"): 3, ("r", "EU"): 1},
        ended={("q", "done"): 5, ("q", "failed"): 1},
        delayed={"q": DelayedStats(13, 11, 12), "r": DelayedStats(1, 0, 0)},
        workers=[
            WorkerView(ANN, 95.0, 50.0, live=True, running=3),
            WorkerView(BOB, 10.0, 10.0, live=False, running=0),
        ],
        gathering={"q": 1},
        shards=shards,
    )


def test_a_fairness_key_waits_in_all_shards_together_and_is_as_far_behind_as_in_any():
    views = [KeyView(EU, "a", 2, 5.0), KeyView(EU, "b", 4, 0.0), KeyView(EU, "a", 3, 1.0)]
    assert merged_keys(views, 9) == [KeyView(EU, "a", 5, 5.0), KeyView(EU, "b", 4, 0.0)]
    assert merged_keys(views, 1) == [KeyView(EU, "a", 5, 5.0)]


def test_a_shard_that_is_away_is_not_up():
    up, waiting, running = shard_metrics(
        [ShardView(0, "a", waiting=3, running=2), ShardView(1, "b", away="refused")]
    )
    assert [each.value for each in up.samples] == [1.0, 0.0]
    assert [each.value for each in waiting.samples] == [3.0, 0.0]
    assert [each.value for each in running.samples] == [2.0, 0.0]
    for metric, word in ((up, "up"), (waiting, "waiting_jobs"), (running, "running_jobs")):
        assert metric.name == f"mulligan_shard_{word}"
        assert [each.labels for each in metric.samples] == [{"shard": "0"}, {"shard": "1"}]


def test_an_app_with_one_store_has_no_metrics_of_shards():
    assert shard_metrics([]) == []


def test_a_worker_that_was_dead_has_joined_where_it_came_back():
    before = WorkerView(ANN, 100.0, 50.0, live=False, running=0)
    back = WorkerView(ANN, 300.0, 300.0, live=True, running=1)
    assert merged_worker(before, back).joined_at == 300.0
    assert merged_worker(back, replace(before, beat_at=299.0)).joined_at == 50.0
