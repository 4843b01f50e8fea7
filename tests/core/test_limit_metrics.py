"""What monitors see of limits: names of their own, as long as they are few."""

from mulligan.core import limit_metrics as metrics
from mulligan.core.limits import Limit, LimitView, StoredLimit

ONE = Limit(concurrency=1)


def view(name, *, stored=True, **fields):
    """A limit as a store shows it."""
    return LimitView(name, StoredLimit(ONE) if stored else StoredLimit(), ONE, **fields)


def samples(views):
    """The values of each metric by limit."""
    return {
        metric.name: {sample.labels["limit"]: sample.value for sample in metric.samples}
        for metric in metrics.limit_metrics(views)
    }


def test_each_limit_is_measured_and_a_family_as_one():
    found = samples(
        [
            view("openai", running=2, waiting=5, used=40, paused_until=1020.0),
            view("tenant:*"),
            view("tenant:a", stored=False, running=1, waiting=3),
            view("tenant:b", stored=False, running=1, waiting=4, paused_until=1001.0),
            view("uncovered", stored=False, running=9),
        ]
    )
    assert found == {
        "mulligan_limit_waiting_jobs": {"openai": 5, "tenant:*": 7},
        "mulligan_limit_running_jobs": {"openai": 2, "tenant:*": 2},
        "mulligan_limit_used_cost": {"openai": 40, "tenant:*": 0},
        "mulligan_limit_paused_until_seconds": {"openai": 1020.0, "tenant:*": 1001.0},
    }


def test_many_limits_share_a_label(monkeypatch):
    monkeypatch.setattr(metrics, "MOST_COUNTED_LIMITS", 2)
    found = samples([view(name, running=1) for name in "abcd"])
    assert found["mulligan_limit_running_jobs"] == {"a": 1, "b": 1, "(other)": 2}


def test_without_limits_there_is_no_value():
    assert all(values == {} for values in samples([]).values())


def test_starts_are_added_up_over_queues_and_regions():
    counts = {
        ("a", "EU", "limit-started.openai"): 2.0,
        ("b", "US", "limit-started.openai"): 3.0,
        ("a", "EU", "limit-started.tenant:*"): 1.0,
        ("a", "EU", "succeeded"): 9.0,
    }
    assert metrics.started_by_limit(counts) == {"openai": 5, "tenant:*": 1}
