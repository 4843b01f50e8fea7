"""What the environment says: to `Mulligan()`, and to each option of `mulligan worker`."""

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
import yaml  # type: ignore[import-untyped]

from mulligan import Mulligan
from mulligan.cli import worker as module
from mulligan.cli.worker import worker
from tests.cli.command_line import do, good, process

ROOT = Path(__file__).parents[2]
OPTIONS = [option for option in worker.params if isinstance(option, click.Option)]
APP = """
from mulligan import Mulligan

app = Mulligan()


@app.task
def ask(question: str) -> str:
    return question.upper()
"""


def test_an_app_without_a_url_uses_the_store_of_the_environment(monkeypatch):
    monkeypatch.delenv("MULLIGAN_STORE", raising=False)
    assert Mulligan().url == "sqlite:///mulligan.db"
    monkeypatch.setenv("MULLIGAN_STORE", "redis://elsewhere/3")
    assert Mulligan().url == "redis://elsewhere/3"
    assert Mulligan("sqlite:///mine.db").url == "sqlite:///mine.db"


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_of_a_worker_has_its_variable_in_help_and_docs(option):
    variable = f"MULLIGAN_{option.name.upper()}"
    assert option.envvar == variable
    assert variable in good("worker", "--help", COLUMNS="400").replace("\n", "")
    assert f"`{variable}`" in (ROOT / "docs/reference/cli.md").read_text()


def test_a_worker_obeys_its_variables_and_the_command_line_goes_first(monkeypatch):
    started: list[Any] = []
    monkeypatch.setattr(module, "run_and_exit", started.append)
    monkeypatch.setenv("MULLIGAN_REGION", "EU")
    monkeypatch.setenv("MULLIGAN_QUEUES", "mail,post")
    monkeypatch.setenv("MULLIGAN_CONCURRENCY", "7")
    named = {"MULLIGAN_APP": "tests.cli.apps:app"}
    good("worker", **named)
    good("worker", "--region", "US", "--queue", "mail", **named)
    first, second = (shift._me for shift in started)
    assert (first.region, first.queues, first.concurrency) == ("EU", ("mail", "post"), 7)
    assert (second.region, second.queues, second.concurrency) == ("US", ("mail",), 7)


def broken_app(folder: Path) -> dict[str, str]:
    """Variables that name an app whose module raises, and a store beside it."""
    (folder / "broken_jobs.py").write_text("import os\n\nURL = os.environ['NO_SUCH_VARIABLE']\n")
    url = f"sqlite:///{folder}/jobs.db"
    do(url, lambda store: store.facts())
    path = {"PYTHONPATH": str(folder), "MULLIGAN_APP": "broken_jobs:app"}
    return path | {"MULLIGAN_STORE": url}


def test_an_import_error_shows_the_line_of_the_user(tmp_path):
    with process("worker", **broken_app(tmp_path)) as started:
        said = started.communicate()[0]
    assert f"KeyError: 'NO_SUCH_VARIABLE' (at {tmp_path}/broken_jobs.py:3)" in said


def test_commands_that_look_need_no_app(tmp_path):
    variables = broken_app(tmp_path)
    for arguments in (["status"], ["jobs"], ["dead", "list"], ["doctor"]):
        with process(*arguments, **variables) as started:
            said = started.communicate()[0]
        assert "; reading the store of MULLIGAN_STORE" in said, arguments
        assert "error:" not in said
    with process("pause", "default", **variables) as started:
        said = started.communicate()[0]
    assert "error: app 'broken_jobs:app' cannot be imported" in said


def commands() -> dict[str, list[str]]:
    """The options that the guide and the Kubernetes example give to a worker."""
    guide = (ROOT / "docs/reference/guide.md").read_text()
    match = re.search(r"^    mulligan worker myapp:app (.+)$", guide, re.MULTILINE)
    assert match is not None
    documents = yaml.safe_load_all((ROOT / "deploy/kubernetes/workers.yaml").read_text())
    [container] = next(iter(documents))["spec"]["template"]["spec"]["containers"]
    return {"guide": shlex.split(match[1]), "kubernetes": container["args"][2:]}


@pytest.mark.parametrize("where", ["guide", "kubernetes"])
def test_the_worker_of_the_guide_and_of_kubernetes_runs_a_job_that_names_no_region(where, tmp_path):
    (tmp_path / "myapp.py").write_text(APP)
    url = f"sqlite:///{tmp_path}/jobs.db"
    environment = {"PYTHONPATH": str(tmp_path), "MULLIGAN_STORE": url}
    with process("enqueue", "myapp:app", "ask", "why?", **environment) as sender:
        job = str(sender.communicate()[0]).strip()
    options = [*commands()[where], "--idle-exit", "0.2"]
    with process("worker", "myapp:app", *options, **environment) as started:
        said = started.communicate()[0]
    found = do(url, lambda store: store.get(job))
    assert (found.status, found.region) == ("done", "*"), said
