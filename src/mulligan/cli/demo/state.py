"""What the demo shows: the state of the store, and events read from the workers' logs."""

import re
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from mulligan.cli.demo.app import RETRY

FAILED = re.compile(r"job (\S+): attempt (\d+) of task \S+ failed: (\w+): (.*)")
AGAIN = re.compile(r"job (\S+): back in queue .*; attempt (\d+) starts from lane (\S+)")
RECLAIMED = re.compile(r"job (\S+): worker \S+ stopped beating")
EVENTS_KEPT = 6


class Event(NamedTuple):
    """Something that happened, its region, and its colour."""

    region: str
    text: str
    style: str


class DemoState:
    """The state of the demo now. `on_event` gets each event as it happens."""

    def __init__(
        self, regions: tuple[str, ...], total: int, on_event: Callable[[Event], None]
    ) -> None:
        self.regions = regions
        self.total = total
        self.status: dict[str, Any] = {}
        self.backing_off = 0
        self.elapsed = 0.0
        self.retries = 0
        self.elsewhere = 0
        self.dead_regions: set[str] = set()
        self.events: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self._failed_in: dict[str, str] = {}
        self._on_event = on_event

    def add_event(self, region: str, text: str, style: str = "") -> None:
        """Add an event."""
        event = Event(region, text, style)
        self.events.append(event)
        self._on_event(event)

    def on_message(self, region: str, message: str) -> None:
        """Read an event from what a worker logged."""
        if match := FAILED.match(message):
            job, attempt, kind, text = match.groups()
            self._failed_in[job] = region
            said = 'answered "Error": refused' if kind == "Refused" else f"failed: {text}"
            self.add_event(region, f"{job} {said} (attempt {attempt})", "red")
            if RETRY.spent(int(attempt) - 1):
                self.add_event(
                    region, f"{job} has no retry left: it is a dead letter now", "bold red"
                )
        elif match := AGAIN.match(message):
            job, attempt, _ = match.groups()
            self.retries += 1
            before = self._failed_in.get(job, region)
            self.elsewhere += before != region
            where = f", taken over from {before}" if before != region else ""
            self.add_event(region, f"{job} is tried again (attempt {attempt}){where}", "green")
        elif match := RECLAIMED.match(message):
            self._failed_in[match[1]] = next(iter(self.dead_regions), region)
            self.add_event(region, f"{match[1]} was held by a dead worker: due at once", "yellow")

    def count(self, word: str) -> int:
        """How many jobs of all queues are in this state."""
        return sum(queue[word] for queue in self.status.get("queues", {}).values())

    def region(self, name: str) -> dict[str, Any]:
        """A region's part of the status."""
        nothing = {"queue_size": 0, "retry_queue_size": 0, "current_job": None}
        found: dict[str, Any] = self.status.get("regions", {}).get(name, nothing)
        return found
