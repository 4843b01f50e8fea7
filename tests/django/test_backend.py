"""Django's tasks as jobs: every part of the backend's interface, on every store."""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction

from mulligan import InvalidError, JobCancelledError, Retry
from mulligan.contrib.django.compat import InvalidTask, base, exceptions, signals, tasks
from mulligan.contrib.django.registry import discover
from mulligan.core.fetch import parse_policy
from tests.app.test_errors_page import is_on_the_page
from tests.django import elsewhere
from tests.django import tasks as ours
from tests.django.conftest import stored_in, work_off

Status = base.TaskResultStatus


@pytest.mark.parametrize("task", [ours.add, ours.aadd], ids=["plain", "coroutine"])
def test_a_task_runs_and_its_result_tells_all(backend, store_url, task):
    made = backend(url=store_url)
    before = datetime.now(UTC)
    result = task.enqueue(2, other=3)
    assert (result.status, result.is_finished, result.attempts) == (Status.READY, False, 0)
    with pytest.raises(ValueError, match="not finished"):
        _ = result.return_value
    work_off(made.app, result.id)
    result.refresh()
    assert (result.status, result.return_value, result.attempts) == (Status.SUCCESSFUL, 5, 1)
    assert (result.args, result.kwargs, result.backend) == ([2], {"other": 3}, "default")
    assert result.enqueued_at <= result.started_at == result.last_attempted_at
    assert result.started_at <= result.finished_at
    assert result.finished_at - before < timedelta(minutes=5)
    read = task.get_result(result.id)
    assert (read, read.task) == (result, task)


def test_a_failure_keeps_every_traceback(backend, store_url):
    made = backend(url=store_url)
    result = ours.fail.enqueue("no luck")
    work_off(made.app, result.id)
    result.refresh()
    assert (result.status, result.attempts, len(result.worker_ids)) == (Status.FAILED, 3, 3)
    assert [error.exception_class for error in result.errors] == [ValueError] * 3
    assert result.errors[0].traceback.startswith("Traceback (most recent call last):\n")
    assert "contrib" not in result.errors[0].traceback
    assert result.errors[0].traceback.endswith("ValueError: no luck\n")
    assert result.started_at < result.last_attempted_at < result.finished_at
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value


async def test_coroutines_have_the_same_calls(backend, store_url):
    backend(url=store_url)
    result = await ours.aadd.aenqueue(1)
    read = await ours.aadd.aget_result(result.id)
    await result.arefresh()
    assert (read, result.status) == (result, Status.READY)
    with pytest.raises(exceptions.TaskResultDoesNotExist):
        await ours.aadd.aget_result("nothing")


def test_a_task_that_takes_its_context_knows_its_attempt_and_id(backend, store_url):
    made = backend(url=store_url)
    result = ours.flaky.enqueue(1)
    work_off(made.app, result.id)
    result.refresh()
    assert result.return_value == [result.id, 2, "RUNNING", 1]
    assert result.attempts == 2


def test_a_job_runs_after_its_time(backend):
    made = backend(url="memory://")
    moment = datetime.now(UTC) + timedelta(hours=1)
    with made.app.testing() as t:
        result = ours.add.using(run_after=moment).enqueue(1)
        t.advance(3500)
        result.refresh()
        assert result.status == Status.READY
        t.drain()
        result.refresh()
        assert result.status == Status.SUCCESSFUL


def test_what_waits_for_its_time_says_until_when(backend, store_url):
    backend(url=store_url)
    moment = datetime.now(UTC) + timedelta(hours=1)
    found = ours.add.get_result(ours.add.using(run_after=moment).enqueue(1).id)
    assert abs(found.task.run_after - moment) < timedelta(minutes=5)
    assert ours.add.get_result(ours.add.enqueue(1).id).task.run_after is None


