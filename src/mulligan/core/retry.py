"""A job's retry policy: how many retries, how far apart, where they may run, and the job's trail.

A backoff is a function of the retry's number n, a draw and the depth of the queue. `draw` is a
random number from [0, 1) that the caller passes in, so that delays are reproducible.
"""

from collections.abc import Callable, Sequence
from math import exp, inf, log
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from mulligan.core.checks import (
    LONGEST,
    Seconds,
    check_classes,
    check_number,
    check_seconds,
    seconds,
    type_name,
)
from mulligan.core.errors import UNREADABLE, InvalidError, StoreError
from mulligan.core.nearest import NamedFields

Jitter = Literal["none", "full", "decorrelated"]
JITTERS: tuple[str, ...] = get_args(Jitter)
STEPS_LIMIT = 1000
Scope = Literal["global", "region"]
_encode_trail = msgspec.json.Encoder().encode

# The exception of a store that failed, as policies name classes.
STORE_ERROR = type_name(StoreError)


class Exponential(Struct, frozen=True, tag="exponential", metaclass=NamedFields):
    """`min(base * factor ** (n - 1), max)` seconds before retry n, then jitter.

    `none` keeps it, `full` draws from 0 up to it, `decorrelated` draws from base up to it.
    """

    base: Seconds = 2.0
    factor: float = 2.0
    max: Seconds | None = 60.0
    jitter: Jitter = "full"

    def __post_init__(self) -> None:
        """Refuse an invalid curve."""
        check_curve(self)

    def delay(self, n: int, draw: float, depth: int = 0) -> float:
        """Seconds before retry n, which is 1 for the first."""
        return jittered(self, raw_delay(self, n), draw)


class Adaptive(Struct, frozen=True, tag="adaptive", metaclass=NamedFields):
    """Exponential, stretched by the fresh work that waits: `raw * (1 + depth / per)`, up to max."""

    base: Seconds = 2.0
    factor: float = 2.0
    max: Seconds | None = 60.0
    jitter: Jitter = "none"
    per: float = 10.0

    def __post_init__(self) -> None:
        """Refuse an invalid curve."""
        check_curve(self)
        check_number("per", self.per)
        if not 0 < self.per < inf:
            message = f"per {self.per!r} must be above 0: depth is divided by it"
            raise InvalidError(message)

    def delay(self, n: int, draw: float, depth: int = 0) -> float:
        """Seconds before retry n, with `depth` fresh jobs waiting in the job's queue and region."""
        raw = raw_delay(self, n)
        stretched = raw * (1 + depth / self.per) if raw else 0.0
        return jittered(self, min(stretched, longest(self)), draw)


class Delays(Struct, frozen=True, tag="delays", metaclass=NamedFields):
    """An explicit list: the n-th delay before retry n, the last one from then on."""

    seconds: tuple[Seconds, ...]

    def __post_init__(self) -> None:
        """Refuse an empty, endless or negative list."""
        check_several("delays", self.seconds, "Delays((1, 5, 30))")
        if not 1 <= len(self.seconds) <= STEPS_LIMIT:
            message = f"delays has {len(self.seconds)} entries; give 1 to {STEPS_LIMIT}"
            raise InvalidError(message)
        force_setattr(self, "seconds", tuple(check_seconds("delay", d) for d in self.seconds))

    def delay(self, n: int, draw: float, depth: int = 0) -> float:
        """Seconds before retry n."""
        return seconds(self.seconds[min(n, len(self.seconds)) - 1])


