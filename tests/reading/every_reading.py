"""Every reading command and every GET route, taken from the tables of the CLI and of the server."""

import asyncio
from collections.abc import Iterator
from typing import Any

import click
from click.testing import CliRunner, Result

from mulligan import Mulligan
from mulligan.cli import cli
from mulligan.server.application import make_application
from mulligan.server.guard import Guard
from mulligan.server.routes import ROUTES
from mulligan.server.service import Service
from mulligan.stores.contract import Store

# Commands that change something; every other one only reads, and so does one that is yet to come.
WRITERS = {
    *("demo", "worker", "supervise", "housekeep", "serve", "enqueue", "cancel", "pause", "resume"),
    *("drain", "migrate", "copy", "bench", "dead replay", "dead purge"),
    *(f"schedules {each}" for each in ("put", "pause", "resume", "remove", "run-now")),
    *(f"limits {each}" for each in ("set", "reset", "pause", "resume")),
}
# What is given where a command or a route asks for something by name.
UNENDED, ENDED, GATHERING, REGION = "running", "done", "gathering", "default"
SCHEDULE, LIMIT, QUEUE = "nightly", "k", "limited"
ARGUMENTS = {"job_id": UNENDED, "queue": QUEUE}
# `watch` ends with its job.
OTHERS = {"watch": {"job_id": ENDED}, "gather": {"job_id": GATHERING}}
# What else is said.
MORE = {"schedules next": (SCHEDULE,)}
LONGEST_WAIT = 30.0


def reading_commands() -> Iterator[tuple[str, ...]]:
    """The words of every command that only reads and may be told a store."""
    for words, command in leaves(cli, ()):
        name = " ".join(words)
        if name in WRITERS or not any(each.name == "store" for each in command.params):
            continue
        asked = [each for each in command.params if isinstance(each, click.Argument)]
        given = ARGUMENTS | OTHERS.get(name, {})
        said = [given[str(each.name)] for each in asked if each.required]
        said += MORE.get(name, ())
        yield (*words, *said)
        if any(each.name == "as_json" for each in command.params):
            yield (*words, *said, "--json")


def leaves(
    group: click.Group, above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that has none below it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, (*above, name))
        else:
            yield (*above, name), command


def command(url: str, *words: str) -> Result:
    """Run a command here on the store at the URL, or on the app of that name."""
    about = ("--store", url) if "://" in url else ("--app", url)
    clean = {"MULLIGAN_APP": None, "MULLIGAN_STORE": None, "COLUMNS": "200"}
    return CliRunner(env=clean).invoke(cli, [*words, *about], prog_name="mulligan")


def reading_routes(
    job: str = UNENDED, worker: str = "gone", gathering: str = GATHERING
) -> list[str]:
    """The path of every GET route."""
    return [
        row.path.replace("gathers/{job}", f"gathers/{gathering}")
        .replace("{job}", job)
        .replace("{region}", REGION)
        .replace("{worker}", worker)
        .replace("{schedule}", SCHEDULE)
        .replace("{limit}", LIMIT)
        .replace("{queue}", QUEUE)
        for row in ROUTES
        if row.method == "GET"
    ]


def application(store: Store, app: Mulligan) -> Any:
    """What `serve --read-only` answers with."""
    guard = Guard(None, hosts=("127.0.0.1",), read_only=True)
    return make_application(Service(store, app, guard, declares=False))


async def get(application: Any, path: str) -> tuple[int, bytes]:
    """The status and the body of an answer; of a stream its beginning."""
    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    status, body, began = 0, b"", asyncio.Event()
    streams = False

    async def receive() -> dict[str, Any]:
        await began.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status, body, streams
        if message["type"] == "http.response.start":
            status = message["status"]
            streams = (b"content-type", b"text/event-stream") in [
                (name, value.partition(b";")[0]) for name, value in message["headers"]
            ]
        else:
            body += message.get("body", b"")
            if streams and body:
                began.set()

    first = [{"type": "http.request", "body": b"", "more_body": False}]

    async def hear() -> dict[str, Any]:
        return first.pop() if first else await receive()

    async with asyncio.timeout(LONGEST_WAIT):
        answering = asyncio.ensure_future(application(scope, hear, send))
        beginning = asyncio.ensure_future(began.wait())
        await asyncio.wait([answering, beginning], return_when=asyncio.FIRST_COMPLETED)
        for task in (answering, beginning):
            if not task.done():
                task.cancel()
        await asyncio.gather(answering, beginning, return_exceptions=True)
        if answering.done() and not answering.cancelled():
            answering.result()
    return status, body
