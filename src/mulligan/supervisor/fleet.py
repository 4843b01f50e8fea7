"""A fleet: kinds of worker, how many of each, and when one is replaced."""

from pathlib import Path

from msgspec import Struct

from mulligan.core.fetch import Only
from mulligan.core.retry import Exponential

EVERY = 1.0
ORPHAN_GRACE = 60.0


class Kind(Struct, frozen=True):
    """One kind of process; the defaults are those of a kind of worker.

    `serves`, `slots` and `store` are the app's where the file does not set them. With a store of
    "" no jobs are counted, and the kind stays at `min`.
    """

    name: str
    app: str = ""
    command: tuple[str, ...] = ()
    service: bool = False
    store: str = ""
    queues: tuple[str, ...] = ()
    serves: tuple[str, ...] = ()
    region: str = "default"
    concurrency: int | None = None
    slots: int = 1
    only: Only | None = None
    min: int = 1
    max_concurrent: int = 1
    max_runtime: float | None = None
    max_wait: float = 10.0
    cooldown: float = 1.0
    idle_exit: float = 60.0
    memory_limit: int | None = None
    drain_timeout: float = 30.0
    backoff: float = 1.0
    backoff_max: float = 60.0
    env: dict[str, str] = {}

    @property
    def ends_by_itself(self) -> bool:
        """Whether its processes end when idle; others are drained when not needed."""
        return not self.command

    def rest_after(self, deaths: int) -> float:
        """Seconds to wait before the next start, after so many deaths in a row."""
        curve = Exponential(self.backoff, 2.0, self.backoff_max, "none")
        return curve.delay(deaths, 0.0)


# A service, such as the delayed-queue processor: there must be exactly one of it.
SERVICE = Kind("", service=True, max_runtime=3600.0, cooldown=60.0)


class Fleet(Struct, frozen=True):
    """A fleet file that was read and is valid."""

    name: str
    file: Path
    state: Path
    kinds: dict[str, Kind]
    every: float = EVERY
    orphan_grace: float = ORPHAN_GRACE

    @property
    def stores(self) -> set[str]:
        """The stores whose jobs are counted."""
        return {kind.store for kind in self.kinds.values()} - {""}
