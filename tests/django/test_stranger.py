"""Somebody who knows docs/howto/django.md alone: its code as it stands there, in a new project."""

import re
import sys
from pathlib import Path

import django
import httpx

from tests.web.started import ADDRESS, LONGEST_WAIT, started

PAGE = (Path(__file__).parents[2] / "docs/howto/django.md").read_text("utf-8")
BLOCKS = re.findall(r"```py\n# (\S+)\n(.*?)```", PAGE, re.DOTALL)
IS_5 = django.VERSION < (6,)


def as_the_page_says(code: str) -> str:
    """With Django 5.2 two lines are others, which the page gives too."""
    if not IS_5:
        return code
    told = code.replace('.django"]', '.django", "django_tasks"]')
    return told.replace("from django.tasks import", "from django_tasks import")


def test_what_the_page_says_works(tmp_path):
    python = str(Path(sys.executable).name)
    manage = (python, "manage.py")

    def run(*command: str) -> None:
        with started(command, tmp_path) as done:
            said, _ = done.process.communicate(timeout=LONGEST_WAIT)
            assert done.process.returncode == 0, said

    run("django-admin", "startproject", "mysite", ".")
    run(*manage, "startapp", "polls")
    for name, code in BLOCKS:
        file = tmp_path / name
        before = file.read_text() if "settings" in name else ""
        file.write_text(before + as_the_page_says(code))
    assert {name for name, _ in BLOCKS} >= {"mysite/settings.py", "polls/tasks.py"}
    for command in ("migrate", "runserver", "mulligan worker"):
        assert f"    python manage.py {command}\n" in PAGE
    run(*manage, "migrate")
    with (
        started((*manage, "runserver", "--noreload", "0"), tmp_path) as web,
        started((*manage, "mulligan", "worker"), tmp_path) as worker,
    ):
        worker.says(re.compile("ready"))
        web.says(re.compile("Quit the server"))
        address = ADDRESS.search(web.said)
        assert address is not None
        with httpx.Client(base_url=address[0], timeout=LONGEST_WAIT) as client:
            result = client.get("/join/ada").json()["result"]
            while (seen := client.get(f"/joined/{result}").json())["status"] != "SUCCESSFUL":
                assert seen["status"] in ("READY", "RUNNING")
            assert seen == {"status": "SUCCESSFUL", "attempts": 1, "value": "Welcome, ada!"}
            assert client.get("/jobs/").status_code == 302
            assert client.get("/admin/mulligan/job/").status_code == 302
            assert client.get("/admin/mulligan/schedule/").status_code == 302
        put = "from polls.schedules import greet_daily; greet_daily(1)"
        run(*manage, "shell", "-c", put)
        with started((*manage, "mulligan", "schedules", "list"), tmp_path) as listed:
            said, _ = listed.process.communicate(timeout=LONGEST_WAIT)
        assert "polls.tasks.count_users" in said
        assert "greet-1" in said
