"""Where events are written: a list in memory, or a file that outlives the process."""

import itertools
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from mulligan.core.errors import InvalidError
from tests.history.events import AnyEvent, Event

E = TypeVar("E", bound=Event)
_encode = msgspec.json.Encoder(enc_hook=str).encode
_decode = msgspec.json.Decoder(AnyEvent).decode


class Journal(Protocol):
    """Something that keeps events: told when each begins, and again when it has ended."""

    def begin(self, event: Event) -> None:
        """The operation is about to be asked for."""

    def end(self, event: Event) -> None:
        """It was answered, or will never be."""


class InMemory:
    """A list of events in the order in which they ended."""

    def __init__(self) -> None:
        self.events: list[AnyEvent] = []

    def begin(self, event: Event) -> None:
        """Nothing to keep yet: what dies with this process is not asked for later."""

    def end(self, event: Event) -> None:
        """Keep it."""
        self.events.append(event)  # type: ignore[arg-type]  # all events are of the union


class InFile:
    """JSON lines, appended to a file of this process alone, each handed to the system at once.

    An operation is written when it begins and again when it has ended: of a process that was
    killed in between, the first line tells that it may have happened.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)

    def begin(self, event: Event) -> None:
        """Write that it was asked for."""
        self.end(event)

    def end(self, event: Event) -> None:
        """Write it as it is now."""
        os.write(self._file, _encode(event) + b"\n")

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


def load(paths: Iterable[Path]) -> list[AnyEvent]:
    """The events of several processes, each once; a line that a kill cut short is left out."""
    events: dict[tuple[str, int], AnyEvent] = {}
    for path in paths:
        for line in path.read_bytes().splitlines():
            try:
                event = _decode(line)
            except msgspec.MsgspecError:
                continue  # the process died while it wrote it
            events[event.process, event.number] = event
    return list(events.values())


class Clerk:
    """Numbers the events of one process and stamps them with the time."""

    def __init__(self, journal: Journal, process: str, clock: Callable[[], float]) -> None:
        self._journal = journal
        self._process = process
        self._clock = clock
        self._numbers = itertools.count(1)

    def begin(self, event: E) -> E:
        """The event, asked for now."""
        event.process, event.number = self._process, next(self._numbers)
        event.began = self._clock()
        self._journal.begin(event)
        return event

    def end(self, event: Event, error: BaseException | None = None) -> None:
        """The event was answered or refused, or the answer was lost.

        Only a value that breaks a rule is refused for certain. Any other error may have struck
        when all was done.
        """
        if error is None or isinstance(error, InvalidError):
            event.ended = self._clock()
        if error is not None:
            event.error = f"{type(error).__name__}: {error}"
        self._journal.end(event)

    def note(self, event: Event) -> None:
        """An event that is no operation: it begins and ends now."""
        self.end(self.begin(event))
