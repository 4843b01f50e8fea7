"""The dashboard under a URL of Django's, behind its login, by WSGI and by ASGI."""

import gc
import json

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import Permission, User
from django.db import connections
from django.http import Http404
from django.test import AsyncClient, Client, RequestFactory

from mulligan.contrib.django import views
from tests.django import tasks as ours

HERE = "/staff/jobs/"


@pytest.fixture
def made(backend, project):
    yield backend(database="default")
    while views.bridges:
        views.bridges.popitem()[1].close()


def somebody(*permissions: str, staff: bool = True) -> User:
    user = User.objects.create_user("somebody", is_staff=staff)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return user


def client(*permissions: str, staff: bool = True) -> Client:
    signed_in = Client()
    signed_in.force_login(somebody(*permissions, staff=staff))
    return signed_in


def post(browser, path, body, **headers):
    given = {"sec-fetch-site": "same-origin", **headers}
    return browser.post(HERE + path, body, content_type="application/json", headers=given)


def test_it_is_served_below_its_url(made):
    job = ours.add.enqueue(1)
    browser = client("view_job")
    page = browser.get(HERE)
    assert page.status_code == 200
    assert "default-src 'none'" in page["Content-Security-Policy"]
    assert browser.get(f"{HERE}dashboard/main.js")["Content-Type"].startswith("text/javascript")
    assert [each["id"] for each in browser.get(f"{HERE}api/jobs").json()["jobs"]] == [job.id]
    assert browser.get(f"{HERE}api/jobs/{job.id}").json()["task"] == ours.add.module_path
    assert browser.get("/staff/jobs").status_code in (301, 404)  # as Django has it


def test_nobody_is_let_in_who_has_not_signed_in(made):
    page = Client().get(HERE)
    assert (page.status_code, page["Location"]) == (302, f"/admin/login/?next={HERE}")
    asked = Client().get(f"{HERE}api/jobs")
    assert (asked.status_code, asked.json()["title"]) == (401, "You are not signed in")


@pytest.mark.parametrize(("permissions", "staff"), [([], True), (["view_job"], False)])
def test_nobody_is_let_in_without_the_permission(made, permissions, staff):
    browser = client(*permissions, staff=staff)
    assert browser.get(HERE).status_code == 403
    assert browser.get(f"{HERE}api/jobs").status_code == 403


def test_who_may_change_jobs_cancels_and_enqueues(made):
    job = ours.add.enqueue(1)
    browser = client("view_job", "change_job")
    assert post(browser, "api/jobs/cancel", {"ids": [job.id]}).status_code == 200
    assert made.app.job(job.id).status == "cancelled"
    asked = {"task": ours.add.module_path, "args": [2]}
    answer = post(browser, "api/jobs", asked).json()
    assert ours.add.get_result(answer["id"]).args == [2]


def test_who_may_only_look_changes_nothing(made):
    job = ours.add.enqueue(1)
    refused = post(client("view_job"), "api/jobs/cancel", {"ids": [job.id]})
    assert refused.status_code == 403
    assert "somebody is allowed to read" in refused.json()["detail"]
    assert made.app.job(job.id).status == "pending"


def test_pages_of_other_sites_change_nothing(made):
    job = ours.add.enqueue(1)
    browser = client("view_job", "change_job")
    for headers in (
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "none", "origin": "http://x"},
    ):
        refused = post(browser, "api/jobs/cancel", {"ids": [job.id]}, **headers)
        assert (refused.status_code, refused.json()["type"]) == (403, f"{HERE}api/docs#cross-site")
    plain = browser.post(f"{HERE}api/jobs/cancel", {"ids": job.id})
    assert plain.status_code == 415
    assert made.app.job(job.id).status == "pending"


def test_events_are_not_streamed_and_nobody_is_mailed_about_it(made, caplog):
    answer = client("view_job").get(f"{HERE}api/events")
    assert answer.status_code == 503
    assert "no events are streamed here" in answer.json()["detail"]
    assert [each for each in caplog.records if each.name == "django.request"] == []


def test_names_of_other_alphabets_arrive_by_wsgi(made):
    ours.add.using(id="ключ/1").enqueue(1)
    found = client("view_job").get(f"{HERE}api/jobs", {"task": ours.add.module_path}).json()
    assert [each["id"] for each in found["jobs"]] == ["ключ/1"]


def test_a_backend_that_is_not_ours_is_not_found(made):
    with pytest.raises(Http404, match="no backend 'other'"):
        views.dashboard(RequestFactory().get(HERE), backend="other")


def test_it_is_served_by_asgi_too(made):
    job = ours.add.using(id="one").enqueue(1)
    browser = AsyncClient()
    browser.force_login(somebody("view_job", "change_job"))

    async def drive() -> None:
        answer = await browser.get(f"{HERE}api/jobs/one")
        assert json.loads(answer.content)["id"] == job.id
        cancelled = await browser.post(
            f"{HERE}api/jobs/cancel",
            {"ids": [job.id]},
            content_type="application/json",
            headers={"sec-fetch-site": "same-origin"},
        )
        assert cancelled.status_code == 200
        await sync_to_async(connections.close_all)()

    async_to_sync(drive)()
    gc.collect()  # a connection that is left open is noticed here
    assert made.app.job(job.id).status == "cancelled"
