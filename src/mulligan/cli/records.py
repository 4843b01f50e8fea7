"""What a job has recorded, as commands show it."""

from typing import Any

from msgspec import UNSET, convert, to_builtins
from rich.console import Console
from rich.text import Text

from mulligan.cli.group import printable
from mulligan.cli.show import as_json, moment, table
from mulligan.core.record import Checkpoint, LogLine, Progress, Records, Step

# Characters of a bar.
BAR = 20
RESULT = 80


def records_json(records: Records) -> dict[str, Any]:
    """The records as the fields of a document: those that there are."""
    said: dict[str, Any] = to_builtins(records)
    return {name: value for name, value in said.items() if value}


def read_records(document: dict[str, Any]) -> Records:
    """The records in a document of a server."""
    return convert({name: document.get(name) for name in document if document.get(name)}, Records)


def print_records(out: Console, records: Records) -> None:
    """Progress, checkpoint, steps and log, as far as there are any."""
    if records.progress is not None:
        out.print()
        out.print(Text.assemble(("Progress  ", "bold"), progress_text(records.progress)))
    if records.checkpoint is not None:
        out.print()
        out.print(
            Text.assemble(("Checkpoint  ", "bold"), checkpoint_text(records.checkpoint)),
            soft_wrap=True,
        )
    if records.steps:
        out.print()
        rows = [(each.name, moment(each.at), result_text(each)) for each in records.steps]
        out.print(table("Steps", ("step", "recorded", "~result"), rows))
    if records.log:
        out.print()
        out.print(Text("Log", "bold"))
        for line in records.log:
            out.print(log_text(line), soft_wrap=True)


def progress_text(progress: Progress) -> Text:
    """How far the job is, with a bar where it is known of how much."""
    parts = [f"{progress.done:g}" + ("" if progress.of is None else f" of {progress.of:g}")]
    if (share := progress.share) is not None:
        filled = round(share * BAR)
        parts = [f"[{'#' * filled}{'.' * (BAR - filled)}] {share:.0%}", *parts]
    if progress.note:
        parts.append(printable(progress.note))
    return Text("  ".join(parts))


def checkpoint_text(checkpoint: Checkpoint) -> str:
    """Where a later attempt goes on, and since when."""
    value = size_text(checkpoint.size) if checkpoint.value is UNSET else as_json(checkpoint.value)
    return f"{printable(value)}  ({moment(checkpoint.at)})"


def result_text(step: Step) -> str:
    """The result of a step, shortened; of a long one its size."""
    if step.result is UNSET:
        return size_text(step.size)
    written = as_json(step.result)
    return written if len(written) <= RESULT else written[: RESULT - 1] + "…"


def log_text(line: LogLine) -> Text:
    """A line, and when it was logged."""
    return Text.assemble((moment(line.at) or "", "dim"), "  ", printable(line.text))


def size_text(size: int) -> str:
    """The length of a value that is not shown."""
    return f"({size} bytes)"
