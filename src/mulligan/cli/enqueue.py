"""`enqueue`: a job from the shell."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click
import msgspec

from mulligan.cli.find_app import app_option, given, json_option, load_app, opened
from mulligan.cli.show import print_json
from mulligan.core.checks import check_depth
from mulligan.core.errors import InvalidError
from mulligan.core.job import NewJob
from mulligan.core.retry import Retry
from mulligan.core.written_retry import read_retry

# How many characters of an argument an error shows.
SHOWN = 20
Command = TypeVar("Command", bound=Callable[..., Any])


# What an enqueue and a schedule may say of a call.
CALL_OPTIONS = (
    click.option("-k", "--keyword", "keywords", metavar="NAME=VALUE", multiple=True,
                 help="A keyword argument; may be repeated."),
    click.option("-q", "--queue", help="The queue, if not the task's own."),
    click.option("-r", "--region", help="The region, if not the task's own; * is any."),
    click.option("--priority", metavar="WORD", help="normal (0), retry (1) or urgent (2)."),
    click.option("--retry", metavar="POLICY", help="A preset by name, or the policy as JSON."),
    click.option("--timeout", type=float, metavar="SECONDS",
                 help="How long an attempt may take."),
    click.option("--expires", type=float, metavar="SECONDS",
                 help="Cancel a job that has not started by then."),
    click.option("--keep", type=float, metavar="SECONDS",
                 help="How long to keep a job once it has ended."),
    click.option("--limits", metavar="NAME", help="A limit that it needs; several as JSON."),
    click.option("--pinned", is_flag=True, default=None,
                 help="Never run it outside of its region, whatever happens there."),
    click.option("--fairness-key", help="Whose job it is: customers take turns."),
)  # fmt: skip


def call_options(command: Command) -> Command:
    """Give the command these options."""
    for option in reversed(CALL_OPTIONS):
        command = option(command)
    return command


@click.command()
@click.argument("named", metavar="APP")
@click.argument("task", metavar="TASK", required=False)
@click.argument("arguments", metavar="[ARGUMENT]...", nargs=-1)
@call_options
@click.option("--delay", type=float, metavar="SECONDS", help="Do not start it before this.")
@click.option("--id", "id", help="The job's id; nothing is enqueued if it is stored already.")
@click.option("--unique-key", help="Nothing is enqueued while a job with the key is unfinished.")
@click.option("--unique-for", type=float, metavar="SECONDS",
              help="Hold the unique key at least this long.")  # fmt: skip
@click.option("--debounce", type=float, metavar="SECONDS",
              help="Start this long after the last enqueue with the key.")  # fmt: skip
@click.option("--debounce-max", type=float, metavar="SECONDS",
              help="Start this long after the first at the latest.")  # fmt: skip
@json_option
@app_option
def enqueue(
    named: str,
    task: str | None,
    arguments: Sequence[str],
    keywords: Sequence[str],
    *,
    as_json: bool,
    app: str | None,
    **options: Any,
) -> None:
    """Have a task run by a worker, and print the job's id.

    Each ARGUMENT is read as JSON, and as text where it is not JSON: 5 is a number, '"5"' and five
    are text. Write -- before an argument that begins with a dash.
    """
    if app is not None and (given("app") or ":" not in named):
        # The first argument is the task already.
        named, task, arguments = app, named, [*filter(None, [task]), *arguments]
    if task is None:
        raise click.MissingParameter(param_hint="'TASK'", param_type="argument")
    found = load_app(named)
    if task not in found.tasks:
        raise InvalidError(f"task {task!r} is not one of {', '.join(found.tasks) or 'none'}")
    chosen = chosen_options(options)
    args = [value_of(text) for text in arguments]
    call = found.tasks[task].using(**chosen).call(*args, **dict(map(keyword_of, keywords)))

    async def send() -> tuple[str, bool]:
        async with opened(found, create=True) as store:
            if call.job.limits is not None:
                # a worker that does not declare them yet is to hold to them
                await found.declared_limits.store_in(store)
            answer = (await store.enqueue([call.job]))[0]
            return answer.id, answer.created

    job, created = asyncio.run(send())
    if as_json:
        print_json({"id": job, "created": created, "task": task, "queue": call.job.queue})
        return
    click.echo(job)
    if not created:
        click.echo(f"note: {told_of(call.job)}", err=True)


def told_of(job: NewJob) -> str:
    """What became of a call whose job was there before."""
    if job.debounce_max is None:
        return "the job was there before; nothing was enqueued"
    return "the job was there before; if it is debounced, it has these arguments now"


def value_of(text: str) -> Any:
    """The text as JSON, or as it stands."""
    check_depth(f"argument {text[:SHOWN]}…", text.encode(errors="replace"))
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text


def chosen_options(options: Mapping[str, Any]) -> Any:
    """The options of a call that were given, as `using` takes them."""
    read: dict[str, Callable[[str], Any]] = {"retry": policy_from, "limits": limits_from}
    return {
        name: read[name](value) if name in read else value
        for name, value in options.items()
        if value is not None
    }


def limits_from(text: str) -> Any:
    """A limit's name as it stands, or several as a JSON list, or as an object with costs."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    found = value_of(text)
    if found is text:
        raise InvalidError(
            f"limits {text[:80]!r} is no JSON; write a name, a list, or costs by name"
        )
    return found


def policy_from(text: str) -> Retry | str:
    """The policy as JSON, or the name of a preset as it stands."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        said = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidError(f"retry {text[:80]!r} is no JSON: {error}") from error
    return read_retry(said)


def keyword_of(text: str) -> tuple[str, Any]:
    """NAME=VALUE as a pair."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise InvalidError(f"keyword {text!r} is not written NAME=VALUE, such as limit=5")
    return name, value_of(value)
