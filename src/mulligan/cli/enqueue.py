"""`enqueue`: a job from the shell."""

import asyncio
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from mulligan.cli.show import print_json
from mulligan.cli.target import json_option, load_app, opened
from mulligan.core.errors import InvalidError


@click.command()
@click.argument("named", metavar="APP")
@click.argument("task", metavar="TASK")
@click.argument("arguments", metavar="[ARGUMENT]...", nargs=-1)
@click.option("-k", "--keyword", "keywords", metavar="NAME=VALUE", multiple=True,
              help="A keyword argument; may be given many times.")  # fmt: skip
@click.option("-q", "--queue", help="The queue, if not the task's own.")
@click.option("-r", "--region", help="The region, if not the task's own; * is any.")
@click.option("--priority", type=click.Choice(["normal", "urgent"]), help="Urgent goes first.")
@click.option("--delay", type=float, metavar="SECONDS", help="Do not start it before this.")
@click.option("--timeout", type=float, metavar="SECONDS", help="How long an attempt may take.")
@click.option("--expires", type=float, metavar="SECONDS", help="Drop it if not started by then.")
@click.option("--id", "id", help="The job's id; nothing is enqueued if it is stored already.")
@click.option("--unique-key", help="Nothing is enqueued while a job with the key is unfinished.")
@click.option("--concurrency-key", help="Jobs with this key run one at a time.")
@json_option
def enqueue(
    named: str,
    task: str,
    arguments: Sequence[str],
    keywords: Sequence[str],
    *,
    as_json: bool,
    **options: Any,
) -> None:
    """Have a task run by a worker, and print the job's id.

    Each ARGUMENT is read as JSON, and as text where it is not JSON: 5 is a number, '"5"' and five
    are text. Write -- before an argument that begins with a dash.
    """
    app = load_app(named)
    if task not in app.tasks:
        raise InvalidError(f"task {task!r} is not one of {', '.join(app.tasks) or 'none'}")
    chosen: Any = {name: value for name, value in options.items() if value is not None}
    args = [value_of(text) for text in arguments]
    call = app.tasks[task].using(**chosen).call(*args, **dict(map(keyword_of, keywords)))

    async def send() -> tuple[str, bool]:
        async with opened(app, create=True) as store:
            answer = (await store.enqueue([call.job]))[0]
            return answer.id, answer.created

    job, created = asyncio.run(send())
    if as_json:
        print_json({"id": job, "created": created, "task": task, "queue": call.job.queue})
        return
    click.echo(job)
    if not created:
        click.echo("note: the job was there before; nothing was enqueued", err=True)


def value_of(text: str) -> Any:
    """The text as JSON, or as it stands."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text


def keyword_of(text: str) -> tuple[str, Any]:
    """NAME=VALUE as a pair."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise InvalidError(f"keyword {text!r} is not written NAME=VALUE, such as limit=5")
    return name, value_of(value)
