"""The demo on a terminal."""

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from mulligan.cli.demo.state import EVENTS_KEPT, DemoState

BAR, WIDEST = 20, 100


def picture(state: DemoState, width: int) -> RenderableType:
    """The state as it is now, in at most so many columns."""
    lanes = Table.grid(padding=(0, 2, 0, 0))
    for fixed in (7, BAR, 8, None):
        lanes.add_column(no_wrap=True, width=fixed)
    for name in state.regions:
        region = state.region(name)
        job = region["current_job"]
        if name in state.dead_regions:
            running = Text("worker killed", "bold red")
        else:
            running = Text(f"running {job['job_id']}", "cyan") if job else Text("idle", "dim")
            if job and job["retry_count"]:
                running.append(" (retry)", "green")
        waiting = region["queue_size"]
        lanes.add_row(Text(name, "bold"), bar(waiting, "blue"), Text(f"{waiting:>3} wait"), running)
    due = state.status.get("global_retry_queue_size", 0)
    lanes.add_row(
        Text("retries", "bold yellow"),
        bar(due + state.backing_off, "yellow"),
        Text(f"{due:>3} wait"),
        Text(f"+ {state.backing_off} backing off, for any region"),
    )
    parts: list[RenderableType] = [lanes, Text(), numbers(state), Text(), events(state)]
    title = f"mulligan demo · {state.elapsed:4.1f} s"
    return Panel(
        Group(*parts), title=title, title_align="left", border_style="dim", width=min(width, WIDEST)
    )


def bar(count: int, style: str) -> Text:
    """A bar with one block per job."""
    length = min(count, BAR)
    return Text("█" * length, style).append("·" * (BAR - length), "dim")


def numbers(state: DemoState) -> Text:
    """How many jobs are done, running and waiting."""
    failed = state.count("failed")
    return Text.assemble(
        ("done ", "bold"), (f"{state.count('done')}", "bold green"), f" of {state.total}",
        ("   retries ", "bold"), str(state.retries),
        f", {state.elsewhere} taken by another region",
        ("   dead letters ", "bold"), (str(failed), "red" if failed else ""),
    )  # fmt: skip


def events(state: DemoState) -> Text:
    """The last few events, always the same number of lines."""
    lines = Text(no_wrap=True, overflow="ellipsis")
    for event in state.events:
        lines.append(f"{event.region:<5} ", "bold").append(f"{event.text}\n", event.style)
    return lines.append("\n" * (EVENTS_KEPT - len(state.events) - 1))
