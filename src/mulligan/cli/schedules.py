"""`schedules`: calls that run by themselves."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import click
from msgspec import to_builtins

from mulligan.app import schedules as kept
from mulligan.cli.enqueue import call_options, chosen_options, keyword_of, value_of
from mulligan.cli.find_app import (
    about_a_store,
    about_an_app_or_store,
    find_app,
    json_option,
    load_app,
    with_store,
)
from mulligan.cli.group import printable
from mulligan.cli.show import console, print_json, table
from mulligan.core.checks import span
from mulligan.core.errors import InvalidError
from mulligan.core.schedule import CATCH_UPS, check_catch_up, check_timing
from mulligan.core.schedule_view import SHOWN_TICKS, ScheduleView
from mulligan.stores.contract import Store

MOST_TICKS = 1000
cron_option = click.option("--cron", help="Five fields, or six with seconds in front.")
every_option = click.option("--every", type=float, metavar="SECONDS", help="Every so many seconds.")
zone_option = click.option(
    "--timezone", metavar="ZONE", help="That of --cron, such as Europe/Berlin."
)
name_argument = click.argument("name", metavar="NAME")


@click.group()
def schedules() -> None:
    """List and change calls that run by themselves.

    Tasks with cron= or every= are among them while a live worker declares them.
    """


@schedules.command("list")
@json_option
@about_an_app_or_store
def list_(*, named: str | None, as_json: bool, app: str | None, store: str | None) -> None:
    """List schedules with their next and last ticks."""

    async def read(opened: Store) -> tuple[list[ScheduleView], float]:
        return await kept.list_schedules(opened), (await opened.facts()).now

    views, now = with_store(find_app(named, app, store, looks=True), read)
    if as_json:
        print_json({"schedules": to_builtins(views)})
        return
    if not views:
        click.echo("No schedules.")
        return
    columns = ("=name", "task", "runs", "state", "next tick", "last tick", "#ticks", "~arguments")
    rows = [
        (
            view.name,
            view.task,
            view.timing,
            view.state + (", declared" if view.declared and view.state == "active" else ""),
            moment(view.next_tick, now),
            moment(view.last_tick, now),
            view.ticks,
            arguments(view),
        )
        for view in views
    ]
    console().print(table("", columns, rows))
    for view in views:
        if view.problem is not None:
            click.echo(f"note: {printable(view.problem)}", err=True)


@schedules.command()
@name_argument
@click.argument("task", metavar="[TASK]", required=False)
@click.argument("arguments", metavar="[ARGUMENT]...", nargs=-1)
@cron_option
@every_option
@zone_option
@click.option(
    "--catch-up", type=click.Choice(CATCH_UPS), help="Which missed ticks run; by default one."
)
@call_options
@click.option("--unique-key", help="Skip a tick while a job with the key is unfinished.")
@json_option
@about_a_store
def put(
    name: str,
    task: str | None,
    arguments: Sequence[str],
    *,
    cron: str | None,
    every: float | None,
    timezone: str | None,
    catch_up: str | None,
    keywords: Sequence[str],
    as_json: bool,
    app: str | None,
    store: str | None,
    **options: Any,
) -> None:
    """Have a task run by itself, or change when a schedule runs.

    With a TASK, which needs --app, the schedule is stored or replaced; without, the one of this
    NAME keeps its call. Each ARGUMENT is read as JSON, and as text where it is not JSON. The next
    tick replaces the one that was placed.
    """
    chosen = chosen_options(options)
    if task is None:
        if chosen or keywords:
            raise InvalidError(
                f"schedule {name!r}: options and keywords are those of a call; name its TASK"
            )
        found = find_app(None, app, store)
        timed: dict[str, Any] = {}
        if cron is not None or every is not None or timezone is not None:
            timed |= check_timing(name, cron, every, timezone)
        if catch_up is not None:
            timed["catch_up"] = check_catch_up(catch_up)
        if not timed:
            raise InvalidError(f"schedule {name!r}: nothing is to change; give --cron or --every")

        async def change(opened: Store) -> None:
            await kept.retime_schedule(opened, name, timed)

        said = changed(found, name, change)
    else:
        if not app:
            raise InvalidError(
                f"task {task!r} is looked for in an app, and none is named; give --app"
            )
        found = load_app(app)
        if task not in found.tasks:
            raise InvalidError(f"task {task!r} is not one of {', '.join(found.tasks) or 'none'}")
        args = [value_of(text) for text in arguments]
        call = found.tasks[task].using(**chosen).call(*args, **dict(map(keyword_of, keywords)))
        made = kept.new_schedule(name, call.job, cron, every, timezone, catch_up or "one")
        said = changed(found, name, lambda opened: kept.put_schedule(opened, made), create=True)
    tell(said, as_json, "stored")


@schedules.command()
@name_argument
@json_option
@about_a_store
def pause(name: str, *, as_json: bool, app: str | None, store: str | None) -> None:
    """Tick no more until it is resumed; the tick that is placed is withdrawn."""
    target = find_app(None, app, store)
    said = changed(target, name, lambda opened: kept.pause_schedule(opened, name))
    tell(said, as_json, "paused")


@schedules.command()
@name_argument
@json_option
@about_a_store
def resume(name: str, *, as_json: bool, app: str | None, store: str | None) -> None:
    """Undo a pause. Ticks in it are not made up for."""
    target = find_app(None, app, store)
    said = changed(target, name, lambda opened: kept.resume_schedule(opened, name))
    tell(said, as_json, "resumed")


@schedules.command()
@name_argument
@json_option
@about_a_store
def remove(name: str, *, as_json: bool, app: str | None, store: str | None) -> None:
    """Forget a schedule; the tick that is placed is withdrawn. Jobs that run go on."""
    target = find_app(None, app, store)
    with_store(target, lambda opened: kept.remove_schedule(opened, name), writes=True)
    if as_json:
        print_json({"removed": name})
    else:
        click.echo(f"{printable(name)}: removed")


@schedules.command("run-now")
@name_argument
@json_option
@about_a_store
def run_now(name: str, *, as_json: bool, app: str | None, store: str | None) -> None:
    """Enqueue its call once, now, and print the job's id; its ticks stay as they are."""

    async def enqueue(opened: Store) -> str:
        return (await opened.enqueue([await kept.job_now(opened, name)]))[0].id

    job = with_store(find_app(None, app, store), enqueue, writes=True)
    if as_json:
        print_json({"id": job, "schedule": name})
    else:
        click.echo(job)


