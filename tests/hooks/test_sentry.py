"""Sentry in a worker, with its real SDK: a scope per attempt, one report of each dead letter."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.logging import LoggingIntegration
from sentry_sdk.transport import Transport

from mulligan import Delays, Mulligan, Retry, current_job
from tests.hooks.worker import worked

PAGE = Path(__file__).parents[2] / "docs/howto/observability.md"


class Kept(Transport):
    """Keeps what would be sent."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self.events: list[Any] = []
        self.transactions: list[Any] = []
        self.checks: list[Any] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        """Keep what is in the envelope."""
        for item in envelope.items:
            kinds = {"event": self.events, "transaction": self.transactions}
            kinds.get(item.type or "", self.checks).append(item.payload.json)


@pytest.fixture
def kept() -> Kept:
    return Kept({})


@pytest.fixture
def sent(kept):
    """The events that Sentry would have been sent."""
    return kept.events


@pytest.fixture
def app(kept, monkeypatch):
    """An app with the lines that docs/howto/observability.md has for Sentry."""
    app = Mulligan("memory://")
    init = sentry_sdk.init

    def into_the_transport(_dsn: str | None, **options: Any) -> None:
        init(
            dsn="http://key@127.0.0.1:1/1",
            transport=kept,
            default_integrations=False,
            integrations=[LoggingIntegration()],
            **{**options, "traces_sample_rate": 1.0},
        )

    monkeypatch.setattr(sentry_sdk, "init", into_the_transport)
    found = re.findall(r"```py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    [lines] = [each for each in found if "sentry_sdk" in each]
    with sentry_sdk.isolation_scope():  # so that nothing of it stays in this process
        exec(compile(lines, str(PAGE), "exec"), {"app": app})  # noqa: S102 - our own words
        yield app
    sentry_sdk.get_global_scope().set_client(None)
    app.close()


async def test_what_attempts_capture_at_the_same_time_has_the_tags_of_each(app, sent):
    both, over, seen = asyncio.Barrier(2), asyncio.Event(), []

    @app.task
    async def coroutine(name: str) -> None:
        await both.wait()
        sentry_sdk.capture_message(f"seen by {name}")

    @app.task
    def plain() -> None:
        sentry_sdk.capture_message("seen in a thread")

    @app.on("success")
    def count(event: Any) -> None:
        seen.append(event)
        if len(seen) == 3:
            loop.call_soon_threadsafe(over.set)

    loop = asyncio.get_running_loop()
    await coroutine.using(id="a").aenqueue("a")
    await coroutine.using(id="b").aenqueue("b")
    await plain.using(id="c").aenqueue()
    await worked(app, over)
    found = {each["message"]: (each["tags"]["job"], each["transaction"]) for each in sent}
    assert found == {
        "seen by a": ("a", "coroutine"),
        "seen by b": ("b", "coroutine"),
        "seen in a thread": ("c", "plain"),
    }
    sentry_sdk.capture_message("outside")
    assert "job" not in sent[-1].get("tags", {})


async def test_a_job_that_failed_for_good_is_reported_once_with_its_exception(app, sent):
    over = asyncio.Event()

    @app.task(retry=Retry(2, Delays((0,))))
    async def fragile() -> None:
        raise ConnectionError("no line")

    @app.on("dead")
    async def dead(event: Any) -> None:
        over.set()

    await fragile.using(id="x").aenqueue()
    await worked(app, over)
    [report] = sent
    assert report["level"] == "error"
    [raised] = report["exception"]["values"]
    assert (raised["type"], raised["value"]) == ("ConnectionError", "no line")
    assert raised["stacktrace"]["frames"][-1]["function"].endswith("fragile")
    assert report["tags"]["job"] == "x"
    assert report["tags"]["attempt"] == 3
    assert report["tags"]["task"] == "fragile"
    warnings = [each for each in report["breadcrumbs"]["values"] if each["level"] == "warning"]
    assert len(warnings) == 2


async def test_each_attempt_is_a_transaction_of_its_queue(app, kept):
    over = asyncio.Event()

    @app.task(queue="calls", retry=Retry(1, Delays((0,))))
    async def fragile() -> None:
        with sentry_sdk.start_span(op="db", name="SELECT"):
            pass
        if current_job().attempt == 1:
            raise ConnectionError("no line")

    @app.on("success")
    async def done(event: Any) -> None:
        over.set()

    await fragile.using(id="x").aenqueue()
    await worked(app, over)
    first, second = kept.transactions
    for each, status in ((first, "internal_error"), (second, None)):
        trace = each["contexts"]["trace"]
        assert (each["transaction"], trace["op"]) == ("fragile", "queue.process")
        assert trace.get("status") == status
        assert trace["data"]["messaging.destination.name"] == "calls"
        assert [span["op"] for span in each["spans"]] == ["db"]
    assert kept.events == [], "a failure that is retried is no event"


async def test_a_periodic_task_is_a_cron_monitor_by_the_decorator_of_sentry(app, kept):
    over = asyncio.Event()

    @app.task
    @sentry_sdk.monitor("morning-report")
    async def report() -> None: ...

    @app.on("success")
    async def done(event: Any) -> None:
        over.set()

    await report.aenqueue()
    await worked(app, over)
    said = [each for each in kept.checks if "monitor_slug" in each]
    assert [each["status"] for each in said] == ["in_progress", "ok"]
    assert {each["monitor_slug"] for each in said} == {"morning-report"}
