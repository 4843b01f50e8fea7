"""Lines: jobs of a lane that name the same limits and have the same fairness key.

A job that names neither stands in its lane, as if there were no lines. All others stand in lines,
each in order of (due, sequence), and only the first of a line takes part in anything: those behind
it cost nothing, however many they are. A line is in one of three stages:

- `later`: its first job is not due yet.
- `ready`: its first job is due, and may be claimed in its turn.
- `waiting`: a limit has no room for its first job. The lines of a lane that wait at a limit do so
  in order, and none of them passes another there.

When a limit may have room again, the first line that waits there in each lane becomes ready, and
the next one when that one is gone. So a permit that is freed moves one line a lane, not all. A line
keeps its position among those that wait until its first job is gone, also while it is ready.

Turns make a lane with fairness keys fair (start-time fair queueing). A key with a ready line has a
turn; of these keys the one with the lowest turn is next, and of its ready lines the one that is
first by (due, sequence). When a job of it starts, the key's turn comes 1 / weight later. A key that
had no work, or no room, comes back at the lane's present turn: it lost nothing, and saved nothing
up. Jobs without a key share the key "", those that stand in no line included.

The functions here are the oracle, over whatever keeps lines and limits: the `Book`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, Protocol

from mulligan.core.checks import check_name, shown
from mulligan.core.errors import InvalidError
from mulligan.core.lane import Lane
from mulligan.core.limits import FOREVER, costs_of

# Turns are whole numbers, so that their sums are exact: this many are one turn of weight 1.
TURN = 1_000_000
LEAST_WEIGHT, MOST_WEIGHT = 0.001, 1000.0
NO_KEY = ""
# That of a line which has not waited with its first job.
NO_TURN = -1
Stage = Literal["later", "ready", "waiting", "lifted"]


class LineName(NamedTuple):
    """Which line a job stands in: its lane, its fairness key, and the limits that it names."""

    lane: Lane
    key: str
    limits: tuple[str, ...]


def line_of(lane: Lane, key: str | None, limits: str | None) -> LineName | None:
    """The line of a job in this lane, with its limits as they are stored; None if it needs none."""
    if key is None and limits is None:
        return None
    return LineName(lane, key or NO_KEY, tuple(name for name, _ in costs_of(limits)))


class Line:
    """A line with at least one job: who is first in it, what that one costs, and its stage.

    `at` is the limit where it waits, and `turn` that of its key when it first began to wait.
    """

    __slots__ = ("at", "costs", "due", "name", "sequence", "stage", "turn")

    def __init__(self, name: LineName) -> None:
        self.name = name
        self.due = 0.0
        self.sequence = 0
        self.costs: tuple[tuple[str, int], ...] = ()
        self.turn = NO_TURN
        self.stage: Stage = "later"
        self.at: str | None = None

    @property
    def lane(self) -> Lane:
        """The lane that it belongs to."""
        return self.name.lane

    @property
    def order(self) -> tuple[int, float, int]:
        """What waiting lines are sorted by."""
        return self.turn, self.due, self.sequence


class Key:
    """A fairness key of a lane: its next turn, and the first of its ready lines, if any."""

    __slots__ = ("lane", "name", "ready", "turn")

    def __init__(self, lane: Lane, name: str) -> None:
        self.lane = lane
        self.name = name
        self.turn = 0
        self.ready: tuple[float, int] | None = None


class First(NamedTuple):
    """The first job of a line, as far as the line needs to know it."""

    due: float
    sequence: int
    costs: tuple[tuple[str, int], ...]


class Book(Protocol):
    """What a store keeps of lines and limits, at the instant `now`."""

    now: float

    def first_of(self, name: LineName) -> First | None:
        """The first job of a line; None if it has none."""

    def line(self, name: LineName) -> Line | None:
        """The line, if it has jobs."""

    def lift(self, line: Line) -> None:
        """Take the line out of its stage, if it is in one; it is put into another next."""

    def put(self, line: Line) -> None:
        """Keep the line as it is now."""

    def drop(self, line: Line) -> None:
        """Forget a line that has no jobs any more."""

    def first_later(self, lane: Lane) -> Line | None:
        """Of the lines whose first job is not due, the one that is due first."""

    def first_ready(self, lane: Lane, key: str) -> Line | None:
        """Of the ready lines of the key the first by (due, sequence)."""

    def first_waiting(self, limit: str, lane: Lane) -> Line | None:
        """Of the lines of the lane that wait at the limit, the first in order."""

    def lanes_at(self, limit: str) -> Iterable[Lane]:
        """The lanes of which a line waits at the limit."""

    def alarm(self, limit: str, lane: Lane, at: float | None) -> None:
        """Look at the limit for this lane again at that time; None: not by itself."""

    def next_alarm(self, lane: Lane) -> tuple[float, str] | None:
        """The lane's next alarm: when, and at which limit."""

    def room_at(self, limit: str, cost: int) -> float:
        """When the limit has room for the cost: `now`, later, or FOREVER if only by an event."""

    def is_fair(self, lane: Lane) -> bool:
        """Whether a line of the lane has a fairness key."""

    def present_turn(self, lane: Lane) -> int:
        """The highest turn in which a job has started, since the lane became fair."""

    def key(self, lane: Lane, name: str) -> Key:
        """The fairness key; one that the lane does not know has turn 0."""

    def put_key(self, key: Key) -> None:
        """Keep the key as it is now; one of a past turn that is not ready may be forgotten."""

    def first_key(self, lane: Lane) -> Key | None:
        """Of the keys with a ready line the one with the lowest (turn, due, sequence)."""

    def pass_to(self, lane: Lane, turn: int) -> None:
        """The lane's present turn is this one, if it is not past it already."""

    def wake(self, lane: Lane, due: float) -> None:
        """Wake a sleeper for a job that could start then."""


