"""A fleet on a terminal: its kinds, its processes, and its last events."""

import time
from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.text import Text

from mulligan.cli.group import printable
from mulligan.cli.show import span, table
from mulligan.core.fleets import FleetState, KindState
from mulligan.supervisor.events import SERIOUS, Event

EVENTS_SHOWN = 8
PHASES = {"running": "green", "starting": "cyan", "draining": "yellow", "resting": "red"}


def picture(state: FleetState, events: Iterable[Event]) -> RenderableType:
    """What a terminal shows while the fleet runs."""
    return Group(
        *parts(state, "running" if state.phase == "running" else "stopping"), event_lines(events)
    )


def status_tables(state: FleetState, *, alive: bool) -> RenderableType:
    """What `--status` shows."""
    return Group(*parts(state, "running" if alive else "not running"), *exits(state))


def parts(state: FleetState, word: str) -> list[RenderableType]:
    """The heading and the two tables."""
    colour = "green" if word == "running" else "yellow"
    heading = Text.assemble(
        ("fleet ", "bold"), f"{printable(state.name)} on {printable(state.host)},",
        f" pid {state.pid}, ", (word, colour), f", for {span(state.at - state.since)}\n",
    )  # fmt: skip
    away = [
        Text(f"! {printable(url)} does not answer: {printable(why)}\n", "yellow")
        for url, why in state.away.items()
    ]
    return [heading, *away, kinds_table(state), processes_table(state)]


def kinds_table(state: FleetState) -> RenderableType:
    """How many of each kind there are and should be, and what waits."""
    rows = [
        (
            name, kind.wanted, Text(str(kind.running), "green" if kind.running else "dim"),
            kind.starting, kind.draining, kind.resting, kind.ready,
            None if not kind.oldest_wait else span(kind.oldest_wait), restart(kind), kind.why,
        )
        for name, kind in state.kinds.items()
    ]  # fmt: skip
    columns = (
        "=kind", "#wanted", "#running", "#starting", "#draining", "#resting", "#depth",
        "#oldest wait", "#next restart", "~why",
    )  # fmt: skip
    return table("Kinds", columns, rows)


def restart(kind: KindState) -> str | None:
    """When the next dead process is restarted."""
    return None if kind.next_restart is None else f"in {span(kind.next_restart - time.time())}"


def processes_table(state: FleetState) -> RenderableType:
    """Every slot that is not empty."""
    rows = [
        (slot.slot, slot.pid, Text(slot.phase, PHASES.get(slot.phase, "")),
         span(slot.age) if slot.pid else None, "adopted" if slot.adopted else None)
        for kind in state.kinds.values()
        for slot in kind.slots
    ]  # fmt: skip
    if not rows:
        return Text("No process runs.\n")
    return table("Processes", ("=slot", "#pid", "phase", "#age", "how"), rows)


def event_lines(events: Iterable[Event]) -> Text:
    """The last few events."""
    lines = Text(no_wrap=True, overflow="ellipsis")
    for event in events:
        clock = time.strftime("%H:%M:%S", time.localtime(event.at))
        style = "red" if event.event in SERIOUS else ""
        lines.append(f"{clock} ", "dim").append(printable(event.sentence), style)
        if event.lines:
            lines.append(f" | {printable(event.lines[-1])}", "dim")
        lines.append("\n")
    return lines


def exits(state: FleetState) -> list[RenderableType]:
    """The last exits of every kind, with the last lines of each."""
    ended = sorted((e for kind in state.kinds.values() for e in kind.exits), key=lambda e: e.at)
    if not ended:
        return []
    lines = Text("Last exits\n", "bold")
    for each in ended:
        clock = time.strftime("%H:%M:%S", time.localtime(each.at))
        lines.append(f"{clock} ", "dim not bold")
        lines.append(f"{each.slot} (pid {each.pid}) {printable(each.reason)}\n", "not bold")
        for line in each.lines[-3:]:
            lines.append(f"           {printable(line)}\n", "dim not bold")
    return [lines]
