"""The numbers that people and monitors look at, from counts and a snapshot."""

from math import inf

import pytest
from msgspec import Raw, Struct
from msgspec.structs import replace

from mulligan.core.alerts import alerts
from mulligan.core.budget import Budget
from mulligan.core.counts import BOUNDS, Counts
from mulligan.core.facts import Facts, QueueSettings, Region
from mulligan.core.fetch import RetryFirst
from mulligan.core.health import Breaker, Health
from mulligan.core.lane import Lane, Priority
from mulligan.core.metric import Metric, Sample
from mulligan.core.metrics import build_info, metrics, quantile, schedule_metrics, summary
from mulligan.core.schedule import Schedule
from mulligan.core.schedule_view import view_of
from mulligan.core.stats import DelayedStats, LaneStats, Stats
from mulligan.core.worker import Worker, WorkerView

Key = tuple[str, str, str]
NOTHING = Stats(1000.0, [], {}, {}, {}, [])
OPEN = Health(2, 18, Breaker(open=True, since=970.0, probes=2))
AT_WORK = (Region("EU", frozenset({"q"})), Region("US", frozenset({"q"})))


def of(region: str, **counts: float) -> dict[Key, float]:
    """Counts of queue q, their names written with underscores."""
    return {("q", region, name.replace("_", "-")): value for name, value in counts.items()}


def counted(*parts: dict[Key, float]) -> Counts:
    whole = {key: value for part in parts for key, value in part.items()}
    return Counts({key: 10 * value for key, value in whole.items()}, whole)


def started(region: str, **lanes: float) -> dict[Key, float]:
    return {("q", region, f"started.{name.replace('_', '-')}"): n for name, n in lanes.items()}


class Quiet(Struct):
    """Nothing was counted."""

    ever: dict[Key, float] = {}
    recent: dict[Key, float] = {}


def found(
    name: str,
    stats: Stats = NOTHING,
    sums: Counts | Quiet | None = None,
    facts: Facts | None = None,
) -> Metric:
    every = {metric.name: metric for metric in metrics(stats, sums or Quiet(), facts or Facts())}
    return every[name]


def values(metric: Metric) -> list[tuple[str, float]]:
    return [("/".join(sample.labels.values()), sample.value) for sample in metric.samples]


def test_an_empty_store_has_every_metric_and_no_sample():
    every = metrics(NOTHING, Quiet(), Facts())
    # OpenMetrics knows a counter by its name without the ending.
    assert len({metric.name.removesuffix("_total") for metric in every}) == len(every)
    assert all(metric.samples == [] and metric.help for metric in every)
    assert summary(Quiet(), Facts()) == {}
    assert alerts(NOTHING, Facts()) == []


def lane(scope: str, priority: Priority, ready: int, oldest: float = 999.0) -> LaneStats:
    return LaneStats(Lane("q", scope, priority), ready, 0, oldest)


BUSY = replace(
    NOTHING,
    lanes=[lane("*-US", Priority.RETRY, 3), lane("US", Priority.NORMAL, 7)],
    running={("q", "EU"): 2},
    ended={("q", "failed"): 4, ("q", "done"): 9},
    delayed={"q": DelayedStats(5, 2, 4)},
    gathering={"q": 6},
)


def test_what_waits_runs_and_lies_dead_is_counted_now():
    assert values(found("mulligan_waiting_jobs", BUSY)) == [
        ("q/*/global-retry", 3),
        ("q/US/fresh", 7),
    ]
    assert values(found("mulligan_oldest_wait_seconds", BUSY)) == [
        ("q/*/global-retry", 1.0),
        ("q/US/fresh", 1.0),
    ]
    assert values(found("mulligan_delayed_jobs", BUSY)) == [("q", 3)]
    assert values(found("mulligan_gathering_jobs", BUSY)) == [("q", 6)]
    assert values(found("mulligan_running_jobs", BUSY)) == [("q/EU", 2)]
    served = Facts(regions=AT_WORK)
    assert values(found("mulligan_running_jobs", BUSY, facts=served)) == [("q/EU", 2), ("q/US", 0)]
    assert values(found("mulligan_dead_letters_stored", BUSY)) == [("q", 4)]


