"""The real Prometheus scrapes a real run, and answers every query that is shipped.

`MULLIGAN_TEST_REPORT=FILE` keeps what promtool and Prometheus said.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml  # type: ignore[import-untyped]

from mulligan import Mulligan
from tests.cli.command_line import process
from tests.databases._server import Unavailable
from tests.prometheus.programs import Prometheus, installed, prometheus, promtool
from tests.server.process import server
from tests.server.test_deploy import panels, rules, variables

pytestmark = [pytest.mark.prove, pytest.mark.slow]
HERE = Path(__file__).parent
DEPLOY = HERE.parents[1] / "deploy"
APP = "tests.prometheus.apps:app"
SEEN = 'sum(rate(mulligan_attempts_total{queue="mail", outcome="succeeded"}[10s])) > 0'
# What this run does not do: it loses no worker, its retries pass nobody in the fresh line, and it
# has no shards.
NOTHING_TO_DRAW = (
    "Time saved by priority",
    "Lost and refused",
    "Retries taken by another region",
    "Hooks that raised, in 15 minutes B",
    "Oldest running attempt",
    "Shards",
)


@pytest.fixture(scope="module", autouse=True)
def programs() -> None:
    """The programs; skips by name where they cannot be had."""
    try:
        installed("promtool")
    except Unavailable as missing:
        pytest.skip(f"Prometheus: {missing}")


def shown(found: list[dict[str, Any]]) -> str:
    """What a query found, in a line."""
    return json.dumps([[each["metric"], each["value"][1]] for each in found])


def report(title: str, said: object) -> None:
    """Keep what was said, for those who ask for it."""
    if file := os.environ.get("MULLIGAN_TEST_REPORT"):
        with Path(file).open("a") as out:
            out.write(f"== {title}\n{said}\n")


def test_the_rules_are_sound_and_do_what_their_tests_say():
    said = promtool("check", "rules", str(DEPLOY / "prometheus/mulligan.rules.yml"))
    assert "SUCCESS" in said
    report("promtool check rules", said)
    said = promtool("test", "rules", str(HERE / "mulligan.rules.test.yml"))
    assert "SUCCESS" in said
    report("promtool test rules", said)


def test_the_example_of_a_configuration_is_sound():
    said = promtool("check", "config", "prometheus.yml", folder=DEPLOY / "prometheus")
    assert "SUCCESS" in said
    report("promtool check config", said)


class Run:
    """A server and a worker with jobs, and the Prometheus that looks at them."""

    def __init__(self, address: str, seen: Prometheus) -> None:
        self.address = address
        self.prometheus = seen


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("prometheus")
    environment = {"TEST_STORE": f"sqlite:///{folder}/jobs.db"}
    shutil.copy(DEPLOY / "prometheus/mulligan.rules.yml", folder)
    with (
        server(APP, **environment) as (address, _),
        process("worker", APP, "--queues", "mail,calls", "--log-level", "error", **environment),
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "scrape_configs": [
                {
                    "job_name": "mulligan",
                    "static_configs": [{"targets": [address.removeprefix("http://")]}],
                }
            ],
            "rule_files": ["mulligan.rules.yml"],
        }
        with prometheus(folder, config) as seen:
            feed(client, "wait", 3, with_number=False)
            feed(client, "send", 50)
            feed(client, "call", 5)
            feed(client, "send", 5, delay=3600)
            gather_later(environment["TEST_STORE"])
            # rates need two scrapes of a counter: more work once the first of it was seen
            seen.until('mulligan_attempts_total{queue="calls"}')
            seen.until('mulligan_attempts_total{queue="mail", outcome="succeeded"}')
            feed(client, "send", 200)
            feed(client, "call", 5)
            seen.until(SEEN)
            seen.until("sum(increase(mulligan_dead_letters_total[15m])) > 0")
            yield Run(address, seen)


def gather_later(url: str) -> None:
    """A job that awaits another for an hour."""
    app = Mulligan(url)

    @app.task(queue="mail")
    def send(number: object) -> None: ...

    app.gather([send.using(delay=3600).call(1)], send)
    app.close()


def feed(
    client: httpx.Client, task: str, number: int, *, with_number: bool = True, **options: Any
) -> None:
    for each in range(number):
        body = {"task": task, "args": [each] if with_number else [], **options}
        answer = client.post("/api/jobs", json=body)
        assert answer.status_code < 300, answer.text


def test_promtool_finds_nothing_to_say_about_the_names(run):
    text = httpx.get(f"{run.address}/metrics", timeout=60).text
    said = promtool("check", "metrics", stdin=text)
    assert not said.strip(), said
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    report("promtool check metrics", f"exit 0, nothing to say about {len(names)} metrics")


def test_the_target_is_up_and_no_rule_fails(run):
    [target] = run.prometheus.get("/api/v1/targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
    run.prometheus.until("queue:mulligan_load_slots:sum")
    found = run.prometheus.get("/api/v1/rules")["groups"]
    for rule in [rule for group in found for rule in group["rules"]]:
        assert rule["health"] == "ok", rule
        report(f"rule {rule['name']}", f"{rule['health']}, {rule.get('state', 'recorded')}")


def filled(query: str) -> str:
    """The query as Grafana sends it."""
    query = re.sub(r"\$(queue|region)\b", ".*", query)
    return query.replace("$__rate_interval", "1m")


@pytest.mark.parametrize("title", panels())
def test_a_panel_of_the_dashboard_has_something_to_draw(run, title):
    query = filled(panels()[title])
    found = run.prometheus.query(query)
    report(f"panel {title}", f"{query}\n{shown(found)}")
    if not title.startswith(NOTHING_TO_DRAW):
        assert found, query


@pytest.mark.parametrize("name", variables())
def test_a_variable_of_the_dashboard_has_values(run, name):
    series = re.fullmatch(r"label_values\((\w+), (\w+)\)", variables()[name])
    assert series is not None
    assert run.prometheus.query(f"count by ({series[2]}) ({series[1]})")


@pytest.mark.parametrize("name", rules())
def test_a_rule_can_be_asked(run, name):
    query = rules()[name]
    found = run.prometheus.query(query)
    report(f"rule {name}", f"{query}\n{shown(found)}")


def test_what_the_run_did_wrong_is_an_alert(run):
    for name in ("MulliganDeadLettersGrow", "MulliganUnservedJobs"):
        found = run.prometheus.until(f'ALERTS{{alertname="{name}"}}')
        report(f"alert {name}", json.dumps([each["metric"] for each in found]))


def test_what_autoscalers_ask_has_an_answer_for_every_queue(run):
    run.prometheus.until("queue:mulligan_load_slots:sum")
    scaled = yaml.safe_load((DEPLOY / "kubernetes/keda.yaml").read_text())
    [trigger] = scaled["spec"]["triggers"]
    for queue in ("mail", "calls", "nobody"):
        query = trigger["metadata"]["query"].replace("default", queue)
        [found] = run.prometheus.query(query)
        report(f"load of {queue}", f"{query}\n{found['value'][1]}")
        assert float(found["value"][1]) >= (3 if queue == "nobody" else 0)