class Sessions(Struct, frozen=True, tag="sessions", metaclass=NamedFields):
    """Bursts of `attempts` with short waits `within`, and a growing pause after each burst.

    With attempts=3 and within=(0, 5) the second attempt follows at once, the third after 5 s,
    and after the third failure the job pauses for 300 s, after the sixth for 600 s, and so on.
    """

    attempts: int = 3
    within: tuple[Seconds, ...] = (0.0, 5.0)
    base: Seconds = 300.0
    factor: float = 2.0
    max: Seconds | None = 3600.0
    jitter: Jitter = "none"

    def __post_init__(self) -> None:
        """Refuse a session whose waits do not fit between its attempts."""
        check_curve(self)
        check_number("attempts", self.attempts, whole=True)
        check_several("within", self.within, "Sessions(attempts=3, within=(0, 5))")
        if not 1 <= self.attempts <= STEPS_LIMIT:
            message = f"attempts {self.attempts!r} must be between 1 and {STEPS_LIMIT}"
            raise InvalidError(message)
        if len(self.within) != self.attempts - 1:
            message = (
                f"within {self.within!r} has {len(self.within)} waits; a session of"
                f" {self.attempts} attempts has {self.attempts - 1} between them"
            )
            raise InvalidError(message)
        force_setattr(self, "within", tuple(check_seconds("within", w) for w in self.within))

    def delay(self, n: int, draw: float, depth: int = 0) -> float:
        """Seconds before retry n, which follows the failure of attempt n."""
        session, position = divmod(n, self.attempts)
        if position:
            return seconds(self.within[position - 1])
        return jittered(self, raw_delay(self, session), draw)


Backoff = Exponential | Adaptive | Delays | Sessions
Curve = Exponential | Adaptive | Sessions


def raw_delay(curve: Curve, n: int) -> float:
    """`min(base * factor ** (n - 1), max)` without overflow for any n."""
    base, top = seconds(curve.base), longest(curve)
    if base == 0.0:
        return 0.0
    exponent = log(base) + (n - 1) * log(curve.factor)
    if exponent >= log(top):
        return top
    try:
        return min(base * float(curve.factor) ** (n - 1), top)
    except OverflowError:  # only the power overflows, not the product
        return min(exp(exponent), top)


def jittered(curve: Curve, raw: float, draw: float) -> float:
    """Spread a raw delay by the curve's jitter."""
    match curve.jitter:
        case "full":
            return raw * draw
        case "decorrelated":
            base = seconds(curve.base)
            return min(longest(curve), base + (max(base, raw) - base) * draw)
        case _:
            return raw


def longest(curve: Curve) -> float:
    """The curve's maximum in seconds, or a century where it has none."""
    return LONGEST if curve.max is None else seconds(curve.max)


def check_curve(curve: Curve) -> None:
    """Refuse an invalid base, factor, max or jitter; store durations as seconds."""
    force_setattr(curve, "base", check_seconds("base", curve.base))
    if curve.max is not None:
        force_setattr(curve, "max", check_seconds("max", curve.max))
        if seconds(curve.max) < seconds(curve.base):
            message = f"max {curve.max:g} must be at least base {curve.base:g}; raise max="
            raise InvalidError(message)
    check_number("factor", curve.factor)
    if not 0 < curve.factor < inf:
        message = f"factor {curve.factor!r} must be above 0; 1 keeps the delay constant"
        raise InvalidError(message)
    if curve.jitter not in JITTERS:
        message = f"jitter {curve.jitter!r} is not one of {', '.join(JITTERS)}"
        raise InvalidError(message)


def check_several(name: str, value: object, example: str) -> None:
    """Refuse what is no tuple or list of durations."""
    if not isinstance(value, tuple | list):
        raise InvalidError(f"{name} {value!r} must be a tuple of durations, as in {example}")


# Exception classes, given as such or by name; on a task also a predicate. Stored are names.
if TYPE_CHECKING:
    Class = str | type[BaseException]
    Classes = Class | Sequence[Class]
    Predicate = Callable[[Any], bool]
    ClassesOrPredicate = Classes | Predicate
else:
    Classes = ClassesOrPredicate = str | tuple[str, ...]


