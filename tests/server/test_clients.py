"""Clients do real work against a real server: the two examples, and those of generators."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which

import httpx
import pytest

from tests.databases import Unavailable
from tests.databases._debian import install
from tests.server.process import LONGEST_WAIT, client_of, server

CLIENTS = Path(__file__).parents[2] / "examples" / "clients"
TOKEN = "t" * 32
RETRY = {"max_retries": 1, "backoff": {"type": "delays", "seconds": [0.05]}}

# What worker.sh runs for each job: the task is its argument, the job its input.
COMMAND = """#!/bin/sh
case $1 in
    shout) tr a-z A-Z | sed 's/.*"ARGS":\\(\\["[^"]*"\\]\\).*/\\1/' ;;
    junk) echo this is not JSON ;;
    wrong) echo 'there is no "such" thing' >&2; exit 65 ;;
    *) echo 'try again \\ later' >&2; exit 1 ;;
esac
"""


@pytest.fixture
def api(tmp_path) -> Iterator[httpx.Client]:
    """A client of a server that has tokens."""
    tokens = tmp_path / "tokens"
    tokens.write_text(f"operate {TOKEN}\nworker {TOKEN}\n")
    tokens.chmod(0o600)
    url = f"sqlite:///{tmp_path}/jobs.db"
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with (
        server("--store", url, "--token-file", str(tokens)) as (address, _),
        client_of(address, headers=headers) as client,
    ):
        yield client


@contextmanager
def worker(*command: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A client as a process; told to stop in the end, which it does cleanly."""
    with subprocess.Popen(command, env=os.environ | {"MULLIGAN_TOKEN": TOKEN}) as it:
        try:
            yield it
            it.send_signal(signal.SIGTERM)
            assert it.wait(LONGEST_WAIT) == 0
        finally:
            if it.poll() is None:
                it.kill()


def ended(api: httpx.Client, *ids: str) -> dict[str, dict[str, object]]:
    """Wait until the jobs have ended."""
    deadline = time.monotonic() + 60
    while True:
        found = {each: api.get(f"/api/jobs/{each}").raise_for_status().json() for each in ids}
        if all(job["status"] in ("done", "failed") for job in found.values()):
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def enqueue(api: httpx.Client, **tasks: tuple[str, list[object]]) -> None:
    jobs = [
        {"id": name, "task": task, "args": args, "queue": "work", "retry": RETRY}
        for name, (task, args) in tasks.items()
    ]
    api.post("/api/jobs", json=jobs).raise_for_status()


def gone(api: httpx.Client) -> bool:
    """Whether every worker has left."""
    workers = api.get("/api/workers").json()["workers"]
    return not [each for each in workers if each["queues"]]


# Generators of clients, which read the API's description.
PYTHON_GENERATOR = ("openapi-python-client==0.29.1", "ruff")
NODE_GENERATOR = ("openapi-typescript@7.13.0", "typescript@5.9.3")
# What a program does with the generated client of Python.
PROGRAM = """
import sys
from made import AuthenticatedClient
from made.api.operate import enqueue
from made.api.read import get_job, list_jobs, overview, queues
from made.models import Enqueue, Exponential, Limits, Retry

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
limits = Limits()
limits["provider"] = 2
retry = Retry(max_retries=2, backoff=Exponential(type_="exponential", base=1.0))
asked = Enqueue("shout", args=["hello"], queue="work", retry=retry, limits=limits)
made = enqueue.sync(client=client, body=asked)
job = get_job.sync(made.id, client=client)
assert (job.status.value, job.body["args"]) == ("pending", ["hello"]), job
assert [each.id for each in list_jobs.sync(client=client).jobs] == [made.id]
assert queues.sync(client=client).queues["work"].fresh == 1
assert overview.sync(client=client).queues["work"].fresh == 1
refused = get_job.sync("nobody", client=client)
assert (refused.status, "nobody" in refused.detail) == (404, True), refused
"""
# What a program says with the types of openapi-typescript; tsc must find the last line wrong.
TYPED = """
import type { components, operations } from "./made";
type Job = components["schemas"]["JobView"];
export const status: Job["status"] = "pending";
type Asked = components["schemas"]["Enqueue"];
export const asked: Asked = { task: "shout", args: ["hello"], priority: 2 };
type Query = operations["list_jobs"]["parameters"]["query"];
export const query: Query = { limit: 10, status: "failed" };
// @ts-expect-error no job has this status
export const wrong: Job["status"] = "asleep";
"""


