"""`gather`: many jobs as one."""

from typing import Any, Literal

import click
from rich.bar import Bar
from rich.console import Group
from rich.text import Text

from mulligan.app.explain import explain_job
from mulligan.app.gather_handle import GatherView, cancel_gather, gather_view, replay_gather
from mulligan.cli.find_app import about_a_store, find_app, json_option, with_store
from mulligan.cli.group import RefusalError, printable
from mulligan.cli.show import coloured, console, print_json, table
from mulligan.stores.contract import Store

Action = Literal["show", "cancel", "replay"]
WIDTH = 50


@click.command()
@click.argument("job_id", metavar="JOB")
@click.argument("action", type=click.Choice(["show", "cancel", "replay"]), default="show")
@click.option(
    "--reason", default="cancelled from the command line", show_default=True,
    help="Of cancel: the reason, which is stored with each job.",
)  # fmt: skip
@json_option
@about_a_store
def gather(
    job_id: str, action: Action, *, reason: str, as_json: bool, app: str | None, store: str | None
) -> None:
    """Show a gather, cancel all of it, or replay what failed in it.

    JOB is the job that gathers, or a member. Without an action, or with show: how many members have
    ended and how, and what failed. With replay: the members that failed, while they are awaited, or
    the gathering job itself if it failed; exit code 1 if there is nothing to replay or to cancel.
    """
    target = find_app(None, app, store)

    async def work(opened: Store) -> tuple[GatherView, str, int]:
        view = await gather_view(opened, job_id)
        changed = 0
        if action == "cancel":
            changed = await cancel_gather(opened, view, reason)
        elif action == "replay":
            changed = await replay_gather(opened, view)
        if action != "show":
            view = await gather_view(opened, view.job.id)
        return view, await explain_job(opened, view.job.id, target.called), changed

    view, sentence, changed = with_store(target, work, writes=action != "show")
    if as_json:
        said = gather_json(view, sentence)
        print_json(said if action == "show" else {**said, "changed": changed})
    elif action == "show":
        show(view, sentence)
    elif changed:
        click.echo(f"{'Cancelled' if action == 'cancel' else 'Replayed'} {changed} jobs.")
    if action != "show" and not changed:
        raise RefusalError(f"nothing to {action}: {printable(sentence)}", 1)


def gather_json(view: GatherView, sentence: str) -> dict[str, Any]:
    """The gather for --json."""
    progress = view.progress
    return {
        "id": view.job.id,
        "status": view.job.status,
        "return_exceptions": view.job.return_exceptions,
        "members": progress.members,
        "done": progress.done,
        "failed": progress.failed,
        "cancelled": progress.cancelled,
        "open": progress.open,
        "failures": [
            {
                "index": index,
                "job": failure.job,
                "type": failure.type,
                "reason": failure.reason,
                "attempts": failure.attempts,
            }
            for index, failure in view.failures
        ],
        "explanation": sentence,
    }


def show(view: GatherView, sentence: str) -> None:
    """The gather for people."""
    progress, out = view.progress, console()
    members = max(1, progress.members)
    head = Text.assemble(
        (printable(view.job.id), "bold"), "  ", coloured(view.job.status), f"  {view.job.task}"
    )
    counts = Text.assemble(
        f"{progress.ended} of {progress.members} ended: ",
        (f"{progress.done} done", "green"),
        ", ",
        (f"{progress.failed} failed", "red" if progress.failed else "dim"),
        ", ",
        (f"{progress.cancelled} cancelled", "yellow" if progress.cancelled else "dim"),
        f"; {progress.open} open",
    )
    bar = Bar(members, 0, progress.ended, width=WIDTH, color="green")
    out.print(Group(head, bar, counts))
    out.print(printable(sentence), style="bold")
    if view.failures:
        rows = [
            (index, failure.job, failure.attempts, f"{failure.type}: {failure.reason}")
            for index, failure in view.failures
        ]
        out.print()
        out.print(table("Failures", ("#index", "job", "#attempts", "~failure"), rows))
