"""Each rule fires where a store is in the state that it warns of, and does not where it is not.

The metrics are those of a real store. Prometheus' own promtool reads the rules that are shipped.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml  # type: ignore[import-untyped]

from mulligan import Delays, Retry
from mulligan.app.overview import measure
from mulligan.core.counts import DEAD, Count
from mulligan.core.health import Breaker
from mulligan.core.job import NewJob, encode
from mulligan.core.long_attempts import KEEP_ATTEMPTS, LONG_ATTEMPTS, LongAttempts
from mulligan.core.settings import Settings
from mulligan.core.worker import Worker
from mulligan.server.housekeep import housekeeping
from mulligan.stores.contract import Store
from mulligan.stores.memory import MemoryStore
from tests.cli.command_line import claim, fail, new_job
from tests.databases._server import Unavailable
from tests.prometheus.programs import installed, promtool
from tests.server.process import LONGEST_WAIT
from tests.store_kit import VirtualClock

pytestmark = [pytest.mark.prove, pytest.mark.slow]
RULES = Path(__file__).parents[2] / "deploy/prometheus/mulligan.rules.yml"


class Stage(NamedTuple):
    """A store, the clock that moves it, and what a scene leaves running."""

    store: MemoryStore
    clock: VirtualClock
    running: AsyncExitStack


Scene = Callable[[Stage], Awaitable[None]]


@pytest.fixture(scope="module", autouse=True)
def programs() -> None:
    """The program; skips by name where it cannot be had."""
    try:
        installed("promtool")
    except Unavailable as missing:
        pytest.skip(f"Prometheus: {missing}")


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    """What a scene leaves running."""
    async with AsyncExitStack() as it:
        yield it


async def worker(store: Store, *queues: str, region: str = "default") -> Worker:
    """A live worker."""
    joined = Worker(f"w-{region}", region, queues, lease=3600.0)
    await store.beat(joined, [])
    return joined


def retries(number: int, since: float) -> Scene:
    """Retries that are due for so long and that any region may take."""

    async def scene(stage: Stage) -> None:
        store = stage.store
        body = encode({"task": "t", "args": [], "kwargs": {}, "retry": Retry(1, Delays((1.0,)))})
        await store.enqueue([NewJob(f"j{each}", "mail", "t", body) for each in range(number)])
        await fail(store, await claim(store, number), non_retryable=False)
        stage.clock.advance(1.0 + since)
        await worker(store, "mail")

    return scene


async def served(stage: Stage) -> None:
    """A server beside a worker, and a job that waits."""
    await worker(stage.store, "mail")
    await alone(stage)
    await stage.store.enqueue([new_job("a")])


async def unserved(stage: Stage) -> None:
    """A job of a queue that the live worker does not serve."""
    await worker(stage.store, "calls")
    await stage.store.enqueue([new_job("a")])


async def alone(stage: Stage) -> None:
    """A server whose chores run, after the last worker has left."""
    store = stage.store
    if not (await store.facts()).regions:
        await store.leave(await worker(store, "mail"))
    known = len((await store.stats()).workers)
    await stage.running.enter_async_context(housekeeping(store, Settings(), ()))
    until = time.monotonic() + LONGEST_WAIT
    while len((await store.stats()).workers) == known:
        assert time.monotonic() < until
        await asyncio.sleep(0.01)


def breaker(*, is_open: bool) -> Scene:
    """A region that fails, beside one that serves."""

    async def scene(stage: Stage) -> None:
        store = stage.store
        for region in ("EU", "US"):
            await worker(store, "mail", region=region)
        assert await store.switch("mail", "EU", Breaker(), Breaker(open=is_open))

    return scene


def dead_letters(number: int) -> Scene:
    """Jobs that failed for good."""

    async def scene(stage: Stage) -> None:
        store = stage.store
        await worker(store, "mail")
        await store.count(
            [Count("mail", "default", name, number) for name in [DEAD] * bool(number)]
        )

    return scene


def attempt(since: float) -> Scene:
    """An attempt that has run for so long."""

    async def scene(stage: Stage) -> None:
        joined = await worker(stage.store, "mail")
        began = (await stage.store.facts()).now - since
        note = LongAttempts(joined.id, "default", 1, {"mail": began})
        await stage.store.note(LONG_ATTEMPTS + joined.id, encode(note), KEEP_ATTEMPTS)

    return scene


# By alert: the state in which it fires, and one near it in which it does not.
SCENES: dict[str, tuple[Scene, Scene]] = {
    "MulliganGlobalRetriesPileUp": (retries(50, since=0.0), retries(5, since=0.0)),
    "MulliganRetryWaitsLong": (retries(1, since=60.0), retries(1, since=10.0)),
    "MulliganBreakerOpen": (breaker(is_open=True), breaker(is_open=False)),
    "MulliganUnservedJobs": (unserved, served),
    "MulliganDeadLettersGrow": (dead_letters(1), dead_letters(0)),
    "MulliganNoLiveWorker": (alone, served),
    "MulliganAttemptRunsLong": (attempt(3601.0), attempt(3000.0)),
}


def alerts() -> list[str]:
    """The alerts of the rules file."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule]


@pytest.mark.parametrize("fires", [True, False])
@pytest.mark.parametrize("name", alerts())
async def test_an_alert_fires_in_its_state_and_not_beside_it(clock, stack, tmp_path, name, fires):
    store = MemoryStore(clock=clock)
    await SCENES[name][0 if fires else 1](Stage(store, clock, stack))
    series = [
        {"series": series_name(metric.name, sample.labels), "values": f"{sample.value}x40"}
        for metric in await measure(store)
        for sample in metric.samples
        if not sample.buckets
    ]
    firing = f'count(ALERTS{{alertname="{name}", alertstate="firing"}}) > bool 0 or vector(0)'
    test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": series,
                "promql_expr_test": [
                    {
                        "expr": firing,
                        "eval_time": "5m",
                        "exp_samples": [{"labels": "{}", "value": int(fires)}],
                    }
                ],
            }
        ],
    }
    file = tmp_path / "alerts.test.yml"
    file.write_text(yaml.safe_dump(test))
    assert "SUCCESS" in promtool("test", "rules", str(file))


def series_name(name: str, labels: dict[str, str]) -> str:
    """A series as Prometheus writes it."""
    about = ", ".join(f'{label}="{value}"' for label, value in labels.items())
    return f"{name}{{{about}}}"