@schedules.command("next")
@click.argument("name", metavar="[NAME]", required=False)
@cron_option
@every_option
@zone_option
@click.option("-n", "--count", type=click.IntRange(1, MOST_TICKS), default=SHOWN_TICKS,
              show_default=True, help="How many ticks.")  # fmt: skip
@json_option
@about_a_store
def next_(
    name: str | None,
    *,
    cron: str | None,
    every: float | None,
    timezone: str | None,
    count: int,
    as_json: bool,
    app: str | None,
    store: str | None,
) -> None:
    """Show the next ticks of a schedule, or of --cron or --every before they are stored."""
    if name is None:
        check_timing("next", cron, every, timezone)
        ticks = kept.preview(cron, every, timezone, datetime.now(UTC).timestamp(), count)
    else:
        if cron is not None or every is not None or timezone is not None:
            raise InvalidError(f"schedule {name!r} is given with --cron or --every; give either")

        async def read(opened: Store) -> tuple[ScheduleView, float]:
            return await kept.find_schedule(opened, name), (await opened.facts()).now

        view, now = with_store(find_app(None, app, store, looks=True), read)
        ticks = []
        if view.next_tick is not None:
            ticks = kept.preview(view.cron, view.every, view.timezone, now, count)
    if as_json:
        print_json({"ticks": ticks})
        return
    if not ticks:
        click.echo("It does not tick: it is paused, or no live worker declares it.")
    for tick in ticks:
        click.echo(f"{datetime.fromtimestamp(tick, UTC):%Y-%m-%d %H:%M:%S} UTC")


def changed(
    target: Any, name: str, change: Callable[[Store], Awaitable[None]], *, create: bool = False
) -> tuple[ScheduleView, float]:
    """Change the schedule, and read what became of it."""

    async def work(opened: Store) -> tuple[ScheduleView, float]:
        await change(opened)
        return await kept.find_schedule(opened, name), (await opened.facts()).now

    return with_store(target, work, writes=True, create=create)


def tell(said: tuple[ScheduleView, float], as_json: bool, done: str) -> None:  # noqa: FBT001 - as given
    """Print what became of a schedule."""
    view, now = said
    if as_json:
        print_json(to_builtins(view))
        return
    following = "" if view.next_tick is None else f"; next tick {moment(view.next_tick, now)}"
    click.echo(f"{printable(view.name)}: {done}{following}")


def moment(at: float | None, now: float) -> str | None:
    """A time, and how far away it is."""
    if at is None:
        return None
    away = f"in {span(at - now)}" if at > now else f"{span(now - at)} ago"
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} ({away})"


def arguments(view: ScheduleView) -> str:
    """The arguments of its call, as they are written."""
    words = [repr(each) for each in view.args]
    return ", ".join([*words, *[f"{name}={value!r}" for name, value in view.kwargs.items()]])
