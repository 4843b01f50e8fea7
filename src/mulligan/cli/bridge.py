"""`bridge`: takes over what waits in queues of Celery or RQ."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import click
from msgspec import to_builtins

from mulligan.app import Mulligan
from mulligan.cli.copy_jobs import interruptible
from mulligan.cli.find_app import app_option, check_file, json_option, load_app, named_app
from mulligan.cli.group import printable
from mulligan.cli.show import console, print_json, progress, table
from mulligan.contrib import celery as from_celery
from mulligan.contrib import rq as from_rq
from mulligan.contrib.bridge import Bridged
from mulligan.core.errors import InvalidError

SHOWN = 20


def bridge_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of both bridges."""
    options = [
        click.argument("named", metavar="[APP]", required=False),
        click.option("--from", "url", metavar="URL", required=True,
                     help="The Redis of the other queue, such as redis://localhost:6379/0."),
        click.option("--task", "tasks", metavar="OLD=NEW", multiple=True,
                     help="A task by its name there and here; may be repeated."),
        click.option("--follow", is_flag=True, help="Go on until Ctrl-C or SIGTERM."),
        click.option("--dry-run", is_flag=True, help="Take nothing; say what would be taken."),
        json_option,
        app_option,
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@click.group()
def bridge() -> None:
    """Take over what waits in queues of Celery or RQ.

    Messages whose task the app has become jobs, with their ids, ETA and retries; all others stay
    where they are, and are listed. Stopped or killed at any point, nothing is lost or doubled: run
    it again.
    """


@bridge.command()
@click.option("-q", "--queue", "queues", multiple=True, default=("celery",), show_default=True,
              help="A queue of Celery's; may be repeated.")  # fmt: skip
@click.option("--visibility-timeout", type=click.FloatRange(0), metavar="SECONDS", default=3600.0,
              show_default=True,
              help="Take what a worker of Celery's has held for so long.")  # fmt: skip
@click.option("--key-prefix", default="", help="Celery's global_keyprefix, if it has one.")
@bridge_options
def celery(*, visibility_timeout: float, key_prefix: str, **options: Any) -> None:
    """Take over messages of Celery's, of protocol 2 with JSON bodies.

    Those that a chain, a chord or a link follows stay there, and pickled ones too. With
    --visibility-timeout 0 also those that Celery's workers hold are taken: stop the workers first.
    """
    take = partial(
        from_celery.abridge, visibility_timeout=visibility_timeout, key_prefix=key_prefix
    )
    run("Celery", take, **options)


@bridge.command()
@click.option("-q", "--queue", "queues", multiple=True, default=("default",), show_default=True,
              help="A queue of RQ's; may be repeated.")  # fmt: skip
@bridge_options
def rq(**options: Any) -> None:
    """Take over jobs of RQ's that its JSON serializer wrote, waiting or scheduled.

    Those that others depend on, or that have callbacks, stay there, and pickled ones too.
    """
    run("RQ", from_rq.abridge, **options)


def run(
    system: str,
    take: Callable[..., Awaitable[Bridged]],
    *,
    named: str | None,
    app: str | None,
    url: str,
    queues: Sequence[str],
    tasks: Sequence[str],
    follow: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Run a bridge, and say what it did."""
    if follow and dry_run:
        raise InvalidError("--follow and --dry-run: a dry run looks once; give one of them")
    name = named_app(named, app)
    if name is None:
        raise InvalidError("no app is named; give APP as module:attribute, or set MULLIGAN_APP")
    found = load_app(name)
    renamed = dict(map(renaming, tasks))
    done = asyncio.run(watched(take, found, url, queues, renamed, follow=follow, dry_run=dry_run))
    if as_json:
        print_json(to_builtins(done) | {"dry_run": dry_run})
    else:
        show(done, system, found, dry_run=dry_run)


async def watched(
    take: Callable[..., Awaitable[Bridged]],
    app: Mulligan,
    url: str,
    queues: Sequence[str],
    tasks: dict[str, str],
    *,
    follow: bool,
    dry_run: bool,
) -> Bridged:
    """Run it behind a progress bar; a signal ends one that follows after the batch under way."""
    if dry_run:
        check_file(app.url)
    with progress() as bar:
        shown = bar.add_task("messages", total=None)

        def tell(taken: int, total: int) -> None:
            bar.update(shown, completed=taken, total=total)

        options: dict[str, Any] = {"tasks": tasks, "dry_run": dry_run, "progress": tell}
        if not follow:
            return await take(app, url, queues, **options)
        with interruptible() as end:
            return await take(app, url, queues, **options, follow=end)


def renaming(text: str) -> tuple[str, str]:
    """OLD=NEW as a pair."""
    old, equals, new = text.partition("=")
    if not equals or not old or not new:
        raise InvalidError(f"task {text!r} is not written OLD=NEW, such as shop.tasks.mail=mail")
    return old, new


def messages(count: int) -> str:
    """So many of them, in words."""
    return "1 message" if count == 1 else f"{count} messages"


def show(done: Bridged, system: str, app: Mulligan, *, dry_run: bool) -> None:
    """What was done, and what is left with its reasons."""
    would = "Would take" if dry_run else "Took"
    resumed = f", of which an earlier bridge had begun with {done.resumed}" if done.resumed else ""
    click.echo(f"{would} {messages(done.taken)} over from {system} to {app.shown_url}{resumed}.")
    if done.held:
        click.echo(f"Workers of {system} hold {messages(done.held)}.")
    if not done.left:
        return
    click.echo(f"Left {done.left} where they are:")
    rows = [(each.id, each.task, each.reason) for each in done.messages[:SHOWN]]
    console().print(table("", ("id", "task", "~reason"), rows))
    if done.left > SHOWN:
        for reason, count in sorted(done.reasons.items(), key=lambda each: -each[1]):
            click.echo(f"{count} in all: {printable(reason)}")
