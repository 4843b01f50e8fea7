"""The traceback of a failed attempt, as text for its job's history.

It reads as Python's own, with causes, contexts and the members of exception groups. It has no
local variables, no secrets and at most TRACEBACK_LIMIT bytes. Frames of mulligan itself that lead
to the task's function are left out. Rendering never raises, whatever the exception's class does.
"""

import linecache
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any, NamedTuple

from mulligan.core.checks import clean, type_name
from mulligan.core.redaction import Redactor
from mulligan.core.settings import TEXT_LIMIT, TRACEBACK_LIMIT

# How many frames of an exception to show, the outermost and the innermost; fewer if there is no
# room for as many of each exception.
FRAMES = ((5, 20), (3, 10), (2, 5), (1, 2))
# How many exceptions to show in all, and how much of a message, a source line and a type's name.
EXCEPTIONS_LIMIT = 20
MESSAGE_LIMIT = 1000
LINE_LIMIT = 200
CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"
# Frames that were shown lately: jobs that fail mostly fail at the same lines, many times.
KNOWN_FRAMES: dict[tuple[str, int, str], str] = {}
KNOWN_LIMIT = 2000
CUT = "  [… cut …]\n"
UNSHOWABLE = "<its message cannot be shown>"

PACKAGE = Path(__file__).parent.parent
# What runs between the functions of the user's, such as from middleware to a task.
ENGINE = (
    f"{PACKAGE / 'engine'}{os.sep}",
    str(PACKAGE / "app" / "middleware.py"),
    str(PACKAGE / "testing" / "nested.py"),
)
BEFORE_THE_TASK = tuple(
    f"{PACKAGE / name}{os.sep}"
    for name in ("app", "contrib", "core", "engine", "stores", "testing")
)


class Secrets:
    """What is hidden in all that the apps of this process store and log."""

    def __init__(self) -> None:
        self._more: tuple[str | re.Pattern[str], ...] = ()
        self._redactor = Redactor()

    def add(self, more: tuple[str | re.Pattern[str], ...]) -> None:
        """Hide these too."""
        self._more = tuple(dict.fromkeys((*self._more, *more)))
        self._redactor = Redactor(self._more)

    def hide(self, text: str) -> str:
        """The text with each secret replaced."""
        return self._redactor.text(text)


SECRETS = Secrets()
hide_secrets = SECRETS.hide
# The attributes of BaseException itself, which a subclass may shadow.
PLAIN = vars(BaseException)
cause_of, context_of = PLAIN["__cause__"].__get__, PLAIN["__context__"].__get__
suppresses_context = PLAIN["__suppress_context__"].__get__
trace_of, attributes_of = PLAIN["__traceback__"].__get__, PLAIN["__dict__"].__get__
exceptions_of = vars(BaseExceptionGroup)["exceptions"].__get__


def traceback_of(error: BaseException) -> str | None:
    """The traceback; None if there is no frame to show, nor another exception."""
    try:
        parts = list(chain_of(error, Budget(EXCEPTIONS_LIMIT)))
        if len(parts) == 1 and parts[0].has_only_message:
            return None
        return rendered(parts)
    except BaseException:  # noqa: BLE001 - what a class does in attributes must not cost the outcome
        return None


def message_of(error: BaseException, shown: Callable[[BaseException], str] = str) -> str:
    """The error's message; words that say so if it has none that can be read."""
    try:
        return str.__str__(shown(error))  # a plain str, not a subclass of it
    except BaseException:  # noqa: BLE001 - a user's exception class may be broken
        return UNSHOWABLE


def kept_message(message: str) -> str:
    """A message as it is stored and logged: as much as is kept, without secrets."""
    # A secret that is cut off is not known as one: the text is cut where it no longer matters.
    return hide_secrets(clean(message[: 4 * TEXT_LIMIT]))[:TEXT_LIMIT]


def bounded(text: str) -> str:
    """A traceback that a worker in another language sent: as much as is kept, without secrets."""
    return cut(hide_secrets(clean(text)))


class Budget:
    """How many more exceptions may be shown, and those that have been."""

    def __init__(self, left: int) -> None:
        self.left = left
        self._seen: list[BaseException] = []

    def allows(self, error: BaseException) -> bool:
        """Whether to show this one: not if it was shown before."""
        if self.left <= 0 or any(each is error for each in self._seen):
            return False
        self.left -= 1
        self._seen.append(error)
        return True


class Part(NamedTuple):
    """One exception: its frames, its message, its members, and the words before the next one."""

    frames: Sequence[str]
    message: str
    members: Sequence[Sequence["Part"]]
    link: str

    @property
    def has_only_message(self) -> bool:
        """Whether it says no more than the type and the message of the attempt do."""
        return not self.frames and not self.members

    def text(self, outermost: int, innermost: int) -> str:
        """The exception as Python prints it."""
        frames = shortened(self.frames, outermost, innermost)
        head = "Traceback (most recent call last):\n" if frames else ""
        members = "".join(
            f"  +------------ {number} ------------\n{indented(member, outermost, innermost)}"
            for number, member in enumerate(self.members, 1)
        )
        return f"{head}{''.join(frames)}{self.message}{members}{self.link}"


def led_to(error: BaseException) -> Iterator[BaseException]:
    """The error, the one that it was raised from or while handling, and so on."""
    budget, each = Budget(EXCEPTIONS_LIMIT), error
    while budget.allows(each):
        yield each
        earlier, _ = before(each)
        if earlier is None:
            return
        each = earlier


