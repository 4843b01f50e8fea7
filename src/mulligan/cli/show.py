"""How things are printed: tables for people, JSON for programs."""

import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

import click
import msgspec
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from mulligan.cli.group import printable
from mulligan.core.errors import UNREADABLE
from mulligan.core.job import Attempt, Job

# Neither a pipe nor a file has a width; programs that cut columns want them whole.
NO_WIDTH = 160
STYLES = {
    "done": "green",
    "failed": "red",
    "cancelled": "dim",
    "processing": "cyan",
    "pending": "",
}
MINUTE, HOUR, DAY = 60, 3600, 86_400
# Codes that JSON may hold as they are, and that move the cursor of a terminal or end a line.
CONTROLS = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029)}


def console(*, stderr: bool = False) -> Console:
    """Where tables go; nothing in them is read as markup."""
    made = Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = piped_width()
    return made


def piped_width() -> int:
    """The width of the terminal at the end of the pipe, as far as stderr can tell."""
    try:
        return os.get_terminal_size(2).columns
    except OSError:
        return NO_WIDTH


def print_json(value: Any) -> None:
    """One JSON document, readable by people too."""
    click.echo(msgspec.json.format(as_json(value), indent=2))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """A table. A column named `#…` holds numbers, `~…` long text, `=…` what must not be cut."""
    made = Table(
        title=title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0), pad_edge=False,
    )  # fmt: skip
    for column in columns:
        name = column.lstrip("#~=")
        if column.startswith("#"):
            made.add_column(name, justify="right", no_wrap=True)
        elif column.startswith("~"):
            made.add_column(name, overflow="fold", ratio=1)
        elif column.startswith("="):
            made.add_column(name, no_wrap=True)
        else:
            made.add_column(name, overflow="fold")
    for row in rows:
        made.add_row(*(cell(value) for value in row))
    return made


def cell(value: Any) -> Text:
    """A value as a table shows it."""
    if isinstance(value, Text):
        return value
    if value is None or value == "":
        return Text("-", "dim")
    if value == 0 and isinstance(value, int) and not isinstance(value, bool):
        return Text("0", "dim")
    return Text(printable(str(value)))


def coloured(status: str) -> Text:
    """A status in its colour."""
    return Text(status, STYLES.get(status, ""))


def moment(at: float | None) -> str | None:
    """A time as people read it, here."""
    return None if at is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def span(seconds: float) -> str:
    """A duration as people say it."""
    seconds = max(0.0, seconds)
    for size, unit in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s"


def job_json(job: Job, history: Sequence[Attempt] | None = None) -> dict[str, Any]:
    """A job as JSON: body and result decoded."""
    fields = {name: getattr(job, name) for name in job.__struct_fields__}
    fields["lane"] = job.lane.label
    fields["body"] = decoded(job.body)
    fields["result"] = None if job.result is None else decoded(job.result)
    if history is not None:
        fields["history"] = [msgspec.structs.asdict(attempt) for attempt in history]
    return fields


def decoded(data: bytes) -> Any:
    """JSON as values; what is not JSON as text."""
    try:
        return msgspec.json.decode(data)
    except UNREADABLE:
        return data.decode("utf-8", "replace")


def as_json(value: Any) -> str:
    """A value as JSON on one line, which no terminal takes for more."""
    return msgspec.json.encode(value).decode().translate(CONTROLS)


def progress(*, wanted: bool = True) -> Progress:
    """A bar on stderr, seen on a terminal only."""
    shown = console(stderr=True)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        console=shown,
        transient=True,
        disable=not (wanted and shown.is_terminal),
    )
