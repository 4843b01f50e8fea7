"""`mulligan worker` of an app whose lifespan fails, or lacks what a task asks for."""

import pytest

from mulligan import Mulligan
from tests.cli.command_line import run
from tests.hooks import lifespan_apps


@pytest.fixture
def url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return f"sqlite:///{tmp_path}/jobs.db"


def enqueued(url: str, task: str) -> str:
    """A job of the task in that store."""
    producer = Mulligan(url)
    producer.task(name=task)(lambda: None)
    job = producer.tasks[task].enqueue()
    producer.close()
    return job.id


def test_a_lifespan_that_raises_ends_the_worker_with_code_1_and_nothing_claimed(url, monkeypatch):
    monkeypatch.setattr(lifespan_apps.broken, "url", url)
    job = enqueued(url, "ask")
    result = run("worker", "tests.hooks.lifespan_apps:broken")
    assert result.exit_code == 1
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("error: lifespan connects failed at the start, and nothing was claimed")
    assert "ConnectionError: database refused" in last
    info = Mulligan(url).job(job).info()
    assert (info.status, info.started_at) == ("pending", None)


def test_a_task_without_its_resource_is_refused_with_code_2(url, monkeypatch):
    monkeypatch.setattr(lifespan_apps.lacking, "url", url)
    result = run("worker", "tests.hooks.lifespan_apps:lacking")
    assert result.exit_code == 2
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("error: task look: parameter db asks for resource 'db'")
    assert "lifespan" in last


def test_a_worker_says_at_its_start_which_hooks_it_has(url, monkeypatch):
    monkeypatch.setattr(lifespan_apps.broken, "url", url)
    said = run("worker", "tests.hooks.lifespan_apps:broken").stderr
    assert "lifespan     connects" in said
    assert "middleware   around" in said
    assert "events       page on dead" in said