def test_lanes_that_any_region_may_take_from_are_one():
    lanes = [lane("*", Priority.RETRY, 1, 990.0), lane("*-US", Priority.RETRY, 2, 980.0)]
    some = replace(NOTHING, lanes=[*lanes, lane("*+EU", Priority.URGENT_RETRY, 4, 999.0)])
    assert values(found("mulligan_waiting_jobs", some)) == [
        ("q/*/global-retry", 3),
        ("q/*/urgent-retry", 4),
    ]
    assert values(found("mulligan_oldest_wait_seconds", some)) == [
        ("q/*/global-retry", 20.0),
        ("q/*/urgent-retry", 1.0),
    ]


def test_a_job_that_falls_due_right_now_has_not_waited():
    now = replace(NOTHING, lanes=[lane("US", Priority.NORMAL, 1, oldest=1000.0)])
    assert values(found("mulligan_oldest_wait_seconds", now)) == [("q/US/fresh", 0.0)]


def test_a_lane_in_which_nothing_is_due_has_no_wait():
    later = replace(NOTHING, lanes=[lane("US", Priority.RETRY, 0, oldest=2000.0)])
    assert values(found("mulligan_oldest_wait_seconds", later)) == []


def test_live_workers_are_counted_in_every_region_that_ever_had_one():
    workers = [
        WorkerView(Worker(name, region, concurrency=5), 999.0, 900.0, live, 0)
        for name, region, live in (("a", "EU", True), ("b", "EU", True), ("c", "MARS", False))
    ]
    server = Worker("serve", "US", queues=(), concurrency=5)
    workers.append(WorkerView(server, 999.0, 900.0, live=True, running=0))
    facts = Facts(regions=(Region("EU"), Region("US")))
    assert values(
        found("mulligan_live_workers", replace(NOTHING, workers=workers), facts=facts)
    ) == [("EU", 2), ("MARS", 0), ("US", 0)]
    assert values(
        found("mulligan_worker_slots", replace(NOTHING, workers=workers), facts=facts)
    ) == [("EU", 10), ("MARS", 0), ("US", 0)]


COUNTS = counted(
    started("US", fresh=8, global_retry=1, region_retry=1),
    started("EU", fresh=4, urgent_retry=2, urgent=1),
    of("US", succeeded=6, failed=2, job_fault=1, reclaimed=1, stale=2, dead=1),
    of("US", step=3, stale_record=1, sink_again=2),
    of("EU", succeeded=5, retry_succeeded=1, retry_failed=1, retry_elsewhere=1),
    of("EU", saved=2, saved_seconds=240.0),
    of("EU", event_dropped=2, **{"hook_failed.retry": 3}),
)


def test_counters_say_what_was_counted_ever():
    assert values(found("mulligan_starts_total", sums=COUNTS)) == [
        ("q/EU/fresh", 40),
        ("q/EU/urgent", 10),
        ("q/EU/urgent-retry", 20),
        ("q/US/fresh", 80),
        ("q/US/global-retry", 10),
        ("q/US/region-retry", 10),
    ]
    assert values(found("mulligan_attempts_total", sums=COUNTS)) == [
        ("q/EU/succeeded", 50),
        ("q/US/failed", 20),
        ("q/US/job-fault", 10),
        ("q/US/succeeded", 60),
    ]
    assert values(found("mulligan_retries_total", sums=COUNTS)) == [
        ("q/EU/failed", 10),
        ("q/EU/succeeded", 10),
    ]
    assert values(found("mulligan_retries_elsewhere_total", sums=COUNTS)) == [("q/EU", 10)]
    assert values(found("mulligan_leases_reclaimed_total", sums=COUNTS)) == [("q/US", 10)]
    assert values(found("mulligan_stale_commits_total", sums=COUNTS)) == [("q/US", 20)]
    assert values(found("mulligan_steps_recorded_total", sums=COUNTS)) == [("q/US", 30)]
    assert values(found("mulligan_stale_records_total", sums=COUNTS)) == [("q/US", 10)]
    assert values(found("mulligan_sink_calls_repeated_total", sums=COUNTS)) == [("q/US", 20)]
    assert values(found("mulligan_dead_letters_total", sums=COUNTS)) == [("q/US", 10)]
    assert values(found("mulligan_hook_failures_total", sums=COUNTS)) == [("q/EU/retry", 30)]
    assert values(found("mulligan_events_dropped_total", sums=COUNTS)) == [("q/EU", 20)]
    assert values(found("mulligan_time_saved_seconds_total", sums=COUNTS)) == [("q/EU", 2400)]
    assert values(found("mulligan_time_saved_retries_total", sums=COUNTS)) == [("q/EU", 20)]


