"""Schedules under Django: of tasks that declare them, put by the project, and in the admin."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from mulligan.contrib.django.compat import InvalidTask, tasks
from tests.django import tasks as ours
from tests.django.conftest import stored_in, work_off
from tests.django.test_admin import client, text

LIST = "/admin/mulligan/schedule/"
ADD = f"{LIST}add/"
EVERY_RIGHT = ("view_schedule", "add_schedule", "change_schedule", "delete_schedule")


@pytest.fixture
def made(backend, project):
    return backend(database="default")


@pytest.fixture
def acme(made):
    """A schedule that the project has put."""
    call = ours.add.using(priority=5).call(7, other=2)
    made.app.schedules.put("acme", call, cron="0 9 * * *", timezone="Europe/Berlin")
    return f"{LIST}acme/change/"


@ours.task(cron="*/30 * * * *", timezone="Europe/Berlin", queue_name="mail", priority=1)
def sweep() -> str:
    """Says when it runs."""
    return "done"


# Known to the backend of the tests here, and to no other.
tasks.task_backends["default"].home.tasks.pop(sweep.module_path, None)


@pytest.fixture
def nightly(made) -> Iterator[Any]:
    """A task of Django's that says when it runs."""
    made.validate_task(sweep)
    yield sweep
    made.home.tasks.pop(sweep.module_path)


def stored(made, name="acme"):
    return made.app.schedules.get(name)


# -- under Django --------------------------------------------------------------------------------


def test_a_task_runs_by_the_schedule_that_it_declares(made, nightly):
    with made.app.testing() as t:
        t.advance(3601)
        ran = [job for job in t.jobs() if job.status == "done"]
        assert [(job.queue, job.priority) for job in ran] == [("mail", 2)] * 2
        assert made.get_result(ran[0].id).return_value == "done"


def test_a_call_of_a_task_is_put_with_its_options(made, acme):
    found = stored(made)
    assert (found.task, found.args, found.kwargs) == (ours.add.module_path, [7], {"other": 2})
    assert found.options["priority"] == 2
    job = made.app.schedules.run_now("acme")
    work_off(made.app, job.id)
    assert made.get_result(job.id).return_value == 9


def test_a_call_that_does_not_fit_is_refused(made):
    with pytest.raises(ValueError, match="missing a required argument: 'one'"):
        ours.add.call()
    with pytest.raises(InvalidTask):
        ours.add.using(queue_name="mail", id="x" * 999).call(1)


def test_a_worker_has_the_declared_ones_listed(made, nightly):
    job = ours.add.enqueue(1)
    work_off(made.app, job.id)
    [found] = made.app.schedules.list()
    assert (found.name, found.declared) == (nightly.module_path, True)
    shown = text(client("view_schedule").get(LIST))
    assert nightly.module_path in shown
    assert "declared by its task" in shown


# -- in the admin --------------------------------------------------------------------------------


def test_the_list_and_the_page_show_the_ticks(made, acme):
    admin = client("view_schedule")
    assert LIST in text(admin.get("/admin/"))
    [row] = admin.get(LIST).context_data["schedules"]
    assert (row["name"], row["timing"]) == ("acme", "0 9 * * * Europe/Berlin")
    page = admin.get(acme)
    assert len(page.context_data["ticks"]) == 5
    assert page.context_data["ticks"][0] == row["next"]
    assert "{&quot;other&quot;:2}" in text(page)


def test_one_is_paused_resumed_and_run(made, acme):
    admin = client("view_schedule", "change_schedule")
    assert "1 schedule was paused." in text(admin.post(acme, {"action": "pause"}, follow=True))
    assert stored(made).state == "paused"
    assert "It does not tick." in text(admin.get(acme))
    chosen = {"action": "resume", "schedule": ["acme", "none"]}
    answer = text(admin.post(LIST, chosen, follow=True))
    assert "1 schedule was resumed." in answer
    assert "o schedule &#x27;none&#x27; is stored" in answer
    assert stored(made).state == "active"
    assert "1 schedule was run." in text(admin.post(acme, {"action": "run"}, follow=True))
    ids = [job for job in stored_in(made.app) if job.startswith("acme@now-")]
    assert len(ids) == 1
    assert "acme" in text(admin.get("/admin/"))  # among the recent actions


def test_one_is_edited_and_keeps_its_call(made, acme):
    admin = client("view_schedule", "change_schedule")
    edit = {"cron": "*/5 * * * *", "every": "", "timezone": "", "catch_up": "none"}
    before = admin.post(acme, edit | {"preview": "1"})
    assert len(before.context_data["ticks"]) == 5
    assert stored(made).cron == "0 9 * * *"
    assert "1 schedule was changed." in text(admin.post(acme, edit, follow=True))
    found = stored(made)
    assert (found.timing, found.catch_up, found.args) == ("*/5 * * * *", "none", [7])
    assert found.options["priority"] == 2
    seconds = {"cron": "", "every": "90", "timezone": "", "catch_up": "one"}
    admin.post(acme, seconds)
    assert stored(made).timing == "every 90 s"


def test_what_never_ticks_is_refused_in_words(made, acme):
    admin = client("view_schedule", "change_schedule")
    whole = {"cron": "", "every": "", "timezone": "", "catch_up": "one"}
    for wrong, words in (
        ({"cron": "every day"}, "every day"),
        ({"cron": "0 9 * * *", "timezone": "Mars/Base"}, "Mars/Base"),
        ({"every": "0.5"}, "0.5"),
        ({}, "neither cron nor every"),
        ({"cron": "0 9 * * *", "catch_up": "some"}, "not one of the available choices"),
    ):
        assert words in text(admin.post(acme, whole | wrong))
    assert stored(made).timing == "0 9 * * * Europe/Berlin"


