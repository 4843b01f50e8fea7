"""What is known about one job, and what is in doubt."""

from typing import TYPE_CHECKING, NamedTuple

from mulligan.core.job import ENDED, Status
from tests.history.events import (
    AnyEvent,
    Claim,
    Ending,
    New,
    Past,
    Reclaim,
    Taken,
    latest,
)
from tests.history.state import State

if TYPE_CHECKING:
    from mulligan.core.lane import Lane


class Doubt(NamedTuple):
    """Something that may have happened to the job."""

    event: AnyEvent
    what: Ending | str

    def is_again(self, what: Ending | str) -> bool:
        """Whether this is the same outcome, sent again."""
        if isinstance(self.what, Ending) and isinstance(what, Ending):
            return (self.what.token, self.what.how) == (what.token, what.how)
        return False


class Known:
    """A job as the history tells it so far."""

    __slots__ = (
        "arrived",
        "claimed",
        "committed",
        "created",
        "doubted",
        "doubts",
        "ended",
        "events",
        "failures",
        "gone",
        "holder",
        "joined",
        "lane",
        "new",
        "reclaimed",
        "replay",
        "result",
        "retry_count",
        "snoozes",
        "started",
        "status",
        "taken",
        "token",
    )

    def __init__(self, new: New, created: AnyEvent, token: int) -> None:
        self.new = new
        self.created = created
        self.status: Status = "pending"
        self.gone = False
        self.token = token
        self.committed: set[int] = set()
        self.retry_count = self.replay = self.snoozes = 0
        self.lane: Lane = new.lane
        self.joined = created
        self.claimed: Claim | Reclaim | None = None
        self.taken: Taken | None = None
        self.reclaimed = False
        self.started = False
        self.holder = ""
        self.ended: AnyEvent | None = None
        self.result: int | None = None
        self.arrived: set[int] = set()
        self.failures: list[tuple[int, str, str]] = []
        self.doubts: list[Doubt] = []
        self.doubted: set[int] = set()
        self.events: list[AnyEvent] = [created]
        if new.past is not None:
            self._go_on_from(new.past)

    def _go_on_from(self, past: Past) -> None:
        self.status, self.lane = past.status, past.lane
        self.replay, self.retry_count, self.snoozes = past.replay, past.retry_count, past.snoozes
        self.failures, self.arrived = list(past.failures), set(past.arrived)
        self.ended = self.created if past.status in ENDED else None

    @property
    def counters(self) -> tuple[int, int, int]:
        """What grows: replays, and within one the retries and snoozes."""
        return self.replay, self.retry_count, self.snoozes

    @property
    def state(self) -> State:
        """What decides what can happen to it."""
        return State(self.status, self.counters, self.token, self.gone)

    @property
    def awaits(self) -> int:
        """How many have yet to arrive."""
        return self.new.awaits - len(self.arrived)

    @property
    def over(self) -> bool:
        """Whether it has ended, beyond doubt."""
        return self.status in ENDED and not self.doubts

    @property
    def unstarted(self) -> bool:
        """Whether it waits for its first attempt, and so may expire."""
        return self.status == "pending" and self.counters == (0, 0, 0)

    def ways(self) -> dict[State, tuple[Doubt, ...]]:
        """The states in which it may be, and which of the doubts lead to each."""
        ways: dict[State, tuple[Doubt, ...]] = {self.state: ()}
        for doubt in self.doubts:
            for state, way in list(ways.items()):
                then = state.after(doubt.what) or self._overtaken(state, doubt)
                if then is not None:
                    ways.setdefault(then, (*way, doubt))
        return ways

    def _overtaken(self, state: State, doubt: Doubt) -> State | None:
        """The state of a cancelled job whose outcome was written before it was cancelled."""
        cancelled = self.ended if state.status == "cancelled" else None
        if cancelled is None or not isinstance(doubt.what, Ending):
            return None
        before = state._replace(status="processing").after(doubt.what)
        if before is None or before.status in ENDED or doubt.event.began > latest(cancelled):
            return None
        return before._replace(status="cancelled")