def test_every_metric_has_its_kind_and_the_labels_that_monitors_ask_for():
    names = ["retry-wait.1", "retry-return.1", "fresh-wait.1", "runtime.failed.1/a", "failure.E/a"]
    waits = {("q", "US", name): 1.0 for name in [*names, "limit-started.openai"]}
    facts = Facts(
        queues={"q": QueueSettings(RetryFirst(), Budget(ratio=0.2))},
        regions=(Region("US"),),
        health={("q", "US"): OPEN},
    )
    every = metrics(BUSY, Counts({**COUNTS.ever, **waits}, COUNTS.recent), facts)
    lane, place, queue = ("queue", "region", "lane"), ("queue", "region"), ("queue",)
    outcome = (*place, "outcome")
    assert {each.name: (each.kind, *each.samples[0].labels) for each in every} == {
        "mulligan_waiting_jobs": ("gauge", *lane),
        "mulligan_oldest_wait_seconds": ("gauge", *lane),
        "mulligan_startable_jobs": ("gauge", *place),
        "mulligan_delayed_jobs": ("gauge", *queue),
        "mulligan_gathering_jobs": ("gauge", *queue),
        "mulligan_running_jobs": ("gauge", *place),
        "mulligan_live_workers": ("gauge", "region"),
        "mulligan_worker_slots": ("gauge", "region"),
        "mulligan_unserved_jobs": ("gauge", *place),
        "mulligan_dead_letters_stored": ("gauge", *queue),
        "mulligan_starts_total": ("counter", *place, "lane"),
        "mulligan_limit_starts_total": ("counter", *place, "limit"),
        "mulligan_attempts_total": ("counter", *outcome),
        "mulligan_retries_total": ("counter", *outcome),
        "mulligan_retries_elsewhere_total": ("counter", *place),
        "mulligan_leases_reclaimed_total": ("counter", *place),
        "mulligan_steps_recorded_total": ("counter", *place),
        "mulligan_stale_records_total": ("counter", *place),
        "mulligan_sink_calls_repeated_total": ("counter", *place),
        "mulligan_stale_commits_total": ("counter", *place),
        "mulligan_dead_letters_total": ("counter", *place),
        "mulligan_hook_failures_total": ("counter", *place, "event"),
        "mulligan_events_dropped_total": ("counter", *place),
        "mulligan_time_saved_seconds_total": ("counter", *place),
        "mulligan_time_saved_retries_total": ("counter", *place),
        "mulligan_attempt_duration_seconds": ("histogram", *place, "task", "outcome"),
        "mulligan_failures_total": ("counter", *place, "task", "type"),
        "mulligan_fresh_wait_seconds": ("histogram", *place),
        "mulligan_retry_wait_seconds": ("histogram", *place),
        "mulligan_retry_return_seconds": ("histogram", *place),
        "mulligan_retry_budget_retries": ("gauge", *queue),
        "mulligan_retry_budget_window_seconds": ("gauge", *queue),
        "mulligan_retry_budget_ratio": ("gauge", *queue),
        "mulligan_breaker_open": ("gauge", *place),
    }


def test_a_histogram_has_a_count_for_each_bucket_and_the_sum():
    waits = {("q", "US", "retry-wait.0.001"): 3.0, ("q", "US", "retry-wait.inf"): 1.0}
    sums = Counts({**waits, ("q", "US", "retry-wait.sum"): 400.0}, {})
    [sample] = found("mulligan_retry_wait_seconds", sums=sums).samples
    assert sample == Sample(
        {"queue": "q", "region": "US"}, 400.0, (3.0, *[0.0] * (len(BOUNDS) - 2), 1.0)
    )
    assert found("mulligan_retry_return_seconds", sums=sums).samples == []
    assert found("mulligan_retry_wait_seconds", sums=Counts(waits, {})).samples[0].value == 0.0


def test_runtimes_are_told_by_task_and_outcome_and_failures_by_type():
    sums = Counts(
        {
            ("q", "US", "runtime.succeeded.0.001/ask"): 2.0,
            ("q", "US", "runtime.succeeded.inf/ask"): 1.0,
            ("q", "US", "runtime.succeeded.sum/ask"): 2000.0,
            ("q", "US", "runtime.failed.0.001/a/b"): 4.0,
            ("q", "US", "failure.builtins.ValueError/a/b"): 4.0,
        },
        {},
    )
    none = [0.0] * (len(BOUNDS) - 2)
    assert found("mulligan_attempt_duration_seconds", sums=sums).samples == [
        Sample(
            {"queue": "q", "region": "US", "task": "a/b", "outcome": "failed"},
            0.0,
            (4.0, *none, 0.0),
        ),
        Sample(
            {"queue": "q", "region": "US", "task": "ask", "outcome": "succeeded"},
            2000.0,
            (2.0, *none, 1.0),
        ),
    ]
    failures = values(found("mulligan_failures_total", sums=sums))
    assert failures == [("q/US/a/b/builtins.ValueError", 4.0)]


