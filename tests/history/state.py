"""The state of a job: what can happen to it, and what it is then."""

from typing import NamedTuple

from mulligan.core.job import ENDED, Status
from tests.history.events import Ending, How

# What a job is when an attempt has ended so.
AFTER: dict[How, Status] = {
    "done": "done",
    "dead": "failed",
    "cancelled": "cancelled",
    "again": "pending",
    "later": "pending",
    "returned": "pending",
}


class State(NamedTuple):
    """A job's status, its counters (replays, retries, snoozes), token, and if it was purged."""

    status: Status
    counters: tuple[int, int, int]
    token: int
    gone: bool = False

    def after(self, what: Ending | str) -> "State | None":  # noqa: PLR0911 - a table
        """The state when this has happened; None if it cannot happen."""
        if self.gone:
            return None
        match what:
            case Ending():
                return self._ended(what)
            case "replay" if self.status == "failed":
                return self._replace(status="pending", counters=(self.counters[0] + 1, 0, 0))
            case "cancel" if self.status not in ENDED:
                return self._replace(status="cancelled")
            case "purge" if self.status in ENDED:
                return self._replace(gone=True)
            case "withdraw" if self.status == "pending" and self.counters == (0, 0, 0):
                return self._replace(gone=True)
        return None

    def _ended(self, ending: Ending) -> "State | None":
        # A claim that nobody heard of may have given a higher token.
        is_held = self.status == "processing" and ending.token == self.token
        if self.status in ENDED or not (is_held or ending.token > self.token):
            return None
        replay, retry_count, snoozes = self.counters
        match ending.how:
            case "later":
                snoozes += 1
            case "again":
                retry_count += not ending.free
                snoozes += ending.free
        return State(AFTER[ending.how], (replay, retry_count, snoozes), ending.token)
