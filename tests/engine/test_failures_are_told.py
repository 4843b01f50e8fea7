"""Where a failure is told: the log with its levels, Sentry, the error of who awaits, a letter."""

import json
import logging
import pickle
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.integrations.logging import LoggingIntegration
from sentry_sdk.transport import Transport

from mulligan import Delays, JobFailedError, Mulligan, Retry
from mulligan.cli.logs import JsonLines, TextLines

TWICE = Retry(1, Delays((1,)))


@pytest.fixture
def app():
    return Mulligan("memory://")


def connect() -> None:
    """Find no route."""
    raise ConnectionError("no route, password=hunter2")


@pytest.fixture
def failing(app):
    """A task that fails every attempt, by a cause."""

    @app.task(retry=TWICE)
    async def ask(question: str) -> None:
        try:
            connect()
        except ConnectionError as error:
            raise LookupError(f"no answer to {question}") from error

    return ask


def test_the_last_failure_is_logged_as_an_error_and_those_before_as_warnings(app, failing, caplog):
    caplog.set_level(logging.DEBUG, "mulligan.worker")
    with app.testing() as t:
        failing.using(id="j").enqueue("why")
        t.drain()
    first, last = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert [first.levelname, last.levelname] == ["WARNING", "ERROR"]
    for number, record in enumerate((first, last), 1):
        assert record.getMessage() == (
            f"job j: attempt {number} of task ask failed: LookupError: no answer to why"
        )
        assert record.exc_info is not None
        assert isinstance(record.exc_info[1], LookupError)
        assert record.__dict__["job"] == "j"


def test_a_failure_that_is_retried_is_one_line_without_its_traceback(app, failing, caplog):
    caplog.set_level(logging.INFO, "mulligan.worker")
    with app.testing() as t:
        failing.enqueue("why")
        t.drain()
    first, last = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert TextLines().format(first).splitlines()[1:] == []
    assert "exception" not in json.loads(JsonLines().format(first))
    assert logging.Formatter().format(first) == first.getMessage()
    assert len(TextLines().format(last).splitlines()) > 1


def test_text_lines_show_the_traceback_that_the_history_keeps(app, failing, caplog):
    with app.testing() as t:
        job = failing.enqueue("why")
        t.drain()
        kept = job.history()[-1].traceback
    line, *rest = TextLines().format(caplog.records[-1]).splitlines()
    assert line.endswith("failed: LookupError: no answer to why")
    assert rest == [f"  {each}" for each in kept.splitlines()]
    assert not any("hunter2" in each for each in rest)


def test_json_lines_have_it_as_exception(app, failing, caplog):
    with app.testing() as t:
        job = failing.enqueue("why")
        t.drain()
        kept = job.history()[-1].traceback
    said = json.loads(JsonLines().format(caplog.records[-1]))
    assert (said["level"], said["exception"]) == ("error", kept)
    assert "trace" not in said


def test_a_failure_without_an_exception_has_none_in_the_log(app, caplog):
    @app.task(retry=Retry(0), accept=bool)
    async def refused() -> int:
        return 0

    with app.testing() as t:
        refused.enqueue()
        t.drain()
    [record] = caplog.records
    assert (record.levelname, record.exc_info) == ("ERROR", None)
    assert "\n" not in TextLines().format(record)
    assert "exception" not in json.loads(JsonLines().format(record))


class Kept(Transport):
    """Keeps what would be sent to Sentry."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Any] = []

    def capture_envelope(self, envelope: Any) -> None:
        self.events += [each.payload.json for each in envelope.items if each.type == "event"]


def test_sentry_gets_the_last_failure_alone_with_its_causes(app, failing):
    kept = Kept()
    integration = LoggingIntegration(level=logging.INFO, event_level=logging.ERROR)
    with sentry_sdk.isolation_scope() as scope:
        client = sentry_sdk.Client(
            "http://key@127.0.0.1/1",
            transport=kept,
            default_integrations=False,
            integrations=[integration],
        )
        scope.set_client(client)
        with app.testing() as t:
            failing.using(id="j").enqueue("why")
            t.drain()
        client.flush()
    [event] = kept.events
    assert event["level"] == "error"
    assert [each["type"] for each in event["exception"]["values"]] == [
        "ConnectionError",
        "LookupError",
    ]
    assert event["extra"]["job"] == "j"


def test_who_awaits_the_result_is_told_type_traceback_and_attempts(app, failing):
    with app.testing():
        job = failing.enqueue("why")
        with pytest.raises(JobFailedError) as told:
            job.result()
        history = job.history()
    error = told.value
    assert (error.type, error.attempts) == ("LookupError", history)
    assert len(error.attempts) == 2
    assert error.traceback == history[-1].traceback
    assert str(error) == (
        f"job {job.id} failed: LookupError: no answer to why\n\n{error.traceback}"
    )
    copied = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (str(copied), copied.attempts) == (str(error), error.attempts)


def test_a_failure_without_a_traceback_is_told_in_a_line():
    error = JobFailedError("job j failed: Lost: gone")
    assert (str(error), error.type, error.traceback) == ("job j failed: Lost: gone", None, None)
    assert error.attempts == []


def test_a_dead_letter_is_told_the_traceback(app):
    letters = []

    @app.task
    async def mourn(letter: dict[str, Any]) -> None:
        letters.append(letter)

    @app.task(retry=Retry(0), on_dead=mourn)
    async def ask() -> None:
        raise LookupError("no")

    with app.testing() as t:
        ask.enqueue()
        t.drain()
    assert letters[0]["type"] == "LookupError"
    assert letters[0]["traceback"].endswith("LookupError: no\n")
