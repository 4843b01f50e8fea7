"""A project of Django's in a folder of its own, whose commands are processes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import django

from mulligan import Mulligan
from tests.django.project import database_settings

SETTINGS = """
SECRET_KEY = "of tests"
USE_TZ = True
ROOT_URLCONF = "urls"
INSTALLED_APPS = {apps!r}
DATABASES = {{"default": {database!r}}}
TASKS = {{
    "default": {{
        "BACKEND": "mulligan.contrib.django.Backend", "QUEUES": [], "OPTIONS": {options!r}
    }},
    "dummy": {{"BACKEND": "{package}.backends.dummy.DummyBackend"}},
}}
"""
PACKAGE = "django.tasks" if django.VERSION >= (6,) else "django_tasks"


class Site:
    """A project with one app, `work`, whose tasks are those of the text."""

    def __init__(self, folder: Path, database: str, tasks: str, /, **options: Any) -> None:
        self.folder = folder
        self.options = options
        (folder / "work").mkdir()
        (folder / "work" / "__init__.py").touch()
        (folder / "urls.py").write_text("urlpatterns = []\n")
        apps = [*(["django_tasks"] if PACKAGE == "django_tasks" else []), "mulligan.contrib.django"]
        kept = database_settings(database) | {"CONN_MAX_AGE": 600}
        values = {"apps": [*apps, "work"], "database": kept}
        text = SETTINGS.format(**values, options=options, package=PACKAGE)
        (folder / "settings.py").write_text(text)
        self.write(tasks)

    def write(self, tasks: str) -> None:
        """Write the tasks of the app."""
        text = f"from {PACKAGE} import task\n{dedent(tasks)}"
        (self.folder / "work" / "tasks.py").write_text(text)

    @property
    def environment(self) -> dict[str, str]:
        """What its commands need."""
        paths = os.pathsep.join([str(self.folder), str(Path.cwd())])
        return {"DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": paths}

    @contextmanager
    def start(self, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
        """A command of mulligan's, as `manage.py mulligan` runs it; killed in the end."""
        with subprocess.Popen(
            [sys.executable, "-m", "django", "mulligan", *arguments],
            cwd=self.folder,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as started:
            try:
                yield started
            finally:
                if started.poll() is None:
                    started.kill()

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of Django's to its end."""
        return subprocess.run(
            [sys.executable, "-m", "django", *arguments],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def python(self, code: str) -> str:
        """What this prints in the project."""
        done = self.run("shell", "-v", "0", "-c", dedent(code))
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


def producer(url: str, *names: str) -> Mulligan:
    """An app that enqueues the tasks of a site without Django."""
    app = Mulligan(url)
    for name in names:

        def task() -> Any:
            raise NotImplementedError

        app.task(name=f"work.tasks.{name}")(task)
    return app