def run(*command: str, cwd: Path, **more: str) -> "subprocess.CompletedProcess[str]":
    """The command, as it ended."""
    return subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | more,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def installed(*command: str, cwd: Path) -> None:
    """Install a generator; skips by name where that is not possible."""
    if which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = run(*command, cwd=cwd)
    if done.returncode:
        pytest.skip(f"{command[-2]} cannot be installed: {done.stderr[-300:]}")


@pytest.fixture
def description(api, tmp_path) -> Path:
    """The description of the API, as a file."""
    file: Path = tmp_path / "openapi.json"
    file.write_bytes(api.get("/api/openapi.json").raise_for_status().content)
    return file


def test_a_generator_makes_a_client_in_python_that_works(api, description, tmp_path):
    run(sys.executable, "-m", "venv", "tools", cwd=tmp_path)
    python = str(tmp_path / "tools/bin/python")
    installed(python, "-m", "pip", "install", "-q", *PYTHON_GENERATOR, cwd=tmp_path)
    options = ("--meta", "none", "--output-path", "made", "--fail-on-warning")
    tool = ("openapi_python_client", "generate", "--path", str(description))
    path = f"{tmp_path}/tools/bin:{os.environ['PATH']}"
    done = run(python, "-m", *tool, *options, cwd=tmp_path, PATH=path)
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "program.py").write_text(PROGRAM)
    done = run(python, "program.py", str(api.base_url).rstrip("/"), TOKEN, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_generator_makes_types_in_typescript_that_hold(description, tmp_path):
    installed("npm", "install", "--no-audit", "--no-fund", *NODE_GENERATOR, cwd=tmp_path)
    tools = tmp_path / "node_modules/.bin"
    generator = str(tools / "openapi-typescript")
    done = run(generator, str(description), "-o", "made.ts", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "program.ts").write_text(TYPED)
    strict = ("--strict", "--noEmit", "--skipLibCheck", "program.ts")
    done = run(str(tools / "tsc"), *strict, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(which("node") is None, reason="node is not installed")
def test_a_worker_in_javascript_runs_jobs_and_retries(api):
    enqueue(
        api,
        a=("shout", ["hello"]),
        b=("add", [2, 3]),
        c=("fail", ["no luck"]),
        d=("unknown", []),
    )
    with worker("node", str(CLIENTS / "worker.mjs"), str(api.base_url).rstrip("/"), "work"):
        jobs = ended(api, "a", "b", "c", "d")
    assert (jobs["a"]["result"], jobs["b"]["result"]) == ("HELLO", 5)
    assert (jobs["c"]["status"], jobs["c"]["retry_count"]) == ("failed", 1)
    assert jobs["c"]["last_failure_reason"] == "Error: no luck"
    assert jobs["d"]["last_failure_reason"] == "Error: no task is named unknown"
    attempts = api.get("/api/jobs/c/history").json()["attempts"]
    assert [each["type"] for each in attempts] == ["Error", "Error"]
    assert gone(api)


@pytest.fixture
def curl() -> None:
    """The program, installed where it is missing and can be."""
    if which("curl") is None:
        try:
            install("curl")
        except Unavailable as error:
            pytest.skip(f"curl is not installed: {error}")


@pytest.mark.usefixtures("curl")
def test_a_worker_in_shell_runs_jobs_and_retries(api, tmp_path):
    command = tmp_path / "command"
    command.write_text(COMMAND)
    command.chmod(0o755)
    enqueue(
        api,
        a=("shout", ["hello"]),
        b=("wrong", []),
        c=("other", []),
        d=("junk", []),
    )
    with worker(str(CLIENTS / "worker.sh"), str(api.base_url).rstrip("/"), "work", str(command)):
        jobs = ended(api, "a", "b", "c", "d")
    assert jobs["a"]["result"] == ["HELLO"]
    assert (jobs["b"]["status"], jobs["b"]["retry_count"]) == ("failed", 0)
    assert jobs["b"]["last_failure_reason"] == 'Exit65: there is no "such" thing'
    assert jobs["c"]["retry_count"] == 1
    assert jobs["c"]["last_failure_reason"] == "Exit1: try again \\ later"
    assert jobs["d"]["last_failure_reason"] == "Error: the server refused the result"
    assert gone(api)
