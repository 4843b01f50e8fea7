"""The facts that plans and decisions are made from: queue settings and regions."""

from collections import defaultdict
from collections.abc import KeysView, Mapping
from functools import cached_property

from msgspec import Struct, json
from msgspec.structs import replace

from mulligan.core.budget import Budget
from mulligan.core.checks import Seconds, check_seconds, seconds
from mulligan.core.errors import UNREADABLE, InvalidError, StoreError
from mulligan.core.fetch import Balanced, FetchPolicy, Fifo
from mulligan.core.health import UNKNOWN, Breaker, Health
from mulligan.core.lines import check_weights


class QueueSettings(Struct, frozen=True):
    """The settings of a queue, stored with it so that all workers agree.

    `weights` are those of fairness keys, where they are not 1: a key of weight 2 has two turns for
    each turn of the others.
    """

    policy: FetchPolicy = Balanced()
    budget: Budget | None = None
    grace: Seconds = 2.0
    weights: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        """Refuse what is none of these, and a budget that the policy would ignore."""
        if not isinstance(self.policy, FetchPolicy):
            raise InvalidError(f"policy {self.policy!r} must be a fetch policy, such as 'balanced'")
        if self.budget is not None and not isinstance(self.budget, Budget):
            raise InvalidError(
                f"budget {self.budget!r} must be a Budget, such as Budget(limit=100, per=60)"
            )
        check_seconds("grace", self.grace)
        check_weights(self.weights)
        if self.budget is not None and isinstance(self.policy, Fifo):
            message = "a retry budget needs a retry lane, and fifo has none; use retry-first"
            raise InvalidError(message)

    @property
    def grace_seconds(self) -> float:
        """How long a retry is left to the regions that should take it first, in seconds."""
        return seconds(self.grace)


DEFAULT_QUEUE = QueueSettings()
_decode_settings = json.Decoder(QueueSettings).decode


def read_settings(queue: str, written: bytes | str) -> QueueSettings:
    """The settings as a store keeps them.

    Refuses those of a newer release: a worker that does not know the policy must not claim.
    """
    try:
        return _decode_settings(written)
    except UNREADABLE as error:
        raise StoreError(
            f"the settings of queue {queue!r} cannot be read ({error}); if a newer release wrote"
            " them, upgrade mulligan here too, else declare the queue anew"
        ) from error


class Region(Struct, frozen=True):
    """A region that has had a worker, and the queues that its live workers serve."""

    name: str
    serves: frozenset[str] = frozenset()

    @property
    def live(self) -> bool:
        """Whether a worker of it is alive."""
        return bool(self.serves)


class Facts(Struct, frozen=True, dict=True):
    """What a store knows; `epoch` grows with every change that alters plans.

    `health` is by queue and region, with no entry where nothing was counted recently. `now` is the
    store's time.
    """

    epoch: int = 0
    queues: dict[str, QueueSettings] = {}
    regions: tuple[Region, ...] = ()
    paused: frozenset[str] = frozenset()
    health: dict[tuple[str, str], Health] = {}
    now: float = 0.0

    def queue(self, name: str) -> QueueSettings:
        """The settings stored for the queue, or the default ones."""
        return self.queues.get(name, DEFAULT_QUEUE)

    def health_of(self, queue: str, region: str) -> Health:
        """How recent attempts of the queue went in the region."""
        return self.health.get((queue, region), UNKNOWN)

    @property
    def breakers(self) -> dict[tuple[str, str], Breaker]:
        """The open breakers, by queue and region."""
        return {at: known.breaker for at, known in self.health.items() if known.breaker.open}

    @cached_property
    def _by_name(self) -> Mapping[str, Region]:
        return {region.name: region for region in self.regions}

    @property
    def known_regions(self) -> KeysView[str]:
        """The names of all regions."""
        return self._by_name.keys()

    @cached_property
    def _serving(self) -> Mapping[str, list[str]]:
        """The regions with a live worker, by queue."""
        found: dict[str, list[str]] = defaultdict(list)
        for region in self.regions:
            for queue in region.serves:
                found[queue].append(region.name)
        return dict(found)

    @cached_property
    def _open(self) -> Mapping[str, set[str]]:
        """The regions whose breaker is open, by queue."""
        found: dict[str, set[str]] = defaultdict(set)
        for (queue, region), known in self.health.items():
            if known.breaker.open:
                found[queue].add(region)
        return dict(found)

    def serves(self, queue: str, region: str) -> bool:
        """Whether a live worker of the region serves the queue."""
        known = self._by_name.get(region)
        return known is not None and queue in known.serves

    def serving(self, queue: str) -> list[str]:
        """The regions with a live worker for the queue, in order of name."""
        return self._serving.get(queue, [])

    def is_open(self, queue: str, region: str) -> bool:
        """Whether its breaker is open and enforced: if all regions' are open, none is enforced."""
        return region in self._open.get(queue, ()) and self._any_healthy(queue)

    def next_probe_at(self, queue: str, region: str) -> float | None:
        """When the region may make its next probe, by the store's time; None if it is not open."""
        if not self.is_open(queue, region):
            return None
        return self.health_of(queue, region).breaker.next_probe_at

    def with_breaker(self, queue: str, region: str, breaker: Breaker) -> "Facts":
        """These facts with another breaker, and no counts since it changed."""
        before = self.health_of(queue, region)
        turned = before.breaker.open != breaker.open
        known = Health(breaker=breaker) if turned else replace(before, breaker=breaker)
        return replace(self, health={**self.health, (queue, region): known})

    def ailing(self, queue: str) -> tuple[str, ...]:
        """The regions whose breaker is open while another region serves."""
        if not self._open.get(queue) or not self._any_healthy(queue):
            return ()
        down = self._open[queue]
        return tuple(region.name for region in self.regions if region.name in down)

    def healthy(self, queue: str) -> list[str]:
        """The regions with a live worker for the queue whose breaker is closed."""
        down = self._open.get(queue, ())
        return [region for region in self.serving(queue) if region not in down]

    def _any_healthy(self, queue: str) -> bool:
        down = self._open.get(queue, ())
        return any(region not in down for region in self.serving(queue))
