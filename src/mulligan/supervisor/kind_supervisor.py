"""Keeps the processes of one kind: as many as needed, replaced when old, restarted when dead."""

import socket
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from mulligan.core.fleets import Exit, KindState, SlotState
from mulligan.supervisor.decide import Drain, Pace, Replace, Start, decide
from mulligan.supervisor.events import Event, Happening, Tell
from mulligan.supervisor.fleet import Fleet, Kind
from mulligan.supervisor.liveness import LOCK
from mulligan.supervisor.process import Command, Process, command_for
from mulligan.supervisor.scale import Load, Wanted, wanted
from mulligan.supervisor.slot import Ending, Slot, TakenError

EXITS_KEPT = 5
# A process that does not report to a store counts as ready after so many seconds.
SETTLED = 1.0


class KindSupervisor:
    """The slots of a kind. `watch` is called with each new process and reports when it ends."""

    def __init__(
        self, fleet: Fleet, kind: Kind, folder: Path, tell: Tell, watch: Callable[[Process], None]
    ) -> None:
        self.kind = kind
        self._fleet = fleet
        self._folder = folder
        self._tell = tell
        self._watch = watch
        self.slots: dict[int, Slot] = {}
        self._load: Load | None = None
        self._wanted = Wanted(0, "")
        self._needed_at = time.monotonic()
        self._exits: deque[Exit] = deque(maxlen=EXITS_KEPT)
        self.clean = True
        for number in range(1, kind.max_concurrent + 1):
            self._slot(number)
        # A restart of the supervisor does not end the cooldown; a clock that was set back does.
        last = max(slot.last_start for slot in self.slots.values())
        self._started_at = time.monotonic() - max(0.0, time.time() - last)

    @property
    def ids(self) -> frozenset[str]:
        """The prefixes of the ids under which its workers are known to their store."""
        alive = [slot.process for slot in self.slots.values() if slot.process is not None]
        return frozenset(id_of(process) for process in alive)

    @property
    def empty(self) -> bool:
        """Whether none of its processes is left."""
        return all(slot.process is None for slot in self.slots.values())

    def adopt(self, number: int) -> None:
        """Take over the process that an earlier supervisor left running in the slot."""
        slot = self._slot(number)
        process = slot.adopt()
        if process is not None:
            self._taken(slot, process)

    def change(self, fleet: Fleet, kind: Kind) -> None:
        """Use new settings from now on; processes that they change are replaced, one at a time."""
        self._fleet, self.kind = fleet, kind
        for slot in self.slots.values():
            slot.kind = kind
        for number in range(1, kind.max_concurrent + 1):
            self._slot(number)

    def update(self, load: Load | None, reported: frozenset[str]) -> None:
        """Take the load that the store reports, and the ids of the workers that it knows."""
        self._load = load
        for slot in self.slots.values():
            if slot.process is None or slot.ready:
                continue
            if any(id_.startswith(id_of(slot.process)) for id_ in reported):
                self._ready(slot)

    def step(self) -> None:
        """Find processes that have ended, then start and drain as many as needed."""
        self.check()
        views = [slot.view(*self._digests(slot)) for slot in self._in_order()]
        alive = [view for view in views if view.phase in ("starting", "running")]
        starting = sum(view.phase == "starting" for view in alive)
        self._want(wanted(self.kind, self._load, len(alive), starting=starting), len(alive))
        now = time.monotonic()
        if len(alive) <= self._wanted.number:
            self._needed_at = now
        pace = Pace(now - self._started_at, now - self._needed_at)
        for action in decide(self.kind, views, self._wanted.number, pace):
            match action:
                case Replace(number, why):
                    self._drain(self.slots[number], why, "replacing")
                case Drain(number, why):
                    self._drain(self.slots[number], why, "draining")
                case Start(number, kept):
                    self._start(self.slots[number], kept=kept)

    def check(self) -> None:
        """Read what the processes printed, and find those that have ended."""
        for slot in self._in_order():
            for line in slot.output.read():
                self._say("line", line, slot)
            if not (slot.ready or self._reports) and slot.age >= SETTLED:
                self._ready(slot)
            ending = slot.check()
            if ending is not None:
                self._ended(slot, ending)
            if slot.process is None and slot.number > self.kind.max_concurrent:
                del self.slots[slot.number]

    def drain(self, why: str) -> None:
        """Let all processes finish and end; `clean` says whether they did."""
        self.clean = True
        for slot in self._in_order():
            if slot.phase in ("starting", "running"):
                self._drain(slot, why, "draining")

    def hurry(self) -> None:
        """Let all processes end at once."""
        for slot in self.slots.values():
            slot.hurry()

    def state(self) -> KindState:
        """The state of the kind now."""
        phases = [slot.phase for slot in self.slots.values()]
        resting = [slot for slot in self.slots.values() if slot.phase == "resting"]
        rests = [slot.rests_until - time.monotonic() for slot in resting]
        return KindState(
            *self._wanted,
            running=phases.count("running"),
            starting=phases.count("starting"),
            draining=phases.count("draining"),
            resting=len(resting),
            ready=self._load.ready if self._load else None,
            oldest_wait=self._load.oldest_wait if self._load else None,
            next_restart=time.time() + max(0.0, min(rests)) if rests else None,
            slots=tuple(state_of(slot) for slot in self._in_order() if slot.phase != "empty"),
            exits=tuple(self._exits),
        )

    # -- how -------------------------------------------------------------------------------

    @property
    def _reports(self) -> bool:
        """Whether its processes report to a store."""
        return bool(self.kind.store) and not self.kind.command

    def _slot(self, number: int) -> Slot:
        if number not in self.slots:
            self.slots[number] = Slot(self.kind, number, self._folder)
        return self.slots[number]

    def _in_order(self) -> list[Slot]:
        return [self.slots[number] for number in sorted(self.slots)]

    def _command(self, number: int, *, kept: bool) -> Command:
        lock, grace = self._folder / LOCK, self._fleet.orphan_grace
        return command_for(self.kind, number, lock, grace, kept=kept)

    def _digests(self, slot: Slot) -> tuple[str, str]:
        """The digests of a process that is kept in the slot, and of one that may end when idle."""
        number = slot.number
        return self._command(number, kept=True).digest, self._command(number, kept=False).digest

    def _want(self, wanted: Wanted, alive: int) -> None:
        """Take the number wanted, and report a rise; a fall shows when processes end."""
        if wanted.number > max(alive, self._wanted.number):
            change = f"{self.kind.name} {alive} → {wanted.number}"
            self._say("scaled", f"{change} ({wanted.why})")
        self._wanted = wanted

    def _start(self, slot: Slot, *, kept: bool) -> None:
        self._started_at = time.monotonic()
        try:
            process = slot.start(self._command(slot.number, kept=kept))
        except (OSError, TakenError) as error:
            rest = slot.rest(0.0, self.kind.cooldown)
            reason = f"could not be started: {error}; again in {rest:.1f} s"
            self._exits.append(Exit(slot.name, 0, time.time(), reason))
            self._say("died", reason, slot)
            return
        self._taken(slot, process)

    def _taken(self, slot: Slot, process: Process) -> None:
        self._watch(process)
        if process.adopted:
            self._say("adopted", f"it has run for {slot.age:.0f} s", slot)
        else:
            self._say("started", "", slot)

    def _drain(self, slot: Slot, why: str, happening: Happening) -> None:
        slot.drain(why)
        self._say(happening, why, slot)

    def _ready(self, slot: Slot) -> None:
        slot.ready = True
        if slot.phase == "running":
            self._say("ready", f"after {slot.age:.1f} s", slot)

    def _ended(self, slot: Slot, ending: Ending) -> None:
        """Report why the process ended, and when it is restarted."""
        for line in slot.output.finish():
            self._say("line", line, slot)
        lines = tuple(slot.output.last)
        happening, reason = self._verdict(slot, ending)
        if happening == "died":
            least = self._started_at + self.kind.cooldown - time.monotonic()
            reason += f"; again in {slot.rest(ending.lived, least):.1f} s"
        else:
            slot.deaths = 0
            self.clean = self.clean and (ending.in_order or not ending.drain_reason)
        exit_ = Exit(slot.name, ending.pid, time.time(), reason, lines)
        self._exits.append(exit_)
        shown = lines if happening == "died" else ()
        self._tell(Event(happening, reason, exit_.at, slot.name, ending.pid, shown))

    def _verdict(self, slot: Slot, ending: Ending) -> tuple[Happening, str]:
        if ending.drain_reason:
            return (
                "killed" if ending.killed else "ended",
                f"{ending.drain_reason}; {ending.words}",
            )
        may_end = slot.digest != self._digests(slot)[0] and self.kind.ends_by_itself
        if may_end and ending.code in (0, None) and ending.lived >= self.kind.idle_exit:
            return "ended", f"idle; {ending.words}"
        return "died", ending.words

    def _say(self, happening: Happening, text: str, slot: Slot | None = None) -> None:
        pid = slot.process.pid if slot is not None and slot.process is not None else 0
        name = slot.name if slot is not None else ""
        self._tell(Event(happening, text, time.time(), name, 0 if happening == "line" else pid))


def id_of(process: Process) -> str:
    """The prefix of the id of the worker in this process."""
    return f"{socket.gethostname()}-{process.pid}-"


def state_of(slot: Slot) -> SlotState:
    """The slot as the fleet's state shows it."""
    process = slot.process
    if process is None:
        return SlotState(slot.name, slot.phase)
    return SlotState(slot.name, slot.phase, process.pid, slot.age, process.adopted)
