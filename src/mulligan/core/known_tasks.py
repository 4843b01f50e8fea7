"""Which tasks the workers of a store know, and which tasks no live worker knows.

Workers register the tasks that they know in notes, one for each set of tasks and queues, so that a
fleet of one release has one. A worker that meets a task which no live worker knows notes that too.
"""

from collections.abc import Iterable, Mapping
from zlib import adler32, crc32

from msgspec import Struct, json

from mulligan.core.checks import span
from mulligan.core.errors import UNREADABLE

KNOWS, UNKNOWN = "knows:", "unknown:"
# Notes of the schedules that each worker declares; they end with the worker.
DECLARES = "declares:"
DECLARE_EVERY = 15.0
KEEP_DECLARED = 3 * DECLARE_EVERY
REGISTER_EVERY = 15.0
# Live workers renew their registration; an older one is of workers that died.
LIVE_WITHIN = 3 * REGISTER_EVERY
KEEP_KNOWLEDGE = 7 * 86_400.0
KEEP_UNKNOWN = 60.0
SIGNATURE_LIMIT = 200
# Of a task that is known without one, as those of HTTP workers are.
NO_SIGNATURE = "(…)"


class Registration(Struct, frozen=True):
    """The tasks that some workers know, with their signatures, and the last worker that said so.

    `settings` are those that their app declares for the whole store: texts by name. `left` is set
    when that worker stopped on purpose.
    """

    worker: str
    at: float
    queues: tuple[str, ...]
    tasks: dict[str, str]
    left: bool = False
    settings: dict[str, str] = {}

    @property
    def note(self) -> str:
        """The key of its note: the same for all workers that know the same."""
        known: list[object] = [sorted(self.queues), sorted(self.tasks.items())]
        if self.settings:
            known.append(sorted(self.settings.items()))
        return KNOWS + digest(json.encode(known))

    def is_live(self, now: float) -> bool:
        """Whether a worker that knows these tasks is likely to be alive."""
        return not self.left and now - self.at < LIVE_WITHIN


class Unknown(Struct, frozen=True):
    """A task that a worker met and no live worker knew: where, and in which job last."""

    task: str
    queue: str
    job: str
    at: float


_decode_knowledge = json.Decoder(Registration).decode
_decode_names = json.Decoder(list[str]).decode
_decode_unknown = json.Decoder(Unknown).decode


def digest(written: bytes) -> str:
    """A short digest of the note."""
    # Not hashlib: it loads OpenSSL, which stays in the worker's memory.
    return f"{crc32(written):08x}{adler32(written):08x}"


def unknown_note(task: str) -> str:
    """The key of the note that no worker knows the task."""
    return UNKNOWN + digest(task.encode("utf-8", "replace"))


def read_registrations(notes: Mapping[str, bytes]) -> list[Registration]:
    """What workers have registered, without notes of other releases that cannot be read."""
    found = []
    for written in notes.values():
        try:
            found.append(_decode_knowledge(written))
        except UNREADABLE:
            continue
    return found


def read_unknown(notes: Mapping[str, bytes]) -> list[Unknown]:
    """The unknown tasks that workers have met, without notes that cannot be read."""
    found = []
    for written in notes.values():
        try:
            found.append(_decode_unknown(written))
        except UNREADABLE:
            continue
    return found


def read_declared(notes: Mapping[str, bytes]) -> set[str]:
    """The names of the schedules that live workers declare."""
    found: set[str] = set()
    for written in notes.values():
        try:
            found.update(_decode_names(written))
        except UNREADABLE:
            continue
    return found


def is_known(task: str, known: Iterable[Registration], now: float) -> bool:
    """Whether a live worker knows the task."""
    return any(task in each.tasks and each.is_live(now) for each in known)


def nobody_knows(unknown: Unknown, known: Iterable[Registration], now: float) -> str | None:
    """A sentence that no live worker knows the task, and who knew it last; None if one does."""
    known = list(known)
    if is_known(unknown.task, known, now):
        return None
    before = [each for each in known if unknown.task in each.tasks]
    said = f"no live worker knows task {unknown.task!r}"
    if not before:
        return f"{said}, and none has in the last {span(KEEP_KNOWLEDGE)}"
    last = max(before, key=lambda each: each.at)
    return f"{said}; worker {last.worker} knew it last, {span(now - last.at)} ago"


def clashes(known: Iterable[Registration], now: float) -> list[str]:
    """Tasks that live workers of one queue know with different signatures."""
    live = sorted((each for each in known if each.is_live(now)), key=lambda each: each.worker)
    said: dict[str, str] = {}
    for at, one in enumerate(live):
        for other in live[at + 1 :]:
            shared = sorted(set(one.queues) & set(other.queues))
            for task in sorted(one.tasks.keys() & other.tasks.keys()) if shared else ():
                mine, theirs = one.tasks[task], other.tasks[task]
                if mine != theirs and NO_SIGNATURE not in (mine, theirs):
                    said.setdefault(
                        task,
                        f"task {task!r} is {task}{mine} to worker {one.worker} and {task}{theirs}"
                        f" to worker {other.worker}, and both serve queue {shared[0]}; give one of"
                        " them another name or a queue of its own, unless it is a newer release",
                    )
    return [said[task] for task in sorted(said)]
