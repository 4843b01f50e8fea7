"""What to do about a kind now: which slots to fill and which to drain. A pure function."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from mulligan.supervisor.fleet import Kind

Phase = Literal["empty", "starting", "running", "draining", "resting"]
MIB = 1 << 20


class SlotView(Struct, frozen=True):
    """A slot at one instant. `rest` is how long it must stay empty because its process died.

    A process that is `kept` stays however little there is to do; others may end when idle.
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
    """Let the slot's process finish what it does and end."""

    number: int
    why: str


class Replace(NamedTuple):
    """As drain, to be started anew."""

    number: int
    why: str


Action = Start | Drain | Replace


class Pace(NamedTuple):
    """Seconds since the kind's last start, and since there began to be more than are wanted."""

    since_start: float
    surplus_for: float = 0.0


def decide(kind: Kind, slots: Sequence[SlotView], wanted: int, pace: Pace) -> list[Action]:
    """First what must go, then what may come; never more at a time than `max_concurrent`.

    What comes is kept as long as fewer than `min` are.
    """
    alive = [slot for slot in slots if slot.phase in ("starting", "running")]
    room = kind.max_concurrent - len([s for s in slots if s.phase not in ("empty", "resting")])
    must: Sequence[Drain | Replace] = too_big(kind, alive) or too_many(kind, alive)
    old = [] if must else worn(kind, slots, wanted)
    # Where there is room for one more, the successor is ready before anybody is told to go.
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
    """Those that occupy more memory than they may: at once, or the machine may run out of it."""
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
    """Those over `max_concurrent`."""
    over = highest(alive, len(alive) - kind.max_concurrent)
    return [Drain(slot.number, f"max_concurrent is {kind.max_concurrent}") for slot in over]


def not_needed(kind: Kind, alive: Sequence[SlotView], wanted: int, pace: Pace) -> list[Drain]:
    """Those over what is wanted, for a while, that do not end by themselves."""
    if kind.ends_by_itself or pace.surplus_for < kind.idle_exit:
        return []
    surplus = highest(alive, len(alive) - wanted)
    return [Drain(slot.number, f"not needed for {kind.idle_exit:g} s") for slot in surplus]


def highest(slots: Sequence[SlotView], count: int) -> list[SlotView]:
    """So many of the slots, those with the highest numbers."""
    return sorted(slots, key=lambda slot: -slot.number)[: max(0, count)]


def worn(kind: Kind, slots: Sequence[SlotView], wanted: int) -> list[Replace]:
    """One that is to be replaced, while as many run as are wanted.

    One at a time, so that a new release that does not start costs one worker and not all.
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

    A slot whose process died is waited for, not passed over: else a kind that cannot start would
    be tried in one slot after another.
    """
    resting = [slot for slot in slots if slot.phase == "resting"]
    empty = [slot for slot in slots if slot.phase == "empty"]
    turn = [*resting, *empty][: max(0, count)]
    starts = [Start(slot.number) for slot in turn if slot.rest <= 0]
    if kind.cooldown > 0:
        return starts[:1] if pace.since_start >= kind.cooldown else []
    return starts
