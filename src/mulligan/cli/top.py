"""`top`, `queues` and `workers`: a running system at a glance, live or once."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from mulligan.cli.find_app import about_an_app_or_store, json_option
from mulligan.cli.group import printable
from mulligan.cli.show import cell, console, moment, print_json, span
from mulligan.cli.status import (
    delayed_table,
    fleets_table,
    queues_table,
    recent_rows,
    workers_table,
)
from mulligan.cli.target import target_of
from mulligan.core.checks import check_seconds

# The width of the text beside the two bars of a region, and of the longest bar.
BESIDE_BARS, SHORTEST_BAR, LONGEST_BAR = 36, 8, 30
BARS = ("fresh", "retries")
Shown = Callable[[dict[str, Any]], RenderableType]


@click.command()
@click.option("--every", type=click.FloatRange(min=0.1), default=1.0, show_default=True,
              metavar="SECONDS", help="How often to refresh.")  # fmt: skip
@about_an_app_or_store
def top(named: str | None, *, every: float, app: str | None, store: str | None) -> None:
    """Watch regions, retries, workers and alerts until Ctrl-C.

    APP may also be the http URL of a server.
    """
    check_seconds("every", every)

    async def follow() -> None:
        out = console()
        async with target_of(named, app, store) as target:
            first = screen(await target.overview(), out.width)
            if not out.is_terminal:
                out.print(first)
                return
            with Live(first, console=out, screen=True, auto_refresh=False) as live:
                while True:
                    await asyncio.sleep(every)
                    live.update(screen(await target.overview(), out.width), refresh=True)

    try:
        asyncio.run(follow())
    except KeyboardInterrupt:
        return


@click.command()
@json_option
@about_an_app_or_store
def queues(named: str | None, *, as_json: bool, app: str | None, store: str | None) -> None:
    """Show what waits, runs and has ended, by queue.

    APP may also be the http URL of a server.
    """
    show_part(
        (named, app, store),
        ("queues", "delayed"),
        lambda whole: Group(queues_table(whole), delayed_table(whole)),
        as_json=as_json,
    )


@click.command()
@json_option
@about_an_app_or_store
def workers(named: str | None, *, as_json: bool, app: str | None, store: str | None) -> None:
    """Show workers, and the fleets of supervisors.

    APP may also be the http URL of a server.
    """
    show_part(
        (named, app, store),
        ("workers", "fleets"),
        lambda whole: Group(workers_table(whole), *fleets_table(whole)),
        as_json=as_json,
    )


def show_part(
    named: tuple[str | None, str | None, str | None],
    names: tuple[str, ...],
    shown: Shown,
    *,
    as_json: bool,
) -> None:
    """Print some parts of an overview."""

    async def look() -> dict[str, Any]:
        async with target_of(*named) as target:
            return await target.overview()

    whole = asyncio.run(look())
    if as_json:
        print_json({name: whole[name] for name in names})
    else:
        console().print(shown(whole))


def screen(whole: dict[str, Any], width: int) -> RenderableType:
    """Everything on one screen, alerts first."""
    return Group(
        headline(whole),
        *(Text(f"! {printable(alert)}", "bold red") for alert in whole["alerts"]),
        *(Text(f"! {printable(warning)}", "yellow") for warning in whole["warnings"]),
        *waiting(whole, width),
        *lately(whole),
        *queues_in_short(whole),
        *workers_in_short(whole),
        *fleets_table(whole),
    )


def headline(whole: dict[str, Any]) -> Text:
    """The time, and the system in four numbers."""
    workers = [each for each in whole["workers"] if each["queues"]]
    live = sum(each["live"] for each in workers)
    queues = whole["queues"].values()
    fresh = sum(queue["fresh"] + queue["urgent"] for queue in queues)
    return Text.assemble(
        ("mulligan", "bold"),
        (f"  {moment(whole['now'])}  ", "dim"),
        (f"{live} of {len(workers)} workers live", "" if live else "bold red"),
        f", {sum(queue['running'] for queue in queues):,} jobs run, {fresh:,} fresh and ",
        f"{sum(queue['retry'] for queue in queues):,} retries wait",
    )


def waiting(whole: dict[str, Any], width: int) -> list[RenderableType]:
    """Bars of what waits: global retries, then the fresh jobs and retries of each region."""
    anywhere = whole["global_retry_queue_size"]
    rows: list[tuple[str, int, int, int | None]] = [("any", 0, anywhere, None)]
    rows += [
        (name, region["queue_size"], region["retry_queue_size"], running_in(region))
        for name, region in whole["regions"].items()
    ]
    most = max((max(fresh, retry) for _, fresh, retry, _ in rows), default=0)
    longest = max(SHORTEST_BAR, min(LONGEST_BAR, (width - BESIDE_BARS) // 2))
    return section(
        ("region", "#running", "fresh", "#", "retries", "#"),
        [
            (
                name,
                running,
                bar(fresh, most, longest, "blue"),
                fresh,
                bar(retry, most, longest, "yellow"),
                retry,
            )
            for name, fresh, retry, running in rows
        ],
    )


def running_in(region: dict[str, Any]) -> int:
    """How many jobs run in the region."""
    current = region["current_job"]
    return len(region.get("current_jobs", [current] if current else []))


def bar(value: int, most: int, longest: int, style: str) -> Text:
    """A bar as long as the value's share of the largest."""
    length = 0 if not most else max(1 if value else 0, round(longest * value / most))
    return Text("█" * length + " " * (longest - length), style)


def lately(whole: dict[str, Any]) -> list[RenderableType]:
    """How attempts went in the last minute, by queue and region."""
    columns = ("a minute", "region", "#starts", "#ok", "#retries", "#ok", "#moved", "#p99 wait",
               "#saved", "breaker")  # fmt: skip
    return section(columns, recent_rows(whole))


def queues_in_short(whole: dict[str, Any]) -> list[RenderableType]:
    """What waits, runs and has ended, by queue."""
    rows = [
        (
            name,
            queue["fresh"] + queue["urgent"],
            queue["retry"],
            whole["delayed"].get(name, {}).get("total", 0),
            queue["running"],
            queue["done"],
            Text(str(queue["failed"]), "red" if queue["failed"] else "dim"),
            Text("paused", "yellow") if queue["paused"] else queue["policy"],
        )
        for name, queue in whole["queues"].items()
    ]
    columns = ("queue", "#fresh", "#retry", "#delayed", "#running", "#done", "#failed", "policy")
    return section(columns, rows)


def workers_in_short(whole: dict[str, Any]) -> list[RenderableType]:
    """The workers of each region."""
    rows = [
        (
            each["name"] or each["id"],
            each["region"],
            Text("yes", "green") if each["live"] else Text("no", "bold red"),
            f"{each['running']}/{each['concurrency']}",
            f"{span(whole['now'] - each['beat_at'])} ago",
            ", ".join(each["queues"]) + (f" (only {each['only']})" if each["only"] else ""),
        )
        for each in whole["workers"]
    ]
    return section(("worker", "region", "live", "#running", "#beat", "queues"), rows)


def section(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[RenderableType]:
    """A table without borders, after an empty line; where it is narrow, names are cut."""
    if not rows:
        return []
    made = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    for column in columns:
        if column.startswith("#"):
            made.add_column(column[1:], justify="right", no_wrap=True)
        else:
            made.add_column(column, overflow="ellipsis", no_wrap=column in BARS)
    for row in rows:
        made.add_row(*(cell(value) for value in row))
    return [Text(), made]
