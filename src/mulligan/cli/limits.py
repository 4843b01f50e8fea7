"""`limits` and `fairness`: what may start, and whose turn it is."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import click
from msgspec import UNSET, to_builtins
from rich.text import Text

from mulligan.app import stored_limits as kept
from mulligan.cli.find_app import (
    about_a_store,
    about_an_app_or_store,
    find_app,
    json_option,
    with_store,
)
from mulligan.cli.group import printable
from mulligan.cli.show import console, print_json, table
from mulligan.core.checks import check_name, span
from mulligan.core.errors import InvalidError
from mulligan.core.key_share import KeyShare
from mulligan.core.limits import LimitView
from mulligan.core.status import names
from mulligan.stores.contract import Store

T = TypeVar("T")
Said = tuple[LimitView | None, float]
name_argument = click.argument("name", metavar="NAME")
MOST_SHOWN = 50


@click.group()
def limits() -> None:
    """List and change limits: how many jobs that name one may run, and how many may start.

    Apps declare them. What is set here wins until it is reset, and holds at once.
    """


@limits.command("list")
@json_option
@about_an_app_or_store
def list_(*, named: str | None, as_json: bool, app: str | None, store: str | None) -> None:
    """List limits with who runs, who waits, and when there is room."""

    async def read(opened: Store) -> tuple[list[LimitView], float]:
        return await kept.list_limits(opened), (await opened.facts()).now

    views, now = with_store(find_app(named, app, store, looks=True), read)
    if as_json:
        print_json({"limits": to_builtins(views)})
        return
    if not views:
        click.echo("No limits.")
        return
    columns = ("=name", "~allows", "by", "#running", "#waiting", "#used", "room", "state")
    console().print(table("", columns, [row(view, now) for view in views]))
    if len(views) == kept.MOST_LISTED:
        click.echo(f"note: these are the first {kept.MOST_LISTED:,} by name", err=True)


@limits.command("set")
@name_argument
@click.option("--rate", type=int, metavar="N", help="The sum of costs that may start in --per.")
@click.option("--per", type=float, metavar="SECONDS", help="The window of the rate.")
@click.option("--burst", type=int, metavar="N", help="The size of a token bucket.")
@click.option("--concurrency", type=int, metavar="N", help="How many may run at a time.")
@click.option("--pause-on-retry-after/--no-pause-on-retry-after", default=None,
              help="Whether a Retry-After of one job pauses all.")  # fmt: skip
@click.option("--no-rate", is_flag=True, help="Let any number start.")
@click.option("--no-burst", is_flag=True, help="Count in any window of --per instead.")
@click.option("--no-concurrency", is_flag=True, help="Let any number run at a time.")
@json_option
@about_a_store
def set_(
    name: str,
    *,
    no_rate: bool,
    no_burst: bool,
    no_concurrency: bool,
    as_json: bool,
    app: str | None,
    store: str | None,
    **options: Any,
) -> None:
    """Set a limit until it is reset; what is not given stays as it is in force.

    It holds at once, for all workers. A lower limit takes nothing back.
    """
    said = {field: UNSET if value is None else value for field, value in options.items()}
    taken = {"rate": no_rate, "burst": no_burst, "concurrency": no_concurrency}
    for field in [field for field, is_taken in taken.items() if is_taken]:
        if said[field] is not UNSET:
            raise InvalidError(f"--{field} {said[field]} and --no-{field}: give one of them")
        said[field] = None

    async def work(opened: Store) -> tuple[Said, bool]:
        known = await kept.seen_limit(opened, name) is not None
        await kept.set_limit(opened, name, kept.changes(**said))
        return (await kept.seen_limit(opened, name), (await opened.facts()).now), known

    found, known = changed(app, store, work)
    tell(name, found, "set", as_json=as_json)
    if not known:
        click.echo(f"note: limit {name!r} is declared by no app so far", err=True)


@limits.command()
@name_argument
@json_option
@about_a_store
def reset(name: str, *, as_json: bool, app: str | None, store: str | None) -> None:
    """Undo `set`: what apps declare holds again."""

    async def work(opened: Store) -> tuple[Said, bool]:
        was_set = (await kept.find_limit(opened, name)).stored.set is not None
        await kept.reset_limit(opened, name)
        return (await kept.seen_limit(opened, name), (await opened.facts()).now), was_set

    found, was_set = changed(app, store, work)
    tell(name, found, "reset" if was_set else "was not set", as_json=as_json)


@limits.command()
@name_argument
@click.argument("seconds", metavar="SECONDS", type=float)
@json_option
@about_a_store
def pause(name: str, seconds: float, *, as_json: bool, app: str | None, store: str | None) -> None:
    """Start no job of the limit for so long; running ones go on."""

    async def work(opened: Store) -> Said:
        await kept.pause_limit(opened, name, seconds)
        return await kept.find_limit(opened, name), (await opened.facts()).now

    found = changed(app, store, work)
    tell(name, found, f"paused for {span(seconds)}", as_json=as_json)


@limits.command()
@name_argument
@json_option
@about_a_store
def resume(name: str, *, as_json: bool, app: str | None, store: str | None) -> None:
    """End a pause."""

    async def work(opened: Store) -> tuple[Said, bool]:
        was_paused = (await kept.find_limit(opened, name)).paused_until is not None
        await kept.resume_limit(opened, name)
        return (await kept.find_limit(opened, name), (await opened.facts()).now), was_paused

    found, was_paused = changed(app, store, work)
    tell(name, found, "resumed" if was_paused else "was not paused", as_json=as_json)


def changed(
    app: str | None, store: str | None, work: Callable[[Store], Coroutine[Any, Any, T]]
) -> T:
    """Change limits of a store, which then has what the app declares, if one was named."""
    found = find_app(None, app, store)

    async def change(opened: Store) -> T:
        await kept.store_missing(opened, found.declared_limits)
        return await work(opened)

    return with_store(found, change, writes=True)


def tell(name: str, said: Said, done: str, *, as_json: bool) -> None:
    """Print what became of a limit."""
    view, _ = said
    if as_json:
        print_json({"name": name, "in_force": None} if view is None else to_builtins(view))
        return
    in_force = None if view is None else view.in_force
    words = "no limit any more" if in_force is None else str(in_force)
    click.echo(f"{printable(name)}: {done}; {words}")


def row(view: LimitView, now: float) -> tuple[Any, ...]:
    """A limit as a line of a table."""
    family = view.stored.in_force is None
    by = "its family" if family else "operator" if view.stored.set else "app"
    state = Text("open", "green")
    if view.paused_until is not None:
        state = Text(f"paused for {span(view.paused_until - now)}", "yellow")
    elif view.waiting and (view.room_at is None or view.room_at > now):
        state = Text("full", "cyan")
    allows = "anything" if view.in_force is None else str(view.in_force)
    return view.name, allows, by, view.running, view.waiting, view.used, room(view, now), state


def room(view: LimitView, now: float) -> str:
    """When a job of cost 1 has room."""
    if view.room_at is None:
        return "when one ends"
    return "now" if view.room_at <= now else f"in {span(view.room_at - now)}"


@click.command()
@click.argument("queue", metavar="QUEUE")
@click.option("--weight", "weights", multiple=True, metavar="KEY=W",
              help="Give a key this weight; may be repeated.")  # fmt: skip
@click.option("--by", "by", type=click.Choice(("waiting", "share")), default="waiting",
              show_default=True, help="Which keys come first.")  # fmt: skip
@click.option("-n", "--count", type=click.IntRange(1, kept.MOST_KEYS), default=MOST_SHOWN,
              show_default=True, help="How many keys.")  # fmt: skip
@json_option
@about_a_store
def fairness(
    queue: str,
    *,
    weights: tuple[str, ...],
    by: str,
    count: int,
    as_json: bool,
    app: str | None,
    store: str | None,
) -> None:
    """Show the fairness keys of a queue that have work waiting, with weights and shares.

    A share is what a key gets of the starts of its lane while all of these have work and room.
    With --weight, keys get other weights first: at once, and until an app that sets the queue
    starts.
    """
    check_name("queue", queue)
    given = dict(map(weight_of, weights))

    async def read(opened: Store) -> tuple[list[KeyShare], list[str]]:
        if given:
            await kept.set_weights(opened, queue, given)
        found = await kept.key_shares(opened, queue)
        known = names(await opened.stats(), await opened.facts())
        return found, known

    found, known = with_store(find_app(None, app, store), read, writes=bool(given))
    if by == "share":
        found.sort(key=lambda each: (-each.share, -each.waiting, each.key))
    if as_json:
        print_json({"queue": queue, "keys": to_builtins(found[:count])})
    elif not found:
        click.echo("No fairness key has work waiting.")
    else:
        columns = ("=key", "lane", "region", "#waiting", "#weight", "#share", "#turns ahead")
        rows = [
            (each.key, each.lane, each.region, each.waiting, f"{each.weight:g}",
             f"{each.share:.1%}", f"{each.turns:.3g}")
            for each in found[:count]
        ]  # fmt: skip
        console().print(table("", columns, rows))
        if len(found) > count:
            click.echo(f"{len(found) - count} more; see them with -n {len(found)}")
    if queue not in known:
        click.echo(f"note: queue {queue!r} has no job, worker or setting so far", err=True)


def weight_of(text: str) -> tuple[str, float]:
    """A key and its weight; the key may have an equals sign too."""
    key, _, weight = text.rpartition("=")
    try:
        number = float(weight)
    except ValueError:
        number = None
    if not key or number is None:
        raise InvalidError(f"--weight {text!r} must be a fairness key and a number: acme=3")
    return key, number