# -- a line and its first job --------------------------------------------------------------------


def joined(book: Book, name: LineName, first: First) -> None:
    """A job has joined the line; `first` is that job."""
    line = book.line(name)
    if line is None:
        enter(book, Line(name), first)
    elif (first.due, first.sequence) < (line.due, line.sequence):
        enter(book, line, first)


def left(book: Book, name: LineName, sequence: int) -> None:
    """A job has left the line without starting; if it was the first, another is."""
    line = book.line(name)
    if line is not None and line.sequence == sequence:
        go_on(book, line)


def go_on(book: Book, line: Line) -> None:
    """The line's first job is gone: the next is first, and other lines may have room."""
    first = book.first_of(line.name)
    if first is None:
        book.drop(line)
        renew_key(book, line)
    else:
        enter(book, line, first)
    look_at_all(book, line)


def enter(book: Book, line: Line, first: First) -> None:
    """The line has a new first job: see in which stage it is with that."""
    book.lift(line)
    line.due, line.sequence, line.costs = first
    line.turn = NO_TURN
    if line.due > book.now:
        put(book, line, "later")
        book.wake(line.lane, line.due)
        return
    for name in line.name.limits:
        if book.first_waiting(name, line.lane) is not None:
            wait(book, line, name)
            return
    make_ready(book, line)


def put(book: Book, line: Line, stage: Stage, at: str | None = None) -> None:
    """The line is in this stage now."""
    line.stage, line.at = stage, at
    book.put(line)
    renew_key(book, line)


def renew_key(book: Book, line: Line) -> None:
    """See which ready line of the key is first now; one without any may have lost its turn."""
    key = book.key(line.lane, line.name.key)
    first = book.first_ready(line.lane, key.name)
    if key.ready is None and first is not None:
        key.turn = max(key.turn, book.present_turn(line.lane))
    key.ready = None if first is None else (first.due, first.sequence)
    book.put_key(key)


def make_ready(book: Book, line: Line) -> None:
    """The line may be claimed in its turn."""
    put(book, line, "ready")
    book.wake(line.lane, line.due)


def wait(book: Book, line: Line, name: str) -> None:
    """The line waits at the limit, in order."""
    lane = line.lane
    if line.turn == NO_TURN:
        line.turn = max(book.key(lane, line.name.key).turn, book.present_turn(lane))
    put(book, line, "waiting", name)
    look(book, name, lane)


# -- limits --------------------------------------------------------------------------------------


def look(book: Book, name: str, lane: Lane) -> None:
    """If the limit has room for the first line that waits there, it is ready; else see when."""
    line = book.first_waiting(name, lane)
    at = FOREVER if line is None else book.room_at(name, dict(line.costs)[name])
    if line is not None and at <= book.now:
        book.alarm(name, lane, None)  # the next one is looked at when this one is gone
        book.lift(line)
        make_ready(book, line)
    elif at == FOREVER:
        book.alarm(name, lane, None)
    else:
        book.alarm(name, lane, at)
        book.wake(lane, at)