def test_one_is_added(made):
    admin = client(*EVERY_RIGHT)
    assert ADD in text(admin.get(LIST))
    form = {
        "name": "often",
        "task": ours.add.module_path,
        "args": "[7]",
        "kwargs": '{"other": 2}',
        "cron": "",
        "every": "600",
        "timezone": "",
        "catch_up": "all",
    }
    ours.add.call(7)  # a task that the process knows
    assert ours.add.module_path in text(admin.get(ADD))
    for wrong, words in (
        ({"args": "[1, 2, 3]"}, "add"),
        ({"args": "7"}, "not a list"),
        ({"kwargs": "[]"}, "not an object"),
        ({"task": "no.such.task"}, "not one of the available choices"),
        ({"name": "x" * 120}, "use at most"),
        ({"every": ""}, "neither cron nor every"),
    ):
        assert words in text(admin.post(ADD, form | wrong))
    assert made.app.schedules.list() == []
    assert len(admin.post(ADD, form | {"preview": "1"}).context_data["ticks"]) == 5
    assert made.app.schedules.list() == []
    assert "Schedule often was added." in text(admin.post(ADD, form, follow=True))
    found = stored(made, "often")
    assert (found.args, found.kwargs, found.every, found.catch_up) == (
        [7],
        {"other": 2},
        600,
        "all",
    )
    assert "is there already" in text(admin.post(ADD, form))


def test_one_is_removed_when_that_is_confirmed(made, acme):
    admin = client(*EVERY_RIGHT)
    remove = f"{LIST}acme/delete/"
    assert remove in text(admin.get(acme))
    assert "Yes, remove it" in text(admin.get(remove))
    assert stored(made) is not None
    assert "Schedule acme was removed" in text(admin.post(remove, follow=True))
    assert stored(made) is None
    assert "There is no schedule acme" in text(admin.get(acme, follow=True))
    assert "There is no schedule acme" in text(admin.post(remove, follow=True))


def test_a_declared_one_is_paused_and_not_edited(made, nightly):
    job = ours.add.enqueue(1)
    work_off(made.app, job.id)
    page = f"{LIST}{nightly.module_path.replace('_', '_5F')}/change/"
    admin = client(*EVERY_RIGHT)
    shown = text(admin.get(page))
    assert "its task; change it there" in shown
    assert "schedule_form" not in shown
    timing = {"cron": "* * * * *", "every": "", "timezone": "", "catch_up": "one"}
    assert admin.post(page, timing).status_code == 403
    admin.post(page, {"action": "pause"})
    assert stored(made, nightly.module_path).state == "paused"


@pytest.mark.parametrize(
    ("rights", "refused"),
    [
        ((), ["look", "act", "edit", "add", "remove"]),
        (("view_schedule",), ["act", "edit", "add", "remove"]),
        (("view_schedule", "change_schedule"), ["add", "remove"]),
        (EVERY_RIGHT, []),
    ],
)
def test_each_thing_needs_its_permission(made, acme, rights, refused):
    admin = client(*rights)
    edit = {"cron": "0 8 * * *", "every": "", "timezone": "", "catch_up": "one"}
    answers = {
        "look": [admin.get(LIST), admin.get(acme)],
        "act": [admin.post(acme, {"action": "pause"}), admin.post(LIST, {"action": "run"})],
        "edit": [admin.post(acme, edit)],
        "add": [admin.get(ADD), admin.post(ADD, {})],
        "remove": [admin.get(f"{LIST}acme/delete/"), admin.post(f"{LIST}acme/delete/")],
    }
    for what, each in answers.items():
        codes = {answer.status_code for answer in each}
        assert (codes == {403}) == (what in refused), (what, codes)
    assert Client().get(LIST).status_code == 302


def test_secrets_and_odd_names_do_no_harm(made):
    call = ours.add.call("x", other='{"password": "hunter2"}')
    made.app.schedules.put("<b>a/b_c ü", call, every=60)
    admin = client(*EVERY_RIGHT)
    [row] = admin.get(LIST).context_data["schedules"]
    page = text(admin.get(LIST + row["path"]))
    assert "hunter2" not in page
    assert "<b>a/b_c" not in page
    assert "was run" in text(admin.post(LIST + row["path"], {"action": "run"}, follow=True))
    removed = admin.post(LIST + row["path"].replace("/change/", "/delete/"), follow=True)
    assert "was removed" in text(removed)


def test_a_store_that_is_away_is_said_in_words(backend, project):
    backend(url="postgresql://127.0.0.1:1/nothing")
    admin = client(*EVERY_RIGHT)
    assert "There are no schedules" in text(admin.get(LIST))
    assert "error" in text(admin.get(f"{LIST}acme/change/", follow=True))


def test_the_backend_of_another_app_is_looked_at_by_its_alias(made, acme):
    admin = client("view_schedule")
    assert admin.get(LIST, {"backend": "default"}).context_data["schedules"]
    assert admin.get(LIST, {"backend": "none"}).status_code == 404


def test_djangos_tasks_have_their_backend(made):
    assert tasks.task_backends["default"] is made
    assert json.loads(ours.add.call(1).job.body)["args"] == [1]