def test_priority_queue_and_our_own_options_reach_the_job(backend):
    made = backend(url="memory://")
    jobs = {
        "declared": ours.mail,
        "normal": ours.add.using(priority=-5, queue_name="mail"),
        "chosen": ours.add.using(id="mine", timeout=3, retry="P", region="eu"),
    }
    found = {
        name: made.app.job(task.enqueue(*[1] * (task.func is not ours.mail.func)).id).info()
        for name, task in jobs.items()
    }
    assert [(job.queue, job.priority) for job in found.values()] == [
        ("mail", 2),
        ("mail", 0),
        ("default", 0),
    ]
    assert (found["declared"].unique_key, found["declared"].keep) == ("only", 7200)
    assert ours.mail.enqueue().id == found["declared"].id  # it is there already
    assert (found["chosen"].id, found["chosen"].region) == ("mine", "eu")
    assert b'"timeout":3' in found["chosen"].body
    assert made.get_result(found["normal"].id).task.priority == 0
    assert made.get_result(found["declared"].id).task == ours.mail


def test_options_of_the_backend_are_those_of_tasks_that_say_nothing(backend):
    made = backend(url="memory://", retry=Retry(7), timeout=9, keep=86_400)
    assert b'"max_retries":7' in made.app.job(ours.add.enqueue(1).id).info().body
    assert b'"max_retries":2' in made.app.job(ours.fail.enqueue("").id).info().body
    assert made.app.job(ours.add.enqueue(1).id).info().keep == 86_400


def test_queues_have_the_policies_of_the_settings(backend):
    made = backend(["default", "mail"], url="memory://", queues={"mail": {"policy": "capped(4)"}})
    assert made.app.queue_names == ("default", "mail")
    assert made.app.queues["mail"].policy == parse_policy("capped(4)")
    with pytest.raises(InvalidTask, match="Queue 'other' is not valid"):
        ours.add.using(queue_name="other")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"retry": 3}, "must be a Retry; for three retries use Retry"),
        ({"timeout": -1}, "timeout"),
        ({"unique_key": "a\nb"}, "control character"),
    ],
)
def test_a_wrong_option_is_refused_where_it_is_said(backend, changes, words):
    made = backend(url="memory://")
    with pytest.raises(InvalidTask, match=words):
        ours.task(**changes)(ours.add.func).enqueue(1)
    with pytest.raises(InvalidTask, match=words):
        ours.add.using(**changes).enqueue(1)
    assert stored_in(made.app) == []


@pytest.mark.parametrize(
    ("option", "words"),
    [("pool", "an option of the task, @task"), ("colour", "option 'colour' is not one of")],
)
def test_a_call_has_only_the_options_of_a_call(backend, option, words):
    backend(url="memory://")
    with pytest.raises(InvalidTask, match=words):
        ours.add.using(**{option: "process"})


