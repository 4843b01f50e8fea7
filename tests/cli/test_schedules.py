"""`mulligan schedules`, as an operator types it."""

import pytest
from msgspec.json import encode

from mulligan.app.schedules import list_schedules
from mulligan.core.known_tasks import KNOWS, Registration
from mulligan.core.page import Selection
from tests.cli.command_line import APP, do, good, good_json, refused

PUT = ("schedules", "put", "acme", "send", "ann", "2", "-k", "subject=hi", "--app", APP)


@pytest.fixture(autouse=True)
def store(monkeypatch):
    """The store in memory of the app, empty."""
    from mulligan.stores.memory import MemoryStore  # noqa: PLC0415 - a new one for each test
    from tests.cli import apps  # noqa: PLC0415

    made = MemoryStore()
    monkeypatch.setattr(apps.app, "_memory", made)
    return made


def test_a_schedule_is_stored_listed_changed_and_removed(store):
    assert "acme: stored; next tick" in good(*PUT, "--every", "60", "--queue", "nightly")
    [view] = do(store, list_schedules)
    assert (view.args, view.kwargs, view.queue) == (["ann", 2], {"subject": "hi"}, "nightly")
    assert "every 60 s" in good("schedules", "list", APP)
    good("schedules", "put", "acme", "--cron", "0 9 * * *", "--catch-up", "all", "--app", APP)
    [view] = good_json("schedules", "list", APP)["schedules"]
    assert (view["cron"], view["catch_up"], view["args"]) == ("0 9 * * *", "all", ["ann", 2])
    assert "acme: paused" in good("schedules", "pause", "acme", "--app", APP)
    assert "does not tick" in good("schedules", "next", "acme", "--app", APP)
    assert good_json("schedules", "resume", "acme", "--app", APP)["state"] == "active"
    assert len(good("schedules", "next", "acme", "-n", "3", "--app", APP).splitlines()) == 3
    job = good("schedules", "run-now", "acme", "--app", APP).strip()
    ids = [each.id for each in do(store, lambda s: s.page(Selection(), 10)).jobs]
    assert job in ids
    assert len(ids) == 2
    assert good_json("schedules", "remove", "acme", "--app", APP) == {"removed": "acme"}
    assert good("schedules", "list", APP).strip() == "No schedules."


def test_ticks_are_shown_before_they_are_stored():
    shown = good("schedules", "next", "--cron", "0 0 29 2 *", "--count", "2").splitlines()
    assert [line[4:] for line in shown] == ["-02-29 00:00:00 UTC"] * 2
    assert len(good_json("schedules", "next", "--every", "5")["ticks"]) == 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*PUT, "--every", "0"), "every 0 must be between 1 s"),
        ((*PUT, "--cron", "0 0 31 2 *"), "cannot be read"),
        ((*PUT, "--cron", "0 9 * * *", "--timezone", "Mars/Base"), "'Mars/Base' is not known"),
        (PUT, "has neither cron nor every"),
        (
            ("schedules", "put", "acme", "sned", "--every", "5", "--app", APP),
            "'sned' is not one",
        ),
        (("schedules", "put", "acme", "send", "--every", "5", "--app", APP), "missing a required"),
        (
            ("schedules", "put", "acme", "--every", "5", "--app", APP),
            "no schedule 'acme' is stored",
        ),
        (("schedules", "put", "acme", "--app", APP), "nothing is to change"),
        (("schedules", "pause", "acme", "--app", APP), "'acme' is stored"),
        (("schedules", "remove", "acme", "--app", APP), "'acme' is stored"),
        (("schedules", "run-now", "acme", "--app", APP), "'acme' is stored"),
        (("schedules", "next", "--app", APP), "has neither cron nor every"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(words, said):
    code = 1 if "is stored" in said else 2
    assert said in refused(code, *words)


def test_a_schedule_whose_task_no_worker_knows_is_told_by_doctor_and_status(store):
    good(*PUT, "--every", "60")
    now = do(store, lambda s: s.facts()).now
    other = Registration("w", now, ("mail",), {"other": "()"})
    do(store, lambda s: s.note(f"{KNOWS}x", encode(other), 60))
    said = "schedule 'acme' runs task 'send', which no live worker knows"
    assert said in good("status", APP)
    assert said in str(good_json("doctor", APP))
