"""Commands that look at chains, metrics and the last minute."""

from pathlib import Path

import pytest

from mulligan.core.counts import Count, Counts, bucket
from mulligan.core.decide import decide
from mulligan.core.facts import Facts
from mulligan.core.fleets import Exit, FleetState, KindState, note_key
from mulligan.core.flow import Flow
from mulligan.core.health import CLOSED, Breaker
from mulligan.core.job import NewJob, encode
from mulligan.core.metrics import metrics
from mulligan.core.outcome import Succeeded
from mulligan.core.stage import Stage
from mulligan.core.stats import Stats
from mulligan.core.worker import Worker
from tests.cli.command_line import APP, claim, do, fail, finish, good, good_json

PATH = ("split", "each(resize)", "combine")


@pytest.fixture
def chained(store):
    """A chain whose first stage is done, and one member of its second failed for good."""

    async def fill(store):
        flow = Flow(
            "photo", PATH, then=(Stage("resize", "mail", each=True), Stage("combine", "mail"))
        )
        body = {"task": "split", "args": [], "kwargs": {}, "flow": flow}
        await store.enqueue([NewJob("photo", "mail", "split", encode(body))])
        [first] = await claim(store, 1)
        await finish_with(store, first, b'["a","b"]')
        one, two = await claim(store, 2)
        await finish(store, [one])
        await fail(store, [two], "the disk is full")

    do(store, fill)
    return store


async def finish_with(store, claimed, result):
    await store.commit([decide(claimed, Succeeded(result), await store.facts(), 0.5)])


def test_a_job_shows_the_chain_it_belongs_to(chained):
    said = good("job", "photo.2.1", "--app", APP)
    for word in ("1. split", "2. each(resize)  1 of 2 done", "photo.2.0", "the disk is full"):
        assert word in said
    assert 'photo.2.1  ("b")  failed' in said
    assert 'photo.3  (["ok"])  pending, awaits 1' in said


def test_a_chain_is_found_from_each_of_its_jobs_as_json(chained):
    for job in ("photo", "photo.2.0", "photo.3"):
        stages = good_json("job", job, "--app", APP)["stages"]
        assert [stage["name"] for stage in stages] == list(PATH)
        assert [stage["members"] for stage in stages] == [1, 2, 1]
        statuses = [each["status"] for each in stages[1]["jobs"]]
        assert statuses == ["done", "failed"]
        called = [(each["args"], each["kwargs"]) for stage in stages for each in stage["jobs"]]
        assert called == [([], {}), (["a"], {}), (["b"], {}), ([["ok"]], {})]


def test_a_gathering_job_explains_what_it_waits_for(chained):
    assert "Waiting for 1 of 2 jobs whose results it gathers" in good(
        "explain", "photo.3", "--app", APP
    )
    assert good_json("status", "--app", APP)["gathering"] == {"mail": 1}


@pytest.fixture
def measured(store):
    """A store in which something was counted, and a breaker is open."""

    async def fill(store):
        names = {
            "succeeded": 3, "failed": 1, "started.fresh": 2, "started.global-retry": 2,
            "retry-succeeded": 2, f"retry-wait.{bucket(0.02)}": 2, "retry-wait.sum": 0.04,
            "saved": 1, "saved-seconds": 150.0,
        }  # fmt: skip
        await store.count([Count("mail", "US", name, value) for name, value in names.items()])
        await store.beat(Worker("w", region="US", queues=("mail",)), [])
        await store.switch("mail", "US", CLOSED, Breaker(open=True))

    do(store, fill)
    return store


def test_metrics_show_what_was_counted(measured):
    said = good("metrics", APP)
    for word in ("mulligan_attempts_total", "outcome=succeeded", "2, mean 0.02 s"):
        assert word in said


def test_metrics_as_json_carry_labels_and_buckets(measured):
    found = good_json("metrics", APP)
    [saved] = found["mulligan_time_saved_seconds_total"]["samples"]
    assert saved == {"labels": {"queue": "mail", "region": "US"}, "value": 150.0}
    [wait] = found["mulligan_retry_wait_seconds"]["samples"]
    assert (wait["sum"], wait["buckets"]["0.025"]) == (0.04, 2)


def test_a_store_that_nobody_used_has_no_metrics(store):
    assert "Nothing has been measured" in good("metrics", APP)


def test_tasks_show_the_last_hour_of_what_has_run(store):
    assert "No task has run so far." in good("tasks", APP)

    async def fill(store):
        names = {"runtime.succeeded.0.5/ask": 2, "runtime.failed.2/ask": 1, "failure.Late/ask": 1}
        await store.count([Count("mail", "US", name, value) for name, value in names.items()])

    do(store, fill)
    words = " ".join(good("tasks", APP).split())
    assert "ask mail" in words
    assert "440 ms 1.9 s 2 s 1 Late" in words
    [found] = good_json("tasks", APP)["tasks"]
    assert (found["task"], found["succeeded"], found["failed"]) == ("ask", 2, 1)
    assert found["failures"] == {"Late": 1}


def test_status_tells_the_last_minute_and_raises_alerts(measured):
    said = good("status", APP)
    for word in ("The last minute", "150 s", "open", "the breaker of queue mail in region US"):
        assert word in said
    recent = good_json("status", APP)["recent"]["mail"]["US"]
    assert (recent["started"], recent["retries_started"], recent["time_saved_mean"]) == (4, 2, 150)
    assert recent["breaker"] == "open"


def test_the_last_minute_fits_an_ordinary_terminal(measured):
    said = good("status", APP, COLUMNS="80").splitlines()
    assert any(line.split()[:2] == ["mail", "US"] and line.split()[-1] == "open" for line in said)


def test_status_tells_what_supervisors_run(store):
    died = Exit("web-1", 4711, 90.0, "killed by SIGKILL")
    web = KindState(3, "depth 40", 2, 1, 0, 0, 40, 12.0, None, (), (died,))
    fleet = FleetState("shop", "host", 1, 100.0, 50.0, "running", {"web": web})
    note = encode(fleet)
    do(store, lambda store: store.note(note_key("host", "shop"), note, 60))
    said = good("status", APP)
    for word in ("Fleets", "host/shop", "web", "depth 40", "killed by SIGKILL"):
        assert word in said
    assert good_json("status", APP)["fleets"]["host/shop"]["kinds"]["web"]["wanted"] == 3


def test_every_metric_is_documented():
    page = Path(__file__).parents[2].joinpath("docs/reference/metrics.md").read_text()
    empty = Stats(0.0, [], {}, {}, {}, [])
    for metric in metrics(empty, Counts({}, {}), Facts()):
        assert f"`{metric.name}`" in page, metric.name
