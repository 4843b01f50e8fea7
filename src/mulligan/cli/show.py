"""Prints tables for people and JSON for programs."""

import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

import click
import msgspec
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from mulligan.cli.group import printable
from mulligan.core.errors import UNREADABLE
from mulligan.core.job import Attempt, Job
from mulligan.core.limits import costs_of

# A pipe or file has no width, and programs that cut columns need whole lines.
NO_WIDTH = 160
# Wider than any table. A long text gets at least so much room, or a line of its own below.
ENDLESS, LEAST_TEXT, INDENT = 10_000, 30, 4
NOTHING = "-"
STYLES = {
    "done": "green",
    "failed": "red",
    "cancelled": "dim",
    "processing": "cyan",
    "pending": "",
}
MINUTE, HOUR, DAY = 60, 3600, 86_400
# Characters that JSON need not escape, but that move a terminal's cursor or end a line.
CONTROLS = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029)}


class SafeConsole(Console):
    """A console that shows control characters as they are written in source code.

    Whatever a store or a server says may be shown with it.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments of what is shown, without control characters but for ends of lines."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable_lines(segment.text), segment.style)


def printable_lines(text: str) -> str:
    """Text of unknown origin as a terminal may show it, with its lines."""
    return "\n".join(map(printable, text.split("\n")))


def console(*, stderr: bool = False) -> Console:
    """The console for tables, which reads no markup in them."""
    made = SafeConsole(stderr=stderr, markup=False, highlight=False, emoji=False)
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


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> "Listing":
    """A table. A column named `#…` holds numbers, `~…` long text, `=…` what must not be cut."""
    return Listing(title, columns, [[cell(value) for value in row] for row in rows])


class Listing:
    """A table that fits where it is shown.

    Where space is short, long texts go below their rows. Names are never wrapped: where they do
    not fit they are cut, with an ellipsis.
    """

    def __init__(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
        self._title = title
        self._columns = columns
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The whole table, or the columns that fit, with long texts below each row."""
        long = [at for at, column in enumerate(self._columns) if column.startswith("~")]
        short = [at for at in range(len(self._columns)) if at not in long]
        if self._title:
            yield Text(self._title, "bold")
        anywhere = options.update(max_width=ENDLESS)
        least = Measurement.get(console, anywhere, self._made(short)).maximum
        if least + (LEAST_TEXT + 1) * len(long) <= options.max_width:
            yield self._made(range(len(self._columns)))
        else:
            yield from self._narrow(console, options, short, long)

    def _narrow(
        self, console: Console, options: ConsoleOptions, short: Sequence[int], long: Sequence[int]
    ) -> RenderResult:
        made = self._made(short, narrow=True)
        if not long:
            yield made
            return
        lines = console.render_lines(made, options)
        head = len(lines) - len(self._rows) - 1
        for number, line in enumerate(lines):
            yield from line
            yield Segment.line()
            if 0 <= (row := number - head) < len(self._rows):
                yield from self._below(self._rows[row], long)

    def _below(self, row: Sequence[Text], long: Sequence[int]) -> RenderResult:
        """The long texts of a row; where there are several, each with the name of its column."""
        for at in long:
            if row[at].plain != NOTHING:
                name = f"{self._columns[at][1:]}: " if len(long) > 1 else ""
                yield Padding(Text.assemble((name, "dim"), row[at]), (0, 0, 0, INDENT))

    def _made(self, chosen: Iterable[int], *, narrow: bool = False) -> Table:
        """The table of some columns."""
        made = Table(
            box=box.SIMPLE_HEAD, padding=0 if narrow else (0, 1, 0, 0), pad_edge=False,
        )  # fmt: skip
        numbers = list(chosen)
        for at in numbers:
            column = self._columns[at]
            name = column.lstrip("#~=")
            if column.startswith("#"):
                shown = name.replace(" ", "\n") if narrow else name
                made.add_column(shown, justify="right", no_wrap=True)
            elif column.startswith("~"):
                made.add_column(name, overflow="fold", ratio=1)
            elif column.startswith("="):
                made.add_column(name, no_wrap=True, min_width=self._longest(at, "\n"))
            elif narrow and len(numbers) < len(self._columns):
                made.add_column(name, overflow="ellipsis", no_wrap=True)
            else:
                made.add_column(name, overflow="fold", min_width=self._longest(at))
        for row in self._rows:
            made.add_row(*(row[at] for at in numbers))
        return made

    def _longest(self, at: int, between: str | None = None) -> int:
        """The width of the longest word in a column, or of the longest line."""
        texts = [self._columns[at].lstrip("="), *(row[at].plain for row in self._rows)]
        return max(cell_len(part) for text in texts for part in text.split(between))


def cell(value: Any) -> Text:
    """A value as text for a table."""
    if isinstance(value, Text):
        plain = value.plain.replace("\n", "")
        return value if plain.isprintable() else Text(printable_lines(value.plain), value.style)
    if value is None or value == "":
        return Text(NOTHING, "dim")
    if value == 0 and isinstance(value, int) and not isinstance(value, bool):
        return Text("0", "dim")
    return Text(printable(str(value)))


def coloured(status: str) -> Text:
    """A status in its colour."""
    return Text(status, STYLES.get(status, ""))


def moment(at: float | None) -> str | None:
    """A time in the local time zone, for people to read."""
    if at is None:
        return None
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    except (OverflowError, ValueError, OSError):  # a year beyond what datetime can show
        return f"{at:g} s after 1970"


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
    fields["limits"] = dict(costs_of(job.limits))
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
    """A value as JSON on one line, safe to print on a terminal."""
    return msgspec.json.encode(value).decode().translate(CONTROLS)


def progress(*, wanted: bool = True) -> Progress:
    """A progress bar on stderr, if that is a terminal."""
    shown = console(stderr=True)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        console=shown,
        transient=True,
        disable=not (wanted and shown.is_terminal),
    )