def before(error: BaseException) -> tuple[BaseException | None, str]:
    """The exception that led to this one, if any, and the words between them."""
    cause = cause_of(error)
    if cause is not None or suppresses_context(error):
        return cause, CAUSE
    return context_of(error), CONTEXT


def members(error: BaseException) -> Sequence[BaseException]:
    """The members of an exception group; none of any other exception."""
    if not isinstance(error, BaseExceptionGroup):
        return ()
    found: Sequence[BaseException] = exceptions_of(error)
    return found[:EXCEPTIONS_LIMIT]


def chain_of(error: BaseException, budget: Budget) -> Iterator[Part]:
    """The exceptions that led to this one, the first one first, and then itself."""
    chain: list[tuple[BaseException, str]] = []
    link, each = "", error
    while budget.allows(each):
        chain.append((each, link))
        earlier, link = before(each)
        if earlier is None:
            break
        each = earlier
    for each, link in reversed(chain):
        yield Part(frames_of(each), head_of(each), members_of(each, budget), link)


def members_of(error: BaseException, budget: Budget) -> list[list[Part]]:
    """The members of an exception group."""
    return [part for each in members(error) if (part := list(chain_of(each, budget)))]


def head_of(error: BaseException) -> str:
    """The type and the message of an exception, and its notes."""
    said = hide_secrets(message_of(error))
    lines = [f"{type_name(type(error))}: {limited(said, MESSAGE_LIMIT)}".removesuffix(": ")]
    notes = attributes_of(error).get("__notes__")
    if isinstance(notes, list):
        lines += [
            limited(hide_secrets(note), MESSAGE_LIMIT) for note in notes if isinstance(note, str)
        ]
    return "".join(f"{line}\n" for line in lines)


def frames_of(error: BaseException) -> list[str]:
    """Its frames, outermost first, as Python prints them, without those that led to the task.

    Of very many, those in the middle are empty.
    """
    found = without_engine(list(walked(trace_of(error))))
    outermost, innermost = FRAMES[0]
    first_inner = len(found) - innermost
    return [
        frame_text(*each) if number < outermost or number >= first_inner else ""
        for number, each in enumerate(found)
    ]


Frame = tuple[CodeType, int, dict[str, Any]]


def walked(trace: TracebackType | None) -> Iterator[Frame]:
    """The code, the line and the globals of each frame."""
    while trace is not None:
        frame = trace.tb_frame
        yield frame.f_code, trace.tb_lineno or 0, frame.f_globals
        trace = trace.tb_next


def without_engine(frames: list[Frame]) -> list[Frame]:
    """The frames from the task's function on; those of the engine are left out everywhere."""
    start = 0
    for code, _, _ in frames:
        if not code.co_filename.startswith(BEFORE_THE_TASK):
            break
        start += 1
    return [each for each in frames[start:] if not each[0].co_filename.startswith(ENGINE)]


def frame_text(code: CodeType, line: int, namespace: dict[str, Any]) -> str:
    """A frame: its file, line and function, and the source line if it can be read."""
    key = code.co_filename, line, code.co_name
    if key not in KNOWN_FRAMES:
        if len(KNOWN_FRAMES) >= KNOWN_LIMIT:
            KNOWN_FRAMES.clear()
        KNOWN_FRAMES[key] = new_frame_text(code, line, namespace)
    return KNOWN_FRAMES[key]


def new_frame_text(code: CodeType, line: int, namespace: dict[str, Any]) -> str:
    """A frame that was not shown lately."""
    where = f'  File "{code.co_filename}", line {line}, in {code.co_name}'
    try:
        source = linecache.getline(code.co_filename, line, namespace).strip()
    except Exception:  # noqa: BLE001 - a module's loader may do anything
        source = ""
    said = f"    {limited(hide_secrets(source), LINE_LIMIT)}\n" if source else ""
    return f"{limited(hide_secrets(where), 3 * LINE_LIMIT)}\n{said}"


def shortened(frames: Sequence[str], outermost: int, innermost: int) -> list[str]:
    """The outermost and the innermost frames, and how many are left out between them."""
    left_out = len(frames) - outermost - innermost
    if left_out <= 0:
        return list(frames)
    said = f"  [… {left_out} frames left out …]\n"
    return [*frames[:outermost], said, *frames[-innermost:]]


def indented(parts: Sequence[Part], outermost: int, innermost: int) -> str:
    """A member of an exception group."""
    text = "".join(part.text(outermost, innermost) for part in parts)
    return "".join(f"  | {line}\n" for line in text.splitlines())


def rendered(parts: Sequence[Part]) -> str:
    """The whole text, with as many frames as there is room for."""
    text = ""
    for outermost, innermost in FRAMES:
        text = clean("".join(part.text(outermost, innermost) for part in parts))
        if len(text.encode()) <= TRACEBACK_LIMIT:
            break
    return cut(text)


def cut(text: str) -> str:
    """The text within the limit; what is cut is in the first half, as the end says what failed."""
    encoded = text.encode()
    if len(encoded) <= TRACEBACK_LIMIT:
        return text
    room = TRACEBACK_LIMIT - len(CUT.encode()) - 1
    head, tail = encoded[: room // 4], encoded[room // 4 - room :]
    first, last = (part.decode("utf-8", "ignore") for part in (head, tail))
    first = first[: first.rfind("\n") + 1] or f"{first}\n"
    return first + CUT + last[last.find("\n") + 1 :]


def limited(text: str, limit: int) -> str:
    """The text, cut if it is longer than this."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