def look_at_all(book: Book, line: Line) -> None:
    """Look at each limit of a line that no longer stands there."""
    for name in line.name.limits:
        look(book, name, line.lane)


def opened(book: Book, name: str) -> None:
    """The limit may have more room than before: look for every lane that waits there."""
    for lane in sorted(book.lanes_at(name)):
        look(book, name, lane)


# -- the claim -----------------------------------------------------------------------------------


def advance(book: Book, lane: Lane) -> None:
    """Bring the lane's lines up to the present: what fell due, and limits that have room again.

    A claim does so first, for every lane of its plan.
    """
    while (line := book.first_later(lane)) is not None and line.due <= book.now:
        enter(book, line, First(line.due, line.sequence, line.costs))
    while (alarm := book.next_alarm(lane)) is not None and alarm[0] <= book.now:
        look(book, alarm[1], lane)


def first_line(book: Book, lane: Lane) -> tuple[Key, Line] | None:
    """The key whose turn is next in the lane, and the first of its ready lines."""
    key = book.first_key(lane)
    line = None if key is None else book.first_ready(lane, key.name)
    return None if key is None or line is None else (key, line)


def next_line(book: Book, lane: Lane, first: tuple[float, int] | None) -> Line | None:
    """The line that is next in the lane; None if none is ready, or the `first` goes before it.

    That is (due, sequence) of the first job that stands in the lane itself, if it is due.
    """
    found = first_line(book, lane)
    if found is None or first is None:
        return None if found is None else found[1]
    key, line = found
    turn = max(book.key(lane, NO_KEY).turn, book.present_turn(lane))
    return line if (key.turn, line.due, line.sequence) < (turn, *first) else None


def due_of(book: Book, lane: Lane) -> float:
    """When a job in a line of the lane could start; FOREVER if none could by itself."""
    found = first_line(book, lane)
    return next_at(book, lane) if found is None else found[1].due


def next_at(book: Book, lane: Lane) -> float:
    """When a line of the lane could be ready by itself; FOREVER if none could."""
    line, alarm = book.first_later(lane), book.next_alarm(lane)
    return min(FOREVER if line is None else line.due, FOREVER if alarm is None else alarm[0])


def lacks(book: Book, line: Line) -> str | None:
    """The first of its limits that has no room for a ready line, or where an earlier one waits."""
    turn = book.key(line.lane, line.name.key).turn if line.turn == NO_TURN else line.turn
    order = (turn, line.due, line.sequence)
    for name, cost in line.costs:
        first = book.first_waiting(name, line.lane)
        if first is not None and first.order < order:
            return name
        if book.room_at(name, cost) > book.now:
            return name
    return None


def set_aside(book: Book, line: Line, name: str) -> None:
    """A ready line waits at a limit that has no room for it."""
    book.lift(line)
    wait(book, line, name)
    for other in line.name.limits:
        if other != name:
            look(book, other, line.lane)


def started(book: Book, line: Line, weight: float) -> None:
    """The first job of a ready line has started: the limits are charged, the job is out."""
    take_turn(book, line.lane, line.name.key, weight)
    go_on(book, line)


def take_turn(book: Book, lane: Lane, name: str, weight: float) -> None:
    """A job of the key has started: its turn is the lane's, and its next one comes later."""
    if book.is_fair(lane):
        key = book.key(lane, name)
        turn = max(key.turn, book.present_turn(lane))
        key.turn = turn + step_of(weight)
        book.put_key(key)
        book.pass_to(lane, turn)


def step_of(weight: float) -> int:
    """How far apart the turns of a key of this weight are."""
    return round(TURN / weight)


def listed_weights(weights: object) -> tuple[tuple[str, float], ...]:
    """The weights of fairness keys as settings of a queue have them, from a dict of them by key."""
    if not isinstance(weights, Mapping):
        raise InvalidError(f"weights {shown(weights)} must be a dict of weights by fairness key")
    check_weights(weights.items())
    return tuple(sorted(weights.items()))


def check_weights(weights: Iterable[tuple[str, Any]]) -> None:
    """Refuse weights that would starve a key, or all others; "" is the key of jobs without one."""
    for key, weight in weights:
        if key != NO_KEY:
            check_name("fairness key", key)
        is_number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
        if not is_number or not LEAST_WEIGHT <= weight <= MOST_WEIGHT:
            raise InvalidError(
                f"weight {shown(weight)} of fairness key {key!r} must be a number from"
                f" {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}; 1 is what other keys have"
            )
