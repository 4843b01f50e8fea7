"""What a worker writes: one line per event, as text or as JSON."""

import logging
import sys
import time
from typing import Literal

import msgspec

from mulligan.cli.group import printable

LogFormat = Literal["text", "json"]
LEVELS = ("debug", "info", "warning", "error")


class JsonLines(logging.Formatter):
    """Records as JSON objects: time, level, logger, message, and trace where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """The record on one line."""
        fields = {
            "time": iso(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(fields).decode()


class TextLines(logging.Formatter):
    """Records as people read them."""

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


def set_up(level: str, form: LogFormat) -> None:
    """Send the process's logs to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
