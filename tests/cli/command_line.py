"""The command line as tests run it: in this process, or as a process of its own."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from click.testing import CliRunner, Result

from mulligan.cli import cli
from mulligan.core.decide import decide
from mulligan.core.facts import QueueSettings
from mulligan.core.fairness import Carry, plan_claim
from mulligan.core.job import Claim, NewJob, encode
from mulligan.core.outcome import Failed, Succeeded
from mulligan.core.retry import Retry
from mulligan.core.worker import Worker
from mulligan.stores import make_store
from mulligan.stores.contract import Store

APP = "tests.cli.apps:app"


def run(*arguments: str, input: str | None = None, **environment: str) -> Result:  # noqa: A002
    """Run a command here."""
    clean: dict[str, str | None] = {"MULLIGAN_APP": None, "MULLIGAN_STORE": None, "COLUMNS": None}
    return CliRunner(env={**clean, **environment}).invoke(
        cli, list(arguments), input=input, prog_name="mulligan"
    )


def good(*arguments: str, **more: Any) -> str:
    """Run a command that must succeed; its output."""
    result = run(*arguments, **more)
    assert result.exit_code == 0, result.output
    return result.stdout


def good_json(*arguments: str, **more: Any) -> Any:
    """Run a command with --json; what it printed."""
    return json.loads(good(*arguments, "--json", **more))


def refused(code: int, *arguments: str, **more: Any) -> str:
    """Run a command that must end with this code and a line or two of words."""
    result = run(*arguments, **more)
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    said = result.stderr.strip()
    assert said.startswith("error: "), said
    assert len(said.splitlines()) <= 2, said
    assert "Traceback" not in result.output
    return said


@contextmanager
def process(
    *arguments: str, program: Sequence[str] = ("-m", "mulligan"), **environment: str
) -> Iterator["subprocess.Popen[str]"]:
    """A command as a process of its own; killed if it still runs in the end."""
    command = [sys.executable, *program, *arguments]
    with subprocess.Popen(
        command,
        env={**os.environ, **environment},
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


class Ended(NamedTuple):
    """How a command ended, and what it printed, a character for each byte."""

    code: int
    output: str
    errors: str


def run_all(
    commands: Sequence[Sequence[str]], environment: Mapping[str, str] | None = None
) -> list[Ended]:
    """Run each as a process, one after the other: forks of one, which has imported the rest."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.forked", json.dumps(commands)],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
        timeout=120,
    )
    return [Ended(*each) for each in json.loads(done.stdout)]


def read_until(started: "subprocess.Popen[str]", text: str) -> list[str]:
    """Wait until the process prints the text; all lines up to it."""
    lines: list[str] = []
    assert started.stdout is not None
    for line in started.stdout:
        lines.append(line.rstrip("\n"))
        if text in line:
            return lines
    raise AssertionError(f"{text!r} was not printed, but: {lines}")


def do(url_or_store: str | Store, work: Any) -> Any:
    """Run `work(store)` on a store."""

    async def main() -> Any:
        if not isinstance(url_or_store, str):
            return await work(url_or_store)
        store = make_store(url_or_store)
        await store.open()
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(main())


def new_job(name: str, queue: str = "mail", **fields: Any) -> NewJob:
    """A job that may be retried once."""
    body = encode({"task": "send", "args": [name], "kwargs": {}, "retry": Retry(1)})
    return NewJob(name, queue, "send", body, **fields)


async def claim(
    store: Store, count: int, queue: str = "mail", region: str = "default", worker: str = "w-1"
) -> list[Claim]:
    """Start so many jobs, as a worker does."""
    who = Worker(worker, region, (queue,), concurrency=count)
    facts = (await store.beat(who, [])).facts
    plan = plan_claim(count, region, [(queue, Carry())], facts)
    return (await store.claim(plan, who)).claims


async def fail(
    store: Store,
    claims: Sequence[Claim],
    message: str = "boom",
    traceback: str | None = None,
    *,
    non_retryable: bool = True,
) -> None:
    """Let attempts fail, for good unless told otherwise."""
    facts = await store.facts()
    result = Failed("ValueError", message, non_retryable=non_retryable, traceback=traceback)
    await store.commit([decide(each, result, facts, 0.5) for each in claims])


async def finish(store: Store, claims: Sequence[Claim]) -> None:
    """Let attempts succeed."""
    facts = await store.facts()
    await store.commit([decide(each, Succeeded(b'"ok"'), facts, 0.5) for each in claims])


async def gone(store: Store, worker: str = "w-1") -> None:
    """Let the worker leave."""
    await store.leave(Worker(worker))


async def configure(store: Store, queue: str, settings: QueueSettings) -> None:
    """Store the settings of a queue."""
    await store.configure(queue, settings)
