"""What Prometheus scrapes is what core computes."""

import asyncio
from itertools import accumulate

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from mulligan.app.overview import measure
from mulligan.core.counts import BOUNDS, Count, bucket
from mulligan.core.health import CLOSED, Breaker
from mulligan.server.prometheus import KEPT, Scrapes
from tests.cli.command_line import claim, fail, new_job
from tests.server.conftest import good, refused

STRANGE = 'a "strange"\\ name'


@pytest.fixture
async def counted(store):
    """A store in which much was counted."""
    await store.enqueue([new_job(name, region="US") for name in ("a", "b", "c", "d")])
    await store.enqueue([new_job("e", STRANGE), new_job("later", delay=60)])
    claims = await claim(store, 2, region="US", worker="w")
    await fail(store, claims[:1], non_retryable=False)
    await fail(store, claims[1:])
    names = {
        "succeeded": 3.0, "failed": 2.0, "retry-succeeded": 1.0, "dead": 1.0, "started.fresh": 4.0,
        "started.global-retry": 3.0, "reclaimed": 2.0, "stale": 1.0, "saved": 1.0,
        "saved-seconds": 120.5, "retry-wait.sum": 900.04,
        f"retry-wait.{bucket(0.02)}": 2.0, f"retry-wait.{bucket(900.0)}": 1.0,
    }  # fmt: skip
    await store.count([Count("mail", "US", name, value) for name, value in names.items()])
    await store.count([Count(STRANGE, "EU", "succeeded", 1.0)])
    await store.switch("mail", "US", CLOSED, Breaker(open=True))
    return store


def flat(families):
    """Every value by its name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for each in families
        for sample in each.samples
    }


async def expected(store):
    """The same, from core's own metrics."""
    found = {}
    for metric in await measure(store):
        for sample in metric.samples:
            labels = sample.labels.items()
            if metric.kind != "histogram":
                found[metric.name, frozenset(labels)] = sample.value
                continue
            for bound, below in zip(BOUNDS, accumulate(sample.buckets), strict=True):
                written = "+Inf" if bound == BOUNDS[-1] else str(bound)
                found[f"{metric.name}_bucket", frozenset([*labels, ("le", written)])] = below
            found[f"{metric.name}_count", frozenset(labels)] = sum(sample.buckets)
            found[f"{metric.name}_sum", frozenset(labels)] = sample.value
    return found


async def test_every_value_is_the_one_that_core_computes(client, counted):
    answer = await client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = flat(text_string_to_metric_families(answer.text))
    assert found == await expected(counted)
    assert {dict(labels)["queue"] for _, labels in found if "queue" in dict(labels)} == {
        "mail",
        STRANGE,
    }


async def test_kinds_and_meanings_are_told_even_of_what_has_no_value(client, store):
    text = (await client.get("/metrics")).text
    told = {each.name: each for each in text_string_to_metric_families(text)}
    for metric in await measure(store):
        shown = told[metric.name.removesuffix("_total")]
        assert (shown.type, shown.documentation) == (metric.kind, metric.help)


async def test_openmetrics_is_spoken_to_who_asks_for_it(client, counted):
    wanted = {"Accept": "application/openmetrics-text; version=1.0.0, text/plain; q=0.5"}
    answer = await client.get("/metrics", headers=wanted)
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.text.endswith("# EOF\n")
    assert flat(open_metrics(answer.text)) == await expected(counted)


@pytest.mark.parametrize(
    "accept", ["", "*/*", "application/json", "application/openmetrics-text; version=odd", ";;,,"]
)
async def test_whatever_else_is_asked_for_gets_the_text_format(client, accept):
    answer = await client.get("/metrics", headers={"Accept": accept})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")


async def test_programs_get_the_same_as_json(client, counted):
    found = (await good(client.get("/api/metrics")))["metrics"]
    assert list(found) == [metric.name for metric in await measure(counted)]
    [wait] = found["mulligan_retry_wait_seconds"]["samples"]
    assert wait["labels"] == {"queue": "mail", "region": "US"}
    assert (wait["sum"], wait["buckets"]["0.025"], wait["buckets"]["1800"]) == (900.04, 2, 1)
    [saved] = found["mulligan_time_saved_seconds_total"]["samples"]
    assert saved == {"labels": {"queue": "mail", "region": "US"}, "value": 120.5}


async def test_a_parameter_is_refused_as_everywhere(client):
    await refused(client.get("/metrics?name[]=up"), 422, "name[]")


class Counting:
    """Counts how often the store is asked, and answers when it is let to."""

    def __init__(self, store) -> None:
        self._store = store
        self.asked = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def stats(self):
        self.asked += 1
        await self.may_answer.wait()
        return await self._store.stats()

    def __getattr__(self, name):
        return getattr(self._store, name)


async def test_a_second_scrape_within_a_second_asks_the_store_nothing(counted):
    now = 100.0
    store = Counting(counted)
    scrapes = Scrapes(store, lambda: now)
    first = await scrapes.metrics()
    now += KEPT - 0.01
    assert await scrapes.metrics() is first
    assert store.asked == 1
    now += 0.01
    await scrapes.metrics()
    assert store.asked == 2


async def test_many_scrapes_at_once_are_one_look_at_the_store(counted):
    store = Counting(counted)
    scrapes = Scrapes(store)
    store.may_answer.clear()
    asked = [asyncio.ensure_future(scrapes.metrics()) for _ in range(50)]
    await asyncio.sleep(0)
    store.may_answer.set()
    answers = await asyncio.gather(*asked)
    assert store.asked == 1
    assert all(each is answers[0] for each in answers)


async def test_a_look_that_failed_is_not_kept(counted):
    store = Counting(counted)
    scrapes = Scrapes(store)
    store.may_answer.clear()
    asked = asyncio.ensure_future(scrapes.metrics())
    await asyncio.sleep(0)
    asked.cancel()
    store.may_answer.set()
    assert await scrapes.metrics()
    assert store.asked == 2
