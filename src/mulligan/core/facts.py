"""What is known when a decision is made: the settings of queues and the state of regions."""

from msgspec import Struct

from mulligan.core.budget import Budget
from mulligan.core.durations import Seconds, check_seconds, seconds
from mulligan.core.errors import InvalidError
from mulligan.core.fetch import Balanced, FetchPolicy, Fifo


class QueueSettings(Struct, frozen=True):
    """What belongs to a queue and is stored with it, so that all its workers agree."""

    policy: FetchPolicy = Balanced()
    budget: Budget | None = None
    grace: Seconds = 2.0

    def __post_init__(self) -> None:
        """Refuse a grace that is no duration, and a budget that nothing would keep."""
        check_seconds("grace", self.grace)
        if self.budget is not None and isinstance(self.policy, Fifo):
            message = "a retry budget needs a retry lane, and fifo has none; use retry-first"
            raise InvalidError(message)

    @property
    def grace_seconds(self) -> float:
        """How long a retry is left to the regions that should take it first."""
        return seconds(self.grace)


DEFAULT_QUEUE = QueueSettings()


class Region(Struct, frozen=True):
    """A region that has had a worker, and whether one is alive now."""

    name: str
    live: bool


class Facts(Struct, frozen=True):
    """What a store says about itself; `epoch` grows with every change that alters plans."""

    epoch: int = 0
    queues: dict[str, QueueSettings] = {}
    regions: tuple[Region, ...] = ()
    paused: frozenset[str] = frozenset()

    def queue(self, name: str) -> QueueSettings:
        """The settings stored for the queue, or the default ones."""
        return self.queues.get(name, DEFAULT_QUEUE)

    def live_elsewhere(self, region: str) -> bool:
        """Whether a region other than this one has a live worker."""
        return any(r.live and r.name != region for r in self.regions)
