"""Sentry in a worker, with its real SDK: a scope per attempt, one report of each dead letter."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.logging import LoggingIntegration
from sentry_sdk.transport import Transport

from mulligan import CurrentCall, Delays, Mulligan, Retry
from tests.hooks.running import worked


class Kept(Transport):
    """Keeps what would be sent."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self.events: list[Any] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        """Keep the event of the envelope."""
        if (event := envelope.get_event()) is not None:
            self.events.append(event)


@pytest.fixture
def sent():
    """The events that Sentry would have been sent."""
    kept = Kept({})
    sentry_sdk.init(
        dsn="http://key@127.0.0.1:1/1",
        transport=kept,
        default_integrations=False,
        integrations=[LoggingIntegration()],
    )
    with sentry_sdk.isolation_scope():  # so that nothing of it stays in this process
        yield kept.events
    sentry_sdk.get_global_scope().set_client(None)


@pytest.fixture
def app():
    app = Mulligan("memory://")

    @app.middleware
    async def sentry_scope(call: Callable[[], Any], job: CurrentCall) -> Any:
        """As docs/hooks.md has it."""
        with sentry_sdk.isolation_scope() as scope:
            scope.set_transaction_name(job.task)
            scope.set_tag("mulligan.job", job.id)
            scope.set_tag("mulligan.attempt", job.attempt)
            return await call()

    yield app
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
    found = {each["message"]: (each["tags"]["mulligan.job"], each["transaction"]) for each in sent}
    assert found == {
        "seen by a": ("a", "coroutine"),
        "seen by b": ("b", "coroutine"),
        "seen in a thread": ("c", "plain"),
    }
    sentry_sdk.capture_message("outside")
    assert "mulligan.job" not in sent[-1].get("tags", {})


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
    assert report["extra"]["job"] == "x"
    assert report["extra"]["attempt"] == 3
    warnings = [each for each in report["breadcrumbs"]["values"] if each["level"] == "warning"]
    assert len(warnings) == 2
