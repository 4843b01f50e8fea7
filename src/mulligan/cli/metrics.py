"""`metrics`: every metric, by queue and region."""

import asyncio
from typing import Any

import click
from rich.text import Text

from mulligan.cli.find_app import about_an_app_or_store, json_option
from mulligan.cli.group import printable
from mulligan.cli.show import console, print_json, table
from mulligan.cli.target import target_of

Document = dict[str, Any]
# Says what measures, and so is there before anything has been.
ABOUT_US = "mulligan_build_info"


@click.command()
@json_option
@about_an_app_or_store
def metrics(named: str | None, *, as_json: bool, app: str | None, store: str | None) -> None:
    """Show every metric with its values.

    The names are those of the Prometheus endpoint. Counters count since the store was made. APP may
    also be the http URL of a server.
    """

    async def look() -> Document:
        async with target_of(named, app, store) as target:
            return await target.metrics()

    found = asyncio.run(look())
    if as_json:
        print_json(found)
        return
    rows = [row for name, metric in found.items() for row in rows_of(name, metric)]
    if not any(metric["samples"] for name, metric in found.items() if name != ABOUT_US):
        click.echo("Nothing has been measured so far.")
        return
    console().print(table("", ("metric", "of", "#value", "~meaning"), rows))


def rows_of(name: str, metric: Document) -> list[tuple[Text, str, str, Text]]:
    """A row for each value; the first also has the name and the meaning."""
    return [
        (in_first(n, name), labels(sample), value(sample), in_first(n, metric["help"]))
        for n, sample in enumerate(metric["samples"])
    ]


def in_first(row: int, text: str) -> Text:
    """The text in the first row of a metric, nothing in the others."""
    return Text("" if row else printable(text))


def labels(sample: Document) -> str:
    """Which queue, region or lane it is about."""
    return " ".join(f"{name}={value}" for name, value in sample["labels"].items())


def value(sample: Document) -> str:
    """The value; of a histogram how many, and their mean."""
    if "buckets" not in sample:
        return f"{sample['value']:g}"
    count = sum(sample["buckets"].values())
    return f"{count:g}, mean {sample['sum'] / count:.3g} s" if count else "0"
