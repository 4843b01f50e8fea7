"""What a worker writes: one line per event, as text or as JSON."""

import json
import logging
import sys
import time
from typing import Any, Literal

from mulligan.cli.group import printable
from mulligan.engine.current import RUNNING
from mulligan.engine.job_log import JOB_FIELDS, job_fields

LogFormat = Literal["text", "json"]
LEVELS = ("debug", "info", "warning", "error")


class JsonLines(logging.Formatter):
    """Records as JSON objects: time, level, logger, message, and trace where there is one.

    Lines about a job have its id, and so have those that a task logs while it runs. A worker that
    has a name adds it.
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
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


def concerned(record: logging.LogRecord) -> dict[str, Any]:
    """The job that a record is about: the one that it names, else the one whose task logged it.

    Empty for a line about none.
    """
    said = {name: getattr(record, name) for name in JOB_FIELDS if hasattr(record, name)}
    claim = RUNNING.get(None)
    return job_fields(claim) if claim is not None and "job" not in said else said


class TextLines(logging.Formatter):
    """Records for people to read."""

    def format(self, record: logging.LogRecord) -> str:
        """The record on one line; a traceback follows it."""
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        head = f"{clock}.{int(record.msecs):03d} {record.levelname.lower():<7}"
        line = f"{head} {printable(record.getMessage())}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def iso(at: float) -> str:
    """A time in UTC, to the millisecond."""
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))
    return f"{whole}.{int(at % 1 * 1000):03d}Z"


def set_up(level: str, form: LogFormat, name: str = "") -> None:
    """Send the process's logs to stderr; `name` is the worker's name."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(name) if form == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
