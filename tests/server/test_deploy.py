"""What is shipped for Prometheus and Grafana names only what a server exposes."""

import json
import re
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from mulligan.app.overview import BUILD
from mulligan.core.alerts import GLOBAL_DEPTH_LIMIT, RETRY_WAIT_LIMIT
from mulligan.core.budget import Budget
from mulligan.core.counts import BOUNDS, SINK_AGAIN, STALE_RECORD, STEP, Counts
from mulligan.core.facts import Facts, QueueSettings, Region
from mulligan.core.fetch import RetryFirst
from mulligan.core.health import Breaker, Health
from mulligan.core.lane import Lane, Priority
from mulligan.core.limit_metrics import limit_metrics
from mulligan.core.limits import Limit, LimitState, StoredLimit, view_of
from mulligan.core.long_attempts import LongAttempts, attempt_metrics
from mulligan.core.metrics import build_info, metrics
from mulligan.core.shard_metrics import shard_metrics
from mulligan.core.stats import DelayedStats, LaneStats, ShardView, Stats

DEPLOY = Path(__file__).parents[2] / "deploy"
WAITS = (("retry", "wait"), ("retry", "return"), ("fresh", "wait"))
NAMES = (
    "succeeded", "failed", "job-fault", "dead", "stale", "reclaimed", "saved", "saved-seconds",
    "retry-succeeded", "retry-failed", "retry-elsewhere", "started.fresh", "started.global-retry",
    "failure.TimeoutError/ask", "hook-failed.dead", "event-dropped", STEP, STALE_RECORD,
    SINK_AGAIN,
    "limit-started.openai",
    *(f"runtime.succeeded.{bound:g}/ask" for bound in BOUNDS),
    *(f"{wait}-{of}.{bound:g}" for wait, of in WAITS for bound in BOUNDS),
)  # fmt: skip
COUNTED = {("q", "US", name): 1.0 for name in NAMES}
STATS = Stats(
    1000.0,
    [LaneStats(Lane("q", "*", Priority.RETRY), 1, 0, 990.0)],
    {("q", "US"): 1},
    {("q", "failed"): 1},
    {"q": DelayedStats(1, 0, 1)},
    [],
    gathering={"q": 1},
)
FACTS = Facts(
    queues={"q": QueueSettings(RetryFirst(), Budget(ratio=0.5))},
    regions=(Region("US"),),
    health={("q", "US"): Health(1, 1, Breaker(open=True))},
)
LIMITS = [
    view_of(
        "openai",
        StoredLimit(Limit(concurrency=1)),
        Limit(concurrency=1),
        LimitState(),
        waiting=1,
        now=0.0,
    )
]
EVERYTHING = [
    build_info(BUILD),
    *metrics(STATS, Counts(COUNTED, COUNTED), FACTS),
    *limit_metrics(LIMITS),
    *shard_metrics([ShardView(0, "memory://")]),
    *attempt_metrics([LongAttempts("w", "US", 1, {"q": 0.0})], 1000.0),
]


def exposed() -> dict[str, set[str]]:
    """The labels of every name that a scrape shows."""
    found: dict[str, set[str]] = {}
    for metric in EVERYTHING:
        labels = set(metric.samples[0].labels)
        if metric.kind == "histogram":
            found |= {f"{metric.name}_bucket": labels | {"le"}}
            found |= {f"{metric.name}_{part}": labels for part in ("sum", "count")}
        else:
            found[metric.name] = labels
    return found


EXPOSED = exposed()


def rules() -> dict[str, str]:
    document = yaml.safe_load((DEPLOY / "prometheus/mulligan.rules.yml").read_text())
    found = [rule for group in document["groups"] for rule in group["rules"]]
    return {rule.get("alert") or rule["record"]: rule["expr"] for rule in found}


def panels() -> dict[str, str]:
    document = json.loads((DEPLOY / "grafana/mulligan.json").read_text())
    return {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in document["panels"]
        for target in panel["targets"]
    }


def variables() -> dict[str, str]:
    document = json.loads((DEPLOY / "grafana/mulligan.json").read_text())
    listed = document["templating"]["list"]
    return {each["name"]: each["definition"] for each in listed if each["type"] == "query"}


QUERIES = {**rules(), **panels(), **variables()}


@pytest.mark.parametrize("query", QUERIES.values(), ids=list(QUERIES))
def test_a_query_names_only_metrics_and_labels_that_exist(query):
    names = re.findall(r"(?<!:)\bmulligan_\w+", query)
    assert names
    assert set(re.findall(r"\bqueue:\w+:\w+", query)) <= set(rules())
    for name in names:
        assert name in EXPOSED
    for name, selected in re.findall(r"(mulligan_\w+){([^}]*)}", query):
        assert set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selected)) <= EXPOSED[name], query
    grouped = {
        label for group in re.findall(r"\bby \(([^)]*)\)", query) for label in group.split(", ")
    }
    assert all(grouped <= EXPOSED[name] for name in names), query
    for name, label in re.findall(r"label_values\((\w+), (\w+)\)", query):
        assert label in EXPOSED[name]


@pytest.mark.parametrize("query", QUERIES.values(), ids=list(QUERIES))
def test_a_query_closes_what_it_opens(query):
    for opening, closing in ("()", "{}", "[]"):
        assert query.count(opening) == query.count(closing)


def test_every_metric_is_drawn():
    drawn = {name for query in panels().values() for name in re.findall(r"\bmulligan_\w+", query)}
    for metric in EVERYTHING:
        assert any(name.startswith(metric.name) for name in drawn), metric.name


def test_legends_name_only_labels_that_their_query_keeps():
    document = json.loads((DEPLOY / "grafana/mulligan.json").read_text())
    for panel in document["panels"]:
        for target in panel["targets"]:
            for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
                kept = re.search(rf"by \([^)]*\b{label}\b", target["expr"])
                assert kept or " by " not in target["expr"], panel["title"]


def test_the_limits_are_those_of_the_alerts_that_the_status_tells():
    running = "clamp_min(sum(mulligan_running_jobs) or vector(0)"
    expression = rules()["MulliganGlobalRetriesPileUp"]
    assert expression.endswith(f"> {running}, {GLOBAL_DEPTH_LIMIT})")
    assert rules()["MulliganRetryWaitsLong"].endswith(f"> {RETRY_WAIT_LIMIT:.0f}")


def test_the_example_reads_the_rules_that_are_there():
    document = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())
    for file in document["rule_files"]:
        assert (DEPLOY / "prometheus" / file).exists()


def test_panels_do_not_overlap():
    document = json.loads((DEPLOY / "grafana/mulligan.json").read_text())
    taken: set[tuple[int, int]] = set()
    for panel in document["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