@pytest.mark.parametrize(
    ("args", "error", "words"),
    [
        ([datetime(2026, 1, 1, tzinfo=UTC)], TypeError, "Unsupported type"),
        ([1, 2, 3], ValueError, "too many positional"),
        ([], ValueError, "missing a required argument: 'one'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_and_nothing_is_stored(backend, args, error, words):
    made = backend(url="memory://")
    with pytest.raises(error, match=words):
        ours.add.enqueue(*args)
    assert stored_in(made.app) == []


def test_results_of_others_are_not_found(backend):
    made = backend(url="memory://")

    @made.app.task
    def foreign() -> None:
        pass

    with pytest.raises(exceptions.TaskResultDoesNotExist):
        made.get_result(foreign.enqueue().id)
    with pytest.raises(exceptions.TaskResultMismatch):
        ours.add.get_result(ours.mail.enqueue().id)


def test_a_cancelled_job_has_failed_and_says_why(backend):
    made = backend(url="memory://")
    result = ours.add.enqueue(1)
    made.app.job(result.id).cancel("not wanted")
    result.refresh()
    assert (result.status, result.attempts) == (Status.FAILED, 0)
    assert result.errors[-1].exception_class is JobCancelledError
    assert result.errors[-1].traceback == "not wanted\n"


def test_a_result_that_is_not_json_fails_the_job(backend):
    made = backend(url="memory://", retry=Retry(0))
    with made.app.testing() as t:
        result = ours.not_json.enqueue()
        t.drain()
        result.refresh()
    assert result.status == Status.FAILED
    assert result.errors[0].exception_class is TypeError


def test_signals_are_sent_and_djangos_log_has_the_exception(backend, store_url, caplog):
    made = backend(url=store_url)
    seen = []

    def note(sender, task_result, signal, **_):
        seen.append((sender, signal, task_result.id, task_result.status))

    caplog.set_level("DEBUG", "django.tasks")
    caplog.set_level("DEBUG", "django_tasks")
    told = (signals.task_enqueued, signals.task_started, signals.task_finished)
    for signal in told:
        signal.connect(note)
    try:
        good, bad = ours.add.enqueue(1), ours.fail.enqueue("no luck")
        work_off(made.app, good.id, bad.id)
    finally:
        for signal in told:
            signal.disconnect(note)
    enqueued, started, finished = told
    kind = type(made)
    assert [each for each in seen if each[2] == good.id] == [
        (kind, enqueued, good.id, Status.READY),
        (kind, started, good.id, Status.RUNNING),
        (kind, finished, good.id, Status.SUCCESSFUL),
    ]
    assert [status for _, _, job, status in seen if job == bad.id] == [
        Status.READY,
        *[Status.RUNNING] * 3,
        Status.FAILED,
    ]
    [error] = [each for each in caplog.records if f"id={bad.id}" in each.message and each.exc_info]
    assert "ValueError: no luck" in str(error.exc_text or error.exc_info)


@pytest.mark.parametrize("task", [ours.users, ours.ausers], ids=["plain", "coroutine"])
def test_tasks_use_the_database(backend, database, task):
    made = backend(database="default")
    result = task.enqueue()
    work_off(made.app, result.id)
    assert task.get_result(result.id).return_value == 0


def test_tasks_use_the_database_in_virtual_time_too(backend, project):
    made = backend(database="default")
    with made.app.testing() as t, transaction.atomic():
        User.objects.create(username="not committed")
        result = ours.users.enqueue()
        t.drain()
        assert ours.users.get_result(result.id).return_value == 1


def test_tasks_enqueue_others_in_virtual_time_too(backend, project):
    made = backend(database="default")
    with made.app.testing() as t:
        result = ours.nested.enqueue()
        t.drain()
        inner = ours.nested.get_result(result.id).return_value
        assert ours.add.get_result(inner).return_value == 6


def test_jobs_in_djangos_database_are_where_it_is(backend, database):
    made = backend(database="default")
    assert made.app.url.startswith(database.partition(":")[0])
    assert made.get_result(ours.add.enqueue(1).id).status == Status.READY


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"uri": "x"}, r"TASKS\['default'\]: option 'uri' is not one of url, database"),
        ({"url": "memory://", "settings": {"lease": 1}}, "lease 1s must be longer than beat"),
        ({"url": "memory://", "queues": {"mail": {"policy": "best"}}}, "best"),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_words(backend, options, words):
    with pytest.raises(ImproperlyConfigured, match=words):
        backend(**options)


def test_manage_check_names_a_store_that_there_is_not(backend):
    made = backend(url="mysql://localhost/jobs")
    [error] = made.check()
    assert error.id == "mulligan.E001"
    assert "mysql" in error.msg


def test_each_backend_has_an_app_of_its_own(backend):
    made = backend(url="memory://")
    assert made.app is tasks.task_backends["default"].app
    first = made.app
    assert backend(url="memory://?other").app is not first


def test_a_task_that_no_worker_will_know_is_warned_of_once(backend, caplog):
    backend(url="memory://", modules=["tests.django.tasks"])
    ours.add.enqueue(1)
    assert caplog.messages == []
    elsewhere.lost.enqueue()
    elsewhere.lost.enqueue()
    [said] = caplog.messages
    assert "task tests.django.elsewhere.lost is in module tests.django.elsewhere, which" in said


def test_workers_know_the_tasks_of_the_modules_that_the_settings_name(backend):
    backend(url="memory://", modules=["tests.django.elsewhere"])
    assert "tests.django.elsewhere.lost" in discover("default").tasks


def test_the_page_of_errors_has_those_of_django(backend, caplog):
    with pytest.raises(ImproperlyConfigured) as refused:
        backend(uri="x")
    is_on_the_page(str(refused.value))
    backend(url="memory://")
    elsewhere.lost.enqueue()
    is_on_the_page(caplog.messages[-1])
    with pytest.raises(InvalidError) as unknown:
        discover("none")
    is_on_the_page(str(unknown.value))
