"""`status`: queues, regions and workers at a glance."""

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from mulligan.app.overview import overview
from mulligan.cli.find_app import about_an_app_or_store, find_app, json_option, opened, with_store
from mulligan.cli.group import printable
from mulligan.cli.show import as_json as one_line
from mulligan.cli.show import console, print_json, span, table
from mulligan.core.checks import check_seconds


@click.command()
@click.option("-w", "--watch", is_flag=True, help="Refresh until Ctrl-C.")
@click.option("--every", type=click.FloatRange(min=0.1), default=1.0, show_default=True,
              metavar="SECONDS", help="How often --watch refreshes.")  # fmt: skip
@json_option
@about_an_app_or_store
def status(
    named: str | None,
    *,
    watch: bool,
    every: float,
    as_json: bool,
    app: str | None,
    store: str | None,
) -> None:
    """Show queues, regions and workers.

    Sizes count jobs that wait and are due. With --watch, --json prints one object a line.
    """
    check_seconds("every", every)
    target = find_app(named, app, store, looks=True)
    if not watch:
        whole = with_store(target, lambda opened: overview(opened, target.called), tells_away=False)
        if as_json:
            print_json(whole)
        else:
            console().print(tables(whole))
        return

    async def follow() -> None:
        out = console()
        async with opened(target) as open_store:
            # A pipe gets one status after another; a terminal shows one that changes.
            with (
                Live(console=out, auto_refresh=False) if out.is_terminal else nullcontext() as live
            ):
                while True:
                    whole = await overview(open_store, target.called)
                    if as_json:
                        click.echo(one_line(whole))
                    elif live is not None:
                        live.update(tables(whole), refresh=True)
                    else:
                        out.print(tables(whole))
                    await asyncio.sleep(every)

    try:
        asyncio.run(follow())
    except KeyboardInterrupt:
        return


def tables(whole: dict[str, Any]) -> RenderableType:
    """A status as tables."""
    parts: list[RenderableType] = [
        queues_table(whole),
        delayed_table(whole),
        regions_table(whole),
        Text.assemble(
            "Global retry queue: ", (str(whole["global_retry_queue_size"]), "bold"), "\n"
        ),
        *recent_table(whole),
        *shards_table(whole),
        workers_table(whole),
        *fleets_table(whole),
        *(Text(f"! {printable(warning)}", "yellow") for warning in whole["warnings"]),
        *(Text(f"! {printable(alert)}", "bold red") for alert in whole["alerts"]),
    ]
    return Group(*parts)


def queues_table(whole: dict[str, Any]) -> RenderableType:
    """What waits, runs and has ended, by queue."""
    rows = []
    for name, queue in whole["queues"].items():
        shown = Text(printable(queue["policy"]))
        if queue["paused"]:
            shown.append(", paused", "yellow")
        failed = Text(str(queue["failed"]), "red" if queue["failed"] else "dim")
        waiting = (queue["fresh"], queue["urgent"], queue["retry"])
        rows.append((name, *waiting, queue["running"], queue["done"], failed, shown))
    if not rows:
        return Text("No queue has a job, a worker or a setting so far.\n")
    columns = ("queue", "#fresh", "#urgent", "#retry", "#running", "#done", "#failed", "policy")
    return table("Queues", columns, rows)


def shards_table(whole: dict[str, Any]) -> list[RenderableType]:
    """The shards, of an app that has several."""
    rows = [
        (
            each["shard"],
            each["url"],
            each["waiting"],
            each["running"],
            Text("yes", "green") if each["away"] is None else Text(printable(each["away"]), "red"),
        )
        for each in whole["shards"]
    ]
    columns = ("#shard", "store", "#waiting", "#running", "answers")
    return [table("Shards", columns, rows)] if rows else []


def delayed_table(whole: dict[str, Any]) -> RenderableType:
    """Delayed jobs, by queue."""
    rows = [(name, *counts.values()) for name, counts in whole["delayed"].items()]
    if not rows:
        return Text("Nothing is delayed.\n")
    return table("Delayed", ("queue", "#total", "#ready now", "#ready in hour"), rows)


