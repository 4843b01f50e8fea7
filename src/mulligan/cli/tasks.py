"""`tasks`: what every task did in the last hour."""

import asyncio
from typing import Any

import click

from mulligan.cli.find_app import about_an_app_or_store, json_option
from mulligan.cli.show import console, print_json, table
from mulligan.cli.target import target_of

Document = dict[str, Any]
COLUMNS = (
    *("task", "queue", "#a minute", "#succeeded", "#failed"),
    *("#p50", "#p95", "#p99", "~failures"),
)


@click.command()
@json_option
@about_an_app_or_store
def tasks(named: str | None, *, as_json: bool, app: str | None, store: str | None) -> None:
    """Show what every task did in the last hour: rate, outcomes, runtimes, failures by type.

    Only tasks that have run are shown. APP may also be the http URL of a server.
    """

    async def look() -> list[Document]:
        async with target_of(named, app, store) as target:
            return await target.tasks()

    found = asyncio.run(look())
    if as_json:
        print_json({"tasks": found})
    elif not found:
        click.echo("No task has run so far.")
    else:
        console().print(table("The last hour", COLUMNS, [row(each) for each in found]))


def row(task: Document) -> tuple[str, ...]:
    """A task in a queue."""
    runtime = task["runtime"]
    failures = ", ".join(f"{count} {name}" for name, count in task["failures"].items())
    return (
        task["task"],
        task["queue"],
        f"{task['per_minute']:.3g}",
        str(task["succeeded"]),
        str(task["failed"]),
        *(seconds(runtime[each]) for each in ("p50", "p95", "p99")),
        failures,
    )


def seconds(value: float | None) -> str:
    """A runtime, to two digits, in milliseconds if it is short."""
    if value is None:
        return ""
    if value < 1:
        return f"{float(f'{1000 * value:.2g}'):g} ms"
    return f"{float(f'{value:.2g}'):g} s"
