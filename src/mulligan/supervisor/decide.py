"""Which slots of a kind to fill now and which to drain: a pure function."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from mulligan.supervisor.fleet import Kind

Phase = Literal["empty", "starting", "running", "draining", "resting"]
MIB = 1 << 20


class SlotView(Struct, frozen=True):
    """A slot at one instant. `rest` is how long it must stay empty because its process died.

    A process that is `kept` stays when idle; others may end then.
    """

    number: int
    phase: Phase
    age: float = 0.0
    memory: int = 0
    outdated: bool = False
    rest: float = 0.0
    kept: bool = False


class Start(NamedTuple):
    """Fill the slot, with a process that is kept or one that may end when idle."""

    number: int
    kept: bool = False


class Drain(NamedTuple):
    """Let the slot's process finish its work and end."""

    number: int
    why: str


class Replace(NamedTuple):
    """Drain the slot's process, to start another in its stead."""

    number: int
    why: str


Action = Start | Drain | Replace


class Pace(NamedTuple):
    """Seconds since the kind's last start, and for how long it has had more than it needs."""

    since_start: float
    surplus_for: float = 0.0


def decide(kind: Kind, slots: Sequence[SlotView], wanted: int, pace: Pace) -> list[Action]:
    """Drain what must go, then start what is missing; never more than `max_concurrent` at a time.

    A new process is kept, however idle, while fewer than `min` are.
    """
    alive = [slot for slot in slots if slot.phase in ("starting", "running")]
    room = kind.max_concurrent - len([s for s in slots if s.phase not in ("empty", "resting")])
    must: Sequence[Drain | Replace] = too_big(kind, alive) or too_many(kind, alive)
    old = [] if must else worn(kind, slots, wanted)
    # Where there is room for one more, the successor starts before its predecessor is drained.
    succeeded = room > 0 and len(alive) <= wanted and not kind.service
    going = must or ([] if succeeded else old) or not_needed(kind, alive, wanted, pace)
    gone = {action.number for action in (*going, *old)}
    staying = [slot for slot in alive if slot.number not in gone]
    starts = missing(kind, slots, min(wanted - len(staying), room), pace)
    kept = sum(slot.kept for slot in staying)
    return [
        *going,
        *(each._replace(kept=kept + at < kind.min) for at, each in enumerate(starts)),
    ]


def too_big(kind: Kind, alive: Sequence[SlotView]) -> list[Replace]:
    """Processes over their memory limit, all at once: the machine may run out of memory."""
    if kind.memory_limit is None:
        return []
    return [
        Replace(
            slot.number,
            f"memory {slot.memory / MIB:.0f} MiB over {kind.memory_limit / MIB:.0f} MiB",
        )
        for slot in alive
        if slot.memory > kind.memory_limit
    ]


def too_many(kind: Kind, alive: Sequence[SlotView]) -> list[Drain]:
    """Processes over `max_concurrent`."""
    over = highest(alive, len(alive) - kind.max_concurrent)
    return [Drain(slot.number, f"max_concurrent is {kind.max_concurrent}") for slot in over]


def not_needed(kind: Kind, alive: Sequence[SlotView], wanted: int, pace: Pace) -> list[Drain]:
    """Processes that were not needed for a while and do not end by themselves."""
    if kind.ends_by_itself or pace.surplus_for < kind.idle_exit:
        return []
    surplus = highest(alive, len(alive) - wanted)
    return [Drain(slot.number, f"not needed for {kind.idle_exit:g} s") for slot in surplus]


def highest(slots: Sequence[SlotView], count: int) -> list[SlotView]:
    """The `count` slots with the highest numbers."""
    return sorted(slots, key=lambda slot: -slot.number)[: max(0, count)]


def worn(kind: Kind, slots: Sequence[SlotView], wanted: int) -> list[Replace]:
    """One process to replace, if as many run as are wanted.

    Only one at a time, so that a release that does not start costs one worker and not all.
    """
    running = [slot for slot in slots if slot.phase == "running"]
    changing = any(slot.phase in ("starting", "draining") for slot in slots)
    if changing or len(running) < wanted:
        return []
    outdated = [Replace(slot.number, "the fleet file changed") for slot in running if slot.outdated]
    if outdated or kind.max_runtime is None:
        return outdated[:1]
    why = f"max_runtime {kind.max_runtime:g} s"
    return [Replace(slot.number, why) for slot in running if slot.age > kind.max_runtime][:1]


def missing(kind: Kind, slots: Sequence[SlotView], count: int, pace: Pace) -> list[Start]:
    """The slots to fill now, the lowest first.

    A slot whose process died keeps its turn while it rests: otherwise a kind that cannot start
    would be tried in one slot after another.
    """
    resting = [slot for slot in slots if slot.phase == "resting"]
    empty = [slot for slot in slots if slot.phase == "empty"]
    turn = [*resting, *empty][: max(0, count)]
    starts = [Start(slot.number) for slot in turn if slot.rest <= 0]
    if kind.cooldown > 0:
        return starts[:1] if pace.since_start >= kind.cooldown else []
    return starts
