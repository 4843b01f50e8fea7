"""Which tasks the workers of a store know, and which of them nobody knows.

Workers register what they know in notes, one for each set of tasks and queues, so that a fleet of
one release has one. Who meets a task that no live worker knows notes that too.
"""

from collections.abc import Iterable, Mapping
from zlib import adler32, crc32

from msgspec import Struct, json

from mulligan.core.durations import span
from mulligan.core.errors import UNREADABLE

KNOWS, UNKNOWN = "knows:", "unknown:"
REGISTER_EVERY = 15.0
# A registration that is older is of workers that died: each live one renews it.
LIVE_WITHIN = 3 * REGISTER_EVERY
KEEP_KNOWLEDGE = 7 * 86_400.0
KEEP_UNKNOWN = 60.0
SIGNATURE_LIMIT = 200


class Knowledge(Struct, frozen=True):
    """The tasks that some workers know, with their signatures, and which of them said so last.

    Whoever leaves on purpose says that it did: `left`.
    """

    worker: str
    at: float
    queues: tuple[str, ...]
    tasks: dict[str, str]
    left: bool = False

    @property
    def note(self) -> str:
        """The key of its note: the same for all workers that know the same."""
        return KNOWS + digest(json.encode([sorted(self.queues), sorted(self.tasks.items())]))

    def is_live(self, now: float) -> bool:
        """Whether a worker that knows these tasks is likely to be alive."""
        return not self.left and now - self.at < LIVE_WITHIN


class Unknown(Struct, frozen=True):
    """A task that a worker met and no live one knew: where, and in which job last."""

    task: str
    queue: str
    job: str
    at: float


_decode_knowledge = json.Decoder(Knowledge).decode
_decode_unknown = json.Decoder(Unknown).decode


def digest(written: bytes) -> str:
    """A short name for what was written."""
    # Not hashlib: it loads OpenSSL's hashes, which stay in memory for as long as the worker.
    return f"{crc32(written):08x}{adler32(written):08x}"


def unknown_note(task: str) -> str:
    """The key under which it is noted that nobody knows the task."""
    return UNKNOWN + digest(task.encode("utf-8", "replace"))


def read_knowledge(notes: Mapping[str, bytes]) -> list[Knowledge]:
    """What workers have registered; what cannot be read is of another release, and left out."""
    found = []
    for written in notes.values():
        try:
            found.append(_decode_knowledge(written))
        except UNREADABLE:
            continue
    return found


def read_unknown(notes: Mapping[str, bytes]) -> list[Unknown]:
    """What workers have met and nobody knew; what cannot be read is left out."""
    found = []
    for written in notes.values():
        try:
            found.append(_decode_unknown(written))
        except UNREADABLE:
            continue
    return found


def is_known(task: str, known: Iterable[Knowledge], now: float) -> bool:
    """Whether a live worker knows the task."""
    return any(task in each.tasks and each.is_live(now) for each in known)


def nobody_knows(unknown: Unknown, known: Iterable[Knowledge], now: float) -> str | None:
    """That no live worker knows the task, and who knew it last; None if one does by now."""
    known = list(known)
    if is_known(unknown.task, known, now):
        return None
    before = [each for each in known if unknown.task in each.tasks]
    said = f"no live worker knows task {unknown.task!r}"
    if not before:
        return f"{said}, and none has in the last {span(KEEP_KNOWLEDGE)}"
    last = max(before, key=lambda each: each.at)
    return f"{said}; worker {last.worker} knew it last, {span(now - last.at)} ago"


def clashes(known: Iterable[Knowledge], now: float) -> list[str]:
    """Tasks of one name that live workers of one queue know by different signatures."""
    live = sorted((each for each in known if each.is_live(now)), key=lambda each: each.worker)
    said: dict[str, str] = {}
    for at, one in enumerate(live):
        for other in live[at + 1 :]:
            shared = sorted(set(one.queues) & set(other.queues))
            for task in sorted(one.tasks.keys() & other.tasks.keys()) if shared else ():
                mine, theirs = one.tasks[task], other.tasks[task]
                if mine != theirs:
                    said.setdefault(
                        task,
                        f"task {task!r} is {task}{mine} to worker {one.worker} and {task}{theirs}"
                        f" to worker {other.worker}, and both serve queue {shared[0]}; give one of"
                        " them another name or a queue of its own, unless it is a newer release",
                    )
    return [said[task] for task in sorted(said)]
