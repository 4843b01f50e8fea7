"""Secrets are shown on no page, in whatever form they are said, and hiding them is quick."""

import re

import msgspec
import pytest
from msgspec.structs import replace

from mulligan import Mulligan
from mulligan.core.fleets import Exit, FleetState, KindState, note_key
from mulligan.core.redaction import HIDDEN, Redactor
from mulligan.engine import traceback
from mulligan.server.guard import Guard
from mulligan.server.problems import without_secrets
from mulligan.server.redaction import Redaction
from mulligan.server.service import Service
from tests.cli.command_line import claim, fail, new_job
from tests.core.jobs import WAITING
from tests.core.test_redaction import PIECES, grows_with_its_length
from tests.server.conftest import good

SAID = [
    "{'password': 'hunter2', 'user': 'me'}",
    "password: hunter2 user: me",
    "Authorization: Bearer hunter2\nuser: me",
    '{"inner": "{\\"password\\": \\"hunter2\\", \\"user\\": \\"me\\"}"}',
    "redis://me:hunter2@host/0",
]


@pytest.mark.parametrize("said", SAID)
async def test_a_text_in_a_body_or_a_result_shows_no_secret(client, store, said):
    asked = {"task": "a", "id": "j", "args": [said], "kwargs": {"deep": [{"er": said}]}}
    await good(client.post("/api/jobs", json=asked))
    worker = (await good(client.post("/worker/join", json={})))["worker"]
    (job,) = (await good(client.post("/worker/claim", json={"worker": worker})))["jobs"]
    assert job["args"] == [said]
    done = {"worker": worker, "jobs": [{"id": "j", "token": job["token"], "result": {"log": said}}]}
    await good(client.post("/worker/ack", json=done))
    for path in ("/api/jobs/j", "/api/jobs"):
        text = (await client.get(path)).text
        assert "hunter2" not in text
        assert text.count("me") >= 3
        assert '"status":"done"' in text


@pytest.mark.parametrize("said", SAID)
async def test_a_failure_shows_no_secret(client, store, said):
    await store.enqueue([new_job("a")])
    await fail(store, await claim(store, 1), f"failed with {said}")
    for path in ("/api/jobs/a", "/api/jobs/a/history", "/api/jobs/a/explain", "/api/dead"):
        text = (await client.get(path)).text
        assert "hunter2" not in text, path
        assert "failed with" in text


@pytest.mark.parametrize("said", SAID)
async def test_the_last_lines_of_a_worker_that_died_show_no_secret(client, store, said):
    exits = (Exit("token-1", 7, 0.0, f"ended: {said}", ("Traceback", said)),)
    kind = KindState(1, "why", 1, 0, 0, 0, 0, None, None, (), exits)
    state = FleetState("f", "h", 1, 0.0, 0.0, "running", {"token": kind}, {"a": said})
    await store.note(note_key("h", "f"), msgspec.json.encode(state), 60)
    shown = await client.get("/api/overview")
    assert "hunter2" not in shown.text
    (gone,) = shown.json()["fleets"]["h/f"]["kinds"]["token"]["exits"]
    assert (gone["slot"], gone["lines"][0]) == ("token-1", "Traceback")
    client.service.hub.stop()
    assert "hunter2" not in (await client.get("/api/events")).text


@pytest.mark.parametrize("piece", PIECES)
def test_hiding_what_drivers_say_takes_time_by_its_length(piece):
    grows_with_its_length(lambda text: without_secrets(OSError(text)), piece)


def test_bound_arguments_of_later_stages_are_hidden_by_the_names_of_their_parameters():
    app = Mulligan("memory://")

    @app.task
    def fetch(password: str, url: str) -> str:
        return url

    @app.task
    def ask(url: str) -> str:
        return url

    whole = ask | fetch.partial(password="hunter2") | fetch.without_result("hunter2", "u")  # type: ignore[call-arg]
    asked = whole.call("u").job
    shown = Redaction(tasks=app.tasks).job(replace(WAITING, task="ask", body=asked.body))
    assert "hunter2" not in str(shown)
    assert [each["args"] for each in shown.body["flow"]["then"]] == [[HIDDEN], [HIDDEN, "u"]]
    called = Redaction(tasks=app.tasks).call("fetch", ["hunter2", "u"], {})
    assert called == ([HIDDEN, "u"], {})


async def test_the_default_of_a_secret_parameter_is_hidden(serve):
    known = Mulligan("memory://")

    @known.task
    def log_in(user: str = "anna", password: str = "hunter2") -> None:  # noqa: S107
        """Needs both."""

    shown = (await good(serve(app=known).get("/api/tasks")))["tasks"][0]["parameters"]
    assert [each["default"] for each in shown] == ["anna", "***"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ([["Authorization", "Basic hunter2"], ["a", "b"]], [["Authorization", "***"], ["a", "b"]]),
        (["mysql", "--password", "hunter2", "db"], ["mysql", "--password", "***", "db"]),
        ([{"name": "DB_PASSWORD", "value": "hunter2"}], [{"name": "DB_PASSWORD", "value": "***"}]),
        ({"key": "password", "value": 5}, {"key": "password", "value": "***"}),
        ({"redis://u:hunter2@h": 1}, {"redis://u:***@h": 1}),
        ({"pass\u200bword": "hunter2"}, {"password": "***"}),
        ({"auth": ["u", "hunter2"]}, {"auth": "***"}),
        (["a long text about a token", "b"], ["a long text about a token", "b"]),
    ],
)
def test_a_value_is_hidden_by_what_names_it(value, shown):
    assert Redaction().value(value) == shown


def test_an_app_says_what_else_is_secret(monkeypatch):
    monkeypatch.setattr(traceback.SECRETS, "_more", ())
    monkeypatch.setattr(traceback.SECRETS, "_redactor", Redactor())
    app = Mulligan("memory://", redact=["ssn", re.compile("hunter[0-9]")])
    assert traceback.kept_message("my_ssn=5 of hunter2") == "my_ssn=*** of ***"
    service = Service(app.make_store(), app, Guard(None), declares=True)
    assert service.redaction.value({"ssn": 5, "a": "hunter2"}) == {"ssn": "***", "a": "***"}