@pytest.mark.parametrize(
    ("budget", "retries", "window", "ratio"),
    [
        (Budget(100), 100, 60, []),
        (Budget(5, per=10), 5, 10, []),
        (Budget(ratio=0.5), 10, 60, [("q", 0.5)]),
    ],
)
def test_a_budget_is_told_as_it_was_set(budget, retries, window, ratio):
    facts = Facts(queues={"q": QueueSettings(RetryFirst(), budget), "other": QueueSettings()})
    assert values(found("mulligan_retry_budget_retries", facts=facts)) == [("q", retries)]
    assert values(found("mulligan_retry_budget_window_seconds", facts=facts)) == [("q", window)]
    assert values(found("mulligan_retry_budget_ratio", facts=facts)) == ratio


def test_what_measures_is_told_by_labels_and_is_always_one():
    made = build_info({"version": "1.2.3"})
    assert (made.name, made.kind) == ("mulligan_build_info", "gauge")
    assert made.samples == [Sample({"version": "1.2.3"}, 1)]


def test_a_breaker_is_one_while_it_is_open():
    facts = Facts(health={("q", "US"): OPEN, ("q", "EU"): Health(20, 0)})
    assert values(found("mulligan_breaker_open", facts=facts)) == [("q/EU", 0), ("q/US", 1)]


REGIONS = Facts(regions=(Region("EU"), Region("US")))
SERVED = replace(
    NOTHING,
    workers=[WorkerView(Worker("w", "US", ("q",)), 990.0, 900.0, live=True, running=0)],
)


def test_more_than_ten_global_retries_in_all_their_lanes_are_an_alert():
    lanes = [lane("*", Priority.RETRY, 5), lane("*+EU", Priority.URGENT_RETRY, 5)]
    assert alerts(replace(SERVED, lanes=lanes), REGIONS) == []
    lanes += [lane("*-US", Priority.RETRY, 1), lane("US", Priority.RETRY, 50)]
    assert alerts(replace(SERVED, lanes=lanes), REGIONS) == ["11 global retries wait, more than 10"]


def test_global_retries_that_are_fewer_than_the_jobs_that_run_are_no_alert():
    some = replace(SERVED, lanes=[lane("*", Priority.RETRY, 60)], running={("q", "US"): 60})
    assert alerts(some, REGIONS) == []
    more = replace(some, running={("q", "US"): 30, ("p", "EU"): 29})
    assert alerts(more, REGIONS) == ["60 global retries wait, more than the 59 jobs that run"]


def test_a_retry_that_waits_longer_than_thirty_seconds_is_an_alert():
    assert alerts(replace(SERVED, lanes=[lane("US", Priority.RETRY, 1, 970.0)]), REGIONS) == []
    lanes = [
        lane("US", Priority.RETRY, 1, 960.0),
        lane("EU", Priority.RETRY, 0, 900.0),
        lane("US", Priority.NORMAL, 9, 0.0),
    ]
    assert alerts(replace(SERVED, lanes=lanes), REGIONS) == [
        "a retry of queue q has waited 40 s in lane region-retry, longer than 30 s"
    ]
    long = alerts(replace(SERVED, now=960.0 + 1212, lanes=lanes), REGIONS)
    assert long == ["a retry of queue q has waited 20 min in lane region-retry, longer than 30 s"]


def test_lanes_of_one_name_raise_one_alert_for_the_longest_wait():
    scopes = {"*": 955.0, "*-US": 940.0, "*+EU": 950.0}
    lanes = [lane(scope, Priority.RETRY, 1, due) for scope, due in scopes.items()]
    assert alerts(replace(SERVED, lanes=lanes), REGIONS) == [
        "a retry of queue q has waited 60 s in lane global-retry, longer than 30 s"
    ]


def test_an_open_breaker_is_an_alert():
    facts = Facts(regions=AT_WORK, health={("q", "US"): OPEN, ("q", "EU"): Health()})
    assert alerts(NOTHING, facts) == [
        "the breaker of queue q in region US has been open for 30 s, 2 of 3 probes"
    ]


