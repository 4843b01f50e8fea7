"""Jobs in Django's admin, with Django's permissions."""

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from tests.django import tasks as ours
from tests.django.conftest import work_off

LIST = "/admin/mulligan/job/"


@pytest.fixture
def made(backend, project):
    return backend(database="default", retry="P")


def client(*permissions: str, staff: bool = True) -> Client:
    """A browser in which somebody with these permissions has signed in."""
    user = User.objects.create_user("somebody", is_staff=staff)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    assert user.user_permissions.count() == len(permissions)
    signed_in = Client()
    signed_in.force_login(user)
    return signed_in


@pytest.fixture
def failed(made):
    result = ours.fail.enqueue("<b>no luck</b>")
    work_off(made.app, result.id)
    return result.id


def text(response) -> str:
    assert response.status_code == 200, response
    return str(response.content.decode())


def test_the_list_shows_jobs_and_filters_them(made, failed):
    waiting = ours.mail.enqueue()
    admin = client("view_job")
    assert LIST in text(admin.get("/admin/"))
    whole = text(admin.get(LIST))
    assert failed in whole
    assert waiting.id in whole
    assert "ValueError: &lt;b&gt;no luck" in whole
    assert waiting.id not in text(admin.get(LIST, {"status": "failed"}))
    assert failed not in text(admin.get(LIST, {"queue": "mail"}))
    assert failed not in text(admin.get(LIST, {"task": ours.mail.module_path}))
    assert failed in text(admin.get(LIST, {"q": "no luck"}))
    assert failed not in text(admin.get(LIST, {"q": "other words"}))


def test_the_list_has_pages(made):
    ids = {ours.add.enqueue(number).id for number in range(120)}
    admin = client("view_job")
    link, seen = LIST, []
    while link:
        response = admin.get(link)
        seen += [job["id"] for job in response.context_data["jobs"]]
        assert len(response.context_data["jobs"]) <= 50
        link = response.context_data["later"] and LIST + response.context_data["later"]
    assert len(seen) == 120
    assert set(seen) == ids


def test_a_failed_job_shows_its_tracebacks_and_is_replayed(made, failed):
    admin = client("view_job", "change_job")
    page = text(admin.get(f"{LIST}{failed}/change/"))
    assert page.count("Traceback (most recent call last)") == 3
    assert "raise ValueError(message)" in page
    assert "&lt;b&gt;no luck" in page
    assert "<b>no luck" not in page
    answer = admin.post(f"{LIST}{failed}/change/", {"action": "replay"}, follow=True)
    assert "1 job was replayed." in text(answer)
    assert made.app.job(failed).status == "pending"
    assert failed in text(admin.get("/admin/"))  # among the recent actions


def test_jobs_are_cancelled_together_and_their_reason_names_who_did(made, failed):
    jobs = [ours.add.enqueue(number).id for number in range(3)]
    admin = client("view_job", "change_job")
    chosen = {"action": "cancel", "job": [*jobs[:2], failed]}
    assert "2 jobs were cancelled." in text(admin.post(LIST, chosen, follow=True))
    assert [made.app.job(job).status for job in jobs] == ["cancelled", "cancelled", "pending"]
    assert made.app.job(jobs[0]).info().cancel_reason == "cancelled by somebody"
    assert "Cancelled" in text(admin.get(f"{LIST}{jobs[0]}/change/"))


def test_who_may_only_look_can_change_nothing(made, failed):
    admin = client("view_job")
    assert "Replay" not in text(admin.get(f"{LIST}{failed}/change/"))
    assert "action" not in text(admin.get(LIST)).partition('id="changelist-form"')[2]
    for path in (LIST, f"{LIST}{failed}/change/"):
        assert admin.post(path, {"action": "replay", "job": failed}).status_code == 403
    assert made.app.job(failed).status == "failed"


def test_who_may_not_look_sees_nothing(made, failed):
    admin = client()
    assert LIST not in text(admin.get("/admin/"))
    assert admin.get(LIST).status_code == 403
    assert admin.get(f"{LIST}{failed}/change/").status_code == 403
    assert Client().get(LIST).status_code == 302


def test_what_is_not_there_is_said_in_words(made, failed):
    admin = client("view_job", "change_job")
    assert "There is no job nothing" in text(admin.get(f"{LIST}nothing/change/", follow=True))
    assert "No action was chosen" in text(admin.post(LIST, {"job": failed}, follow=True))
    assert "not where a page ended" in text(admin.get(LIST, {"after": "x"}))
    assert admin.get(LIST, {"backend": "other"}).status_code == 404


def test_a_store_that_is_away_is_said_in_words(backend, project):
    backend(url="postgresql://127.0.0.1:1/nothing")
    assert "No job is like this" in text(client("view_job").get(LIST))


def test_secrets_are_hidden_by_the_names_of_parameters(made):
    job = ours.login.enqueue("ann", "hunter2")
    page = text(client("view_job").get(f"{LIST}{job.id}/change/"))
    assert "ann" in page
    assert "hunter2" not in page


def test_secrets_in_arguments_are_hidden(made):
    job = ours.fail.enqueue('{"password": "hunter2"}')
    assert "hunter2" not in text(client("view_job").get(f"{LIST}{job.id}/change/"))


def test_a_job_whose_id_has_odd_characters_has_a_page(made):
    job = ours.add.using(id="a/b?c d_ü").enqueue(1)
    admin = client("view_job")
    [row] = admin.get(LIST).context_data["jobs"]
    assert "a/b?c d_ü" in text(admin.get(LIST + row["path"]))
    assert job.id == "a/b?c d_ü"