class Retry(Struct, frozen=True, metaclass=NamedFields):
    """`max_retries` retries after the first attempt (None: without end), spaced by `backoff`.

    With scope "global" any region may take a retry; "region" pins it to the job's own. Exceptions
    of the classes in `on`, or of any class if it is empty, are retried, unless they are of one in
    `never`: `Retry(on=(TimeoutError, "httpx.TransportError"), never=ValueError)`.
    """

    max_retries: int | None = 5
    backoff: Backoff = Exponential()
    scope: Scope = "global"
    on: ClassesOrPredicate = ()
    never: Classes = ()

    def __post_init__(self) -> None:
        """Refuse an invalid policy."""
        if self.max_retries is not None and not is_count(self.max_retries):
            message = f"max_retries {self.max_retries!r} must be 0 or more; None means without end"
            raise InvalidError(message)
        if not is_backoff(self.backoff):
            message = (
                f"backoff {self.backoff!r} must be Exponential, Adaptive, Delays or Sessions;"
                " for fixed waits use Delays((1, 5, 30))"
            )
            raise InvalidError(message)
        if self.scope not in get_args(Scope):
            message = f"scope {self.scope!r} is not one of {', '.join(get_args(Scope))}"
            raise InvalidError(message)
        if not is_predicate(self.on):
            force_setattr(self, "on", check_classes("on", self.on))
        force_setattr(self, "never", check_classes("never", self.never))

    def covers(self, kind: str, classes: Sequence[str]) -> bool:
        """Whether it retries a failure of this type.

        `on` is about exceptions, which have classes. What has none, such as a refused result or a
        lost attempt, is retried unless `never` names its type. So is a failure of the store under
        a task, which is not the task's.
        """
        never, on = cast("tuple[str, ...]", self.never), self.on
        if kind in never or any(each in never for each in classes):
            return False
        if not on or not classes or STORE_ERROR in classes:
            return True
        return any(each in cast("Any", on) for each in classes)

    def spent(self, retry_count: int) -> bool:
        """Whether a failure at this retry_count is the last one."""
        return self.max_retries is not None and retry_count >= self.max_retries

    @property
    def needs_depth(self) -> bool:
        """Whether a delay depends on how much fresh work waits."""
        return isinstance(self.backoff, Adaptive)


def is_predicate(value: object) -> bool:
    """Whether it is a function that says which exceptions are retried."""
    return callable(value) and not isinstance(value, type)


def encode_retry(retry: Retry) -> bytes:
    """The policy as jobs carry it; fields of classes are left out where it names none."""
    said = msgspec.to_builtins(retry)
    for name in ("on", "never"):
        if not said[name]:
            del said[name]
    return msgspec.json.encode(said)


def is_count(value: object) -> bool:
    """Whether it is a whole number from 0 on."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_backoff(value: object) -> bool:
    """Whether it is one of the backoffs."""
    return isinstance(value, Backoff)


# Policies by name.
NAMED: dict[str, Retry] = {
    "default": Retry(),
    "quick": Retry(3, Exponential(2, 2, 60, "none")),
    "steep": Retry(5, Exponential(1, 4, None, "none")),
    "patient": Retry(10, Exponential(5, 2.0, 1800, "full")),
    "sessions": Retry(None, Sessions()),
}
# The same policies under short names.
LETTERS = {"P": "quick", "G": "quick", "F": "steep", "M": "patient", "D": "sessions"}
PRESETS: dict[str, Retry] = NAMED | {letter: NAMED[name] for letter, name in LETTERS.items()}


def preset(name: str) -> Retry:
    """The policy of this name."""
    if name not in PRESETS:
        raise InvalidError(
            f"retry {name!r} is not one of {', '.join(PRESETS)}; give one of these, or the policy"
            ' in full, such as {"max_retries": 3}'
        )
    return PRESETS[name]


class Trail(NamedTuple):
    """What the failures of a job leave for its next attempt.

    A store keeps it with the job and returns it with each claim, without reading it.
    `regions` are those that failed the job since it was enqueued or replayed, the last one last;
    `delay` is the pause that was chosen after the last failure; `lost` is how many attempts in a
    row ended with their worker; `probes` is how many failed probes used none of its retries. It is
    `limited` once it has the limits and the fairness key of its task.
    """

    regions: tuple[str, ...] = ()
    delay: float = 0.0
    lost: int = 0
    probes: int = 0
    limited: bool = False

    def after(
        self, region: str, delay: float, *, lost: bool = False, free: bool = False
    ) -> "Trail":
        """The trail after one more failure."""
        regions = (*(each for each in self.regions if each != region), region)
        lost_now = self.lost + 1 if lost else 0
        return Trail(regions, delay, lost_now, self.probes + free, self.limited)

    def write(self) -> str:
        """The trail as text, for a store to keep."""
        return _encode_trail(self).decode()


NOWHERE = Trail()
_decode_trail = msgspec.json.Decoder(Trail).decode


def read_trail(written: str) -> Trail:
    """The trail of a job; an empty one if it cannot be read."""
    if not written:
        return NOWHERE
    try:
        return _decode_trail(written)
    except UNREADABLE:
        return NOWHERE
