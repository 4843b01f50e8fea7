"""`supervise`: runs a fleet of workers as a file says."""

import asyncio
import contextlib
import logging
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.live import Live

from mulligan.cli.app_facts import read_app_facts
from mulligan.cli.find_app import json_option
from mulligan.cli.fleet_view import EVENTS_SHOWN, picture, status_tables
from mulligan.cli.group import RefusalError, printable
from mulligan.cli.logs import iso, set_up
from mulligan.cli.show import as_json as one_line
from mulligan.cli.show import console, print_json
from mulligan.cli.signs import signs_of_life
from mulligan.core.errors import MulliganError
from mulligan.stores import redact
from mulligan.supervisor.events import SERIOUS, Event
from mulligan.supervisor.fleet import Fleet, Kind
from mulligan.supervisor.fleet_file import AppFacts, load_fleet
from mulligan.supervisor.liveness import LOCK, is_held
from mulligan.supervisor.supervisor import Supervisor, read_state

log = logging.getLogger("mulligan.supervisor")
DRAW_EVERY = 0.25
# How many of a dead process's last lines to repeat: between them were lines of other processes.
LAST_LINES = 3


@click.command()
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--status", "as_status", is_flag=True, help="Show the state of the fleet, and exit.")
@click.option("--check", "only_check", is_flag=True, help="Check the file, and exit.")
@click.option("--plain", is_flag=True, help="Print lines instead of a live table.")
@json_option
def supervise(file: Path, *, as_status: bool, only_check: bool, plain: bool, as_json: bool) -> None:
    """Run a fleet of workers as a file says.

    Workers are started when jobs wait for them, replaced when they are old or too large, and
    restarted when they die. If the supervisor itself dies, the next one takes over its workers.
    SIGHUP reads the file again. SIGTERM or Ctrl-C drains all workers and ends; a second one ends
    them at once. Exit code 0 if all ended in order, 1 if one had to be killed or cut jobs off.
    """
    fleet = load_fleet(file, no_app_facts if as_status else read_app_facts)
    if only_check:
        check(fleet, as_json=as_json)
    elif as_status:
        show_status(fleet, as_json=as_json)
    else:
        live = sys.stdout.isatty() and not (plain or as_json)
        clean = asyncio.run(run(fleet, live=live, as_json=as_json))
        if not clean:
            raise RefusalError("not every process could end in order; jobs were cut off", 1)


def check(fleet: Fleet, *, as_json: bool) -> None:
    """Print the fleet file with every default filled in."""
    if as_json:
        kinds = {kind.name: shown(kind) for kind in fleet.kinds.values()}
        print_json({"name": fleet.name, "state": str(fleet.state), "kinds": kinds})
        return
    for kind in fleet.kinds.values():
        number = "one" if kind.service else f"{kind.min} to {kind.max_concurrent}"
        what = kind.app or " ".join(kind.command) or redact(kind.store)
        click.echo(f"{kind.name}: {number} of {what}")
    click.echo(f"{fleet.file} is good")


def shown(kind: Kind) -> dict[str, Any]:
    """A kind without values that may be secret."""
    open_ = msgspec.structs.replace(kind, store=redact(kind.store), env={})
    fields: dict[str, Any] = msgspec.to_builtins(open_)
    return fields


def no_app_facts(_app: str, _env: Mapping[str, str]) -> AppFacts:
    """Empty facts, where the app does not matter and need not be imported."""
    return AppFacts("sqlite:///", (), 1)


def show_status(fleet: Fleet, *, as_json: bool) -> None:
    """Show the state that the file's supervisor wrote last."""
    state = read_state(fleet.state)
    if state is None:
        raise MulliganError(
            f"no supervisor has run on {fleet.state} yet; start one with:"
            f" mulligan supervise {fleet.file}"
        )
    alive = is_held(fleet.state / LOCK)
    if as_json:
        print_json({"alive": alive, **msgspec.to_builtins(state)})
    else:
        console().print(status_tables(state, alive=alive))
    if not alive:
        click.get_current_context().exit(1)


async def run(fleet: Fleet, *, live: bool, as_json: bool) -> bool:
    """Supervise until stopped; whether all ended in order."""
    if live:
        return await run_live(fleet)
    if not as_json:
        set_up("info", "text")
    supervisor = Supervisor(
        fleet, lambda: load_fleet(fleet.file, read_app_facts), print_event if as_json else log_event
    )
    async with signs_of_life():
        await supervisor.run()
    return supervisor.clean


async def run_live(fleet: Fleet) -> bool:
    """Supervise with a table that changes."""
    events: deque[Event] = deque(maxlen=EVENTS_SHOWN)

    def on_event(event: Event) -> None:
        if event.event != "line":
            events.append(event)

    supervisor = Supervisor(fleet, lambda: load_fleet(fleet.file, read_app_facts), on_event)
    running = asyncio.ensure_future(supervisor.run())
    screen = Live(console=console(), auto_refresh=False)
    async with signs_of_life():
        with screen:
            while not running.done():
                screen.update(picture(supervisor.state(), events), refresh=True)
                await asyncio.wait([running], timeout=DRAW_EVERY)
            with contextlib.suppress(MulliganError):
                screen.update(picture(supervisor.state(), events), refresh=True)
    await running
    return supervisor.clean


def log_event(event: Event) -> None:
    """One line on stderr, and the last lines of a dead process after it."""
    if event.event == "line":
        click.echo(printable(event.sentence), err=True)
        return
    level = logging.WARNING if event.event in SERIOUS else logging.INFO
    log.log(level, "%s", event.sentence)
    for line in event.lines[-LAST_LINES:]:
        log.log(level, "    %s", line)


def print_event(event: Event) -> None:
    """One JSON object on stdout."""
    fields: dict[str, Any] = msgspec.to_builtins(event)
    fields["at"] = iso(event.at)
    fields["text"] = printable(event.text)
    click.echo(one_line(fields))
    sys.stdout.flush()
