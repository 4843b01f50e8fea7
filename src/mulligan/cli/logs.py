"""What a worker writes: one line per event, as text or as JSON."""

import json
import logging
import sys
import sysconfig
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Literal

from mulligan.cli.group import printable
from mulligan.engine.current import RUNNING
from mulligan.engine.job_log import JOB_FIELDS, TRACE_FIELDS, job_fields, span_ids

LogFormat = Literal["text", "json", "app"]
LEVELS = ("debug", "info", "warning", "error")


class JsonLines(logging.Formatter):
    """Records as JSON objects: time, level, logger, message, and the traceback of an exception.

    Lines about a job have its id, and so have those that a task logs while it runs, with the ids of
    the trace and the span if the app is traced. A worker that has a name adds it.
    """

    def __init__(self, name: str = "") -> None:
        super().__init__()
        self._name = {"name": name} if name else {}

    def format(self, record: logging.LogRecord) -> str:
        """The record on one line, in ASCII: nothing in it can end the line or move a cursor."""
        fields: dict[str, Any] = {
            "time": iso(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._name,
            **concerned(record),
        }
        if (said := traceback_in(record, self)) is not None:
            fields["exception"] = said
        return json.dumps(fields | ids_of_trace(record), default=str)


def concerned(record: logging.LogRecord) -> dict[str, Any]:
    """The job that a record is about: the one that it names, else the one whose task logged it.

    Empty for a line about none.
    """
    said = {name: getattr(record, name) for name in JOB_FIELDS if hasattr(record, name)}
    claim = RUNNING.get(None)
    return job_fields(claim) if claim is not None and "job" not in said else said


def ids_of_trace(record: logging.LogRecord) -> dict[str, str]:
    """The ids that a record of a child process brings along, else those of the current span."""
    said = {name: getattr(record, name) for name in TRACE_FIELDS if hasattr(record, name)}
    return said or span_ids()


def traceback_in(record: logging.LogRecord, formatter: logging.Formatter) -> str | None:
    """The traceback of a record: of a failed attempt the one that the job's history keeps."""
    if hasattr(record, "traceback"):
        return record.traceback if isinstance(record.traceback, str) else None
    # A record of a child process has its traceback as text alone.
    return formatter.formatException(record.exc_info) if record.exc_info else record.exc_text


class TextLines(logging.Formatter):
    """Records for people to read."""

    def format(self, record: logging.LogRecord) -> str:
        """The record on one line; a traceback follows it, indented as no record is."""
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        head = f"{clock}.{int(record.msecs):03d} {record.levelname.lower():<7}"
        line = f"{head} {printable(record.getMessage())}"
        said = traceback_in(record, self)
        return line if said is None else "\n".join([line, *indented(said)])


def indented(text: str) -> list[str]:
    """The lines of a traceback, none of which can pass for a record or send control codes."""
    return [f"  {printable(each)}" for each in text.splitlines()]


class LibrariesWarn(logging.Filter):
    """Passes warnings, and below them only what is not a library's.

    A library is installed, and is neither mulligan nor a package of `own`. A level that is set for
    its logger stays in force.
    """

    def __init__(self, own: Iterable[str]) -> None:
        super().__init__()
        self._own = {"root", "mulligan", *own}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written."""
        package = record.name.partition(".")[0]
        return (
            record.levelno >= logging.WARNING
            or package in self._own
            or not is_installed(package)
            or has_level(record.name)
        )


@cache
def is_installed(package: str) -> bool:
    """Whether the package is of Python or was installed into it."""
    module = sys.modules.get(package)
    places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    found = {part for place in places if place is not None for part in Path(place).parts}
    standard = sysconfig.get_path("stdlib")
    return bool(found & {"site-packages", "dist-packages"}) or any(
        place is not None and Path(place).is_relative_to(standard) for place in places
    )


def has_level(name: str) -> bool:
    """Whether a level is set for the logger or for one above it, but the root."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None and logger is not logging.root:
        if logger.level:
            return True
        logger = logger.parent
    return False


def iso(at: float) -> str:
    """A time in UTC, to the millisecond."""
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))
    return f"{whole}.{int(at % 1 * 1000):03d}Z"


def set_up(level: str, form: LogFormat, name: str = "", own: Iterable[str] = ()) -> None:
    """Send the process's logs to stderr; `name` is the worker's name, `own` the app's packages.

    With the format "app" nothing is set up: the app has done so when it was imported.
    """
    if form == "app":
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(name) if form == "json" else TextLines())
    if level != "debug":
        handler.addFilter(LibrariesWarn(own))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