@pytest.mark.parametrize(
    ("health", "running", "regions", "alerted"),
    [
        (Health(0, 1, replace(OPEN.breaker, since=100.0)), {}, AT_WORK, True),
        (Health(3, 0, replace(OPEN.breaker, since=100.0)), {}, AT_WORK, False),
        (Health(0, 0, replace(OPEN.breaker, since=100.0)), {}, AT_WORK, False),  # nothing to try
        (Health(0, 0, replace(OPEN.breaker, since=100.0)), {("q", "US"): 1}, AT_WORK, True),
        (Health(0, 0, OPEN.breaker), {}, AT_WORK, True),  # it has just opened
        (OPEN, {}, AT_WORK[:1], False),  # nobody works there
    ],
)
def test_the_alert_of_a_breaker_ends_when_nothing_fails_there_any_more(
    health, running, regions, alerted
):
    facts = Facts(regions=regions, health={("q", "US"): health})
    assert bool(alerts(replace(NOTHING, running=running), facts)) is alerted


def test_the_summary_has_a_few_numbers_for_each_queue_and_region():
    whole = summary(COUNTS, Facts(health={("q", "US"): OPEN, ("q", "ASIA"): Health()}))
    assert whole["q"]["US"] == {
        "started": 10,
        "succeeded": 6,
        "failed": 3,
        "success_rate": 0.6667,  # of all attempts: one failed by its own fault
        "retries_started": 2,
        "retry_success_rate": None,
        "retries_elsewhere": 0.0,
        "retry_wait_p99": None,
        "retry_return_p50": None,
        "time_saved_mean": None,
        "dead": 1,
        "reclaimed": 1,
        "stale": 2,
        "breaker": "open",
        "next_probe_at": None,
    }
    assert whole["q"]["EU"]["retries_elsewhere"] == 0.5
    assert whole["q"]["EU"]["retry_success_rate"] == 0.5
    assert whole["q"]["EU"]["time_saved_mean"] == 120.0
    assert whole["q"]["ASIA"]["started"] == 0
    assert whole["q"]["ASIA"]["success_rate"] is None
    assert whole["q"]["ASIA"]["breaker"] == "closed"


@pytest.mark.parametrize(
    ("counts", "share", "bound"),
    [
        ({}, 0.99, None),
        ({"w.0.005": 1}, 0.99, 0.005),
        ({"w.0.005": 99, "w.10": 1}, 0.99, 0.005),
        ({"w.0.005": 98, "w.10": 2}, 0.99, 10.0),
        ({"w.0.005": 1, "w.1": 1}, 0.5, 0.005),
        ({"w.inf": 5}, 0.5, 1800.0),
    ],
)
def test_a_quantile_is_the_bound_that_so_many_waits_stay_under(counts, share, bound):
    assert quantile(counts, "w.", share) == bound
    assert bound is None or bound < inf


def test_what_was_not_counted_in_the_last_minute_is_none_in_the_summary():
    region = summary(counted(of("US", other=1)), Facts())["q"]["US"]
    counts = ("started", "succeeded", "failed", "retries_started", "dead", "reclaimed", "stale")
    assert [region[name] for name in counts] == [0] * len(counts)
    assert region["time_saved_mean"] is None


def test_the_summary_tells_how_long_most_retries_waited_and_half_of_them_took_to_return():
    waits = {"retry-wait.1": 97.0, "retry-wait.10": 2.5, "retry-wait.60": 0.5}
    returns = {"retry-return.2": 60.0, "retry-return.30": 40.0}
    counted = {("q", "US", name): value for name, value in (waits | returns).items()}
    region = summary(Counts({}, counted), Facts())["q"]["US"]
    assert (region["retry_wait_p99"], region["retry_return_p50"]) == (10.0, 2.0)


def test_a_share_in_the_summary_has_four_digits():
    region = summary(counted(of("US", succeeded=1, failed=2)), Facts())["q"]["US"]
    assert region["success_rate"] == 0.3333


def test_a_schedule_shows_its_ticks_and_whether_it_is_late_or_rests():
    hourly = Schedule("acme", {"task": "report"}, Raw(b"{}"), every=3600.0, ticks=7, late=1.5)
    views = [view_of(each, 90.0, [], ()) for each in (hourly, replace(hourly, paused=True))]
    ticks, late, active = schedule_metrics(views)
    assert values(ticks)[0] == ("acme", 7)
    assert values(late)[0] == ("acme", 1.5)
    assert [value for _, value in values(active)] == [1, 0]