def regions_table(whole: dict[str, Any]) -> RenderableType:
    """What waits and runs, by region."""
    rows = []
    for name, region in whole["regions"].items():
        current = region["current_job"]
        jobs = region.get("current_jobs", [current] if current else [])
        more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
        shown = f"{current['job_id']}{more}" if current else None
        rows.append((name, region["queue_size"], region["retry_queue_size"], len(jobs), shown))
    if not rows:
        return Text("No region has a job or had a worker so far.\n")
    columns = ("region", "#queue size", "#retry queue size", "#running", "=current job")
    return table("Regions", columns, rows)


def recent_table(whole: dict[str, Any]) -> list[RenderableType]:
    """How attempts went in the last minute, by queue and region."""
    rows = recent_rows(whole)
    if not rows:
        return []
    columns = (
        "queue", "region", "#starts", "#ok", "#retries", "#ok", "#moved", "#p99 wait", "#saved",
        "breaker",
    )  # fmt: skip
    return [table("The last minute", columns, rows)]


def recent_rows(whole: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The last minute of each queue and region, a row each."""
    return [
        (
            queue,
            region,
            each["started"],
            share(each["success_rate"]),
            each["retries_started"],
            share(each["retry_success_rate"]),
            share(each["retries_elsewhere"]),
            seconds(each["retry_wait_p99"], "≤"),
            seconds(each["time_saved_mean"]),
            breaker(each, whole["now"]),
        )
        for queue, regions in whole["recent"].items()
        for region, each in regions.items()
    ]


def breaker(region: dict[str, Any], now: float) -> Text:
    """Whether it is open, and in how many seconds the next probe may start."""
    if region["breaker"] != "open":
        return Text("closed", "green")
    at = region["next_probe_at"]
    return Text("open" if at is None or at <= now else f"open, {at - now:.0f} s", "bold red")


def share(value: float | None) -> str | None:
    """A share in per cent."""
    return None if value is None else f"{value:.0%}"


def seconds(value: float | None, before: str = "") -> str | None:
    """A wait in seconds."""
    return None if value is None else f"{before}{value:.3g} s"


def fleets_table(whole: dict[str, Any]) -> list[RenderableType]:
    """The processes of supervisors, by kind."""
    rows = [
        (name, kind, each["running"], each["wanted"], each["why"], last_exit(each["exits"]))
        for name, fleet in whole["fleets"].items()
        for kind, each in fleet["kinds"].items()
    ]
    columns = ("fleet", "kind", "#running", "#wanted", "~why", "~last exit")
    return [table("Fleets", columns, rows)] if rows else []


def last_exit(exits: Sequence[dict[str, Any]]) -> str | None:
    """How the last process of a kind ended."""
    return exits[-1]["reason"] if exits else None


def workers_table(whole: dict[str, Any]) -> RenderableType:
    """The workers of each region."""
    rows = [
        (
            called(each),
            each["region"],
            ", ".join(each["queues"]) + (f" (only {each['only']})" if each["only"] else ""),
            Text("yes", "green") if each["live"] else Text("no", "red"),
            f"{each['running']}/{each['concurrency']}",
            *process_of(each),
            f"{span(whole['now'] - each['beat_at'])} ago",
        )
        for each in whole["workers"]
    ]
    if not rows:
        return Text("No worker; start one with: mulligan worker APP\n")
    columns = ("=worker", "region", "queues", "live", "#running", "#pid", "#memory", "#beat")
    return table("Workers", columns, rows)


def process_of(worker: dict[str, Any]) -> tuple[str, str]:
    """The pid of a worker's process, and the memory that it uses; empty where it does not say."""
    about = worker.get("about")
    if about is None:
        return "", ""
    memory = about["memory"]
    return str(about["pid"]), "" if memory is None else f"{memory / 2**20:.0f} MiB"


def called(worker: dict[str, Any]) -> Text:
    """A worker's name, if it was given one, above its id."""
    said = [printable(worker[field]) for field in ("name", "id") if worker[field]]
    return Text("\n".join(said))
