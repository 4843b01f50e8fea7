"""The job's fields in log lines of your own: for handlers of `logging`, and for structlog.

    handler.addFilter(JobFilter())                                  # logging
    structlog.configure(processors=[add_job_fields, …])             # structlog

Lines that a task writes while it runs, on the loop, in a thread or in a child process, say which
job it was, with the ids of the current trace and span if there is one. Nothing is imported for it.
"""

import logging
from collections.abc import MutableMapping
from typing import Any

from mulligan.engine.job_log import JOB_FIELDS, TRACE_FIELDS, current_fields

__all__ = ["FIELDS", "JobFilter", "add_job_fields"]

# Every field that a line may get. `defaults=dict.fromkeys(FIELDS, "-")` of a `logging.Formatter`
# is for formats that name them, in lines that no task writes.
FIELDS = (*JOB_FIELDS, *TRACE_FIELDS)


class JobFilter(logging.Filter):
    """Refuses no record, and gives each the fields of the job whose task logs it.

    It belongs on a handler: the filters of a logger do not see what the loggers below it log.
    What a record has of its own, by `extra=` perhaps, stays as it is.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields."""
        for name, value in current_fields().items():
            if not hasattr(record, name):
                setattr(record, name, value)
        return True


def add_job_fields(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """A processor of structlog: adds the fields; what the line has of its own stays as it is."""
    for name, value in current_fields().items():
        event.setdefault(name, value)
    return event
