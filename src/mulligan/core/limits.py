"""Limits: how many jobs that name one may run at a time, and how many may start.

The rule is here, once: whether a limit has room for a job, what a start charges, and when there
will be room again. Stores keep the state of each name and carry the rule out in the claim.

Times are whole microseconds of the store's clock. Every division rounds so that a limit is never
exceeded; what is lost by that is less than one part in 256.
"""

from collections.abc import Container, Iterable, Mapping
from functools import lru_cache
from math import ceil, inf

from msgspec import Struct, json
from msgspec.structs import force_setattr, replace

from mulligan.core.checks import (
    LONGEST,
    Seconds,
    check_name,
    check_seconds,
    exact_span,
    rounded,
    seconds,
    shown,
)
from mulligan.core.errors import UNREADABLE, InvalidError
from mulligan.core.lane import Lane

ANY = "*"
# How many limits a job may name.
MOST_NAMES = 8
# Among how many limits a name is looked for: a family may have many names in use.
ALL_LIMITS = 1_000_000
MOST_COST = 1_000_000
# A limit may live in any shard of an app, of which there are no more (`core/shards.py`).
LAST_HOME = 1023
MOST_RATE = 1_000_000_000
# From so many microseconds on that refill a cost of 1, each is rounded up to a whole one.
LONG_UNIT = 1000
SECOND = 1_000_000
LONGEST_PER = 31 * 86_400.0
# When a bucket is full again that owes more than it can ever pay, and what it owes at most: numbers
# up to here are exact in every store.
LATEST = 2**53
MOST_OWED = MOST_RATE
# A rate above this is counted in so many parts of its window instead of start by start.
PARTS = 256
FOREVER = inf
encode = json.Encoder(order="sorted").encode
decode = json.Decoder(dict[str, int]).decode


class Limit(Struct, frozen=True, omit_defaults=True):
    """At most `concurrency` jobs at a time, at most `rate` starts in any `per` seconds, or both.

    With `burst` the rate is a token bucket: at most `burst + rate * w / per` in any window of w.
    With `pause_on_retry_after`, a job that is told to come back later pauses the limit for all.
    `home` is the shard in which the limit lives, with all jobs that name it.
    """

    concurrency: int | None = None
    rate: int | None = None
    per: Seconds = 1.0
    burst: int | None = None
    pause_on_retry_after: bool = False
    home: int = 0

    def __post_init__(self) -> None:
        """Refuse a limit that says nothing, or under which no job could ever start."""
        if self.concurrency is None and self.rate is None:
            raise InvalidError("a limit needs concurrency=, rate=, or both")
        for name, value, most in (
            ("concurrency", self.concurrency, MOST_COST),
            ("rate", self.rate, MOST_RATE),
            ("burst", self.burst, MOST_RATE),
        ):
            if value is not None and not (is_whole(value) and 1 <= value <= most):
                raise InvalidError(
                    f"{name} {shown(value)} of a limit must be a whole number from 1 to {most};"
                    " to stop all of its jobs, pause the limit"
                )
        if self.burst is not None and self.rate is None:
            raise InvalidError(f"burst {self.burst} needs a rate; give rate= too")
        if not is_whole(self.home) or not 0 <= self.home <= LAST_HOME:
            raise InvalidError(
                f"home {shown(self.home)} of a limit must be the number of a shard, from 0 to"
                f" {LAST_HOME}; mulligan status lists the shards"
            )
        if not isinstance(self.pause_on_retry_after, bool):
            raise InvalidError(
                f"pause_on_retry_after {self.pause_on_retry_after!r} of a limit must be True or"
                " False"
            )
        # a number, since stores read it
        force_setattr(self, "per", check_seconds("per", self.per, least=0.001, most=LONGEST_PER))
        if self.burst is not None and allowance(self) > LONGEST * SECOND:
            raise InvalidError(
                f"burst {self.burst} takes more than 100 years to refill at {self.rate} per"
                f" {exact_span(seconds(self.per))}; lower burst= or per=, or raise rate="
            )

    def __str__(self) -> str:
        """As people say it: 60 per 60 s in bursts of 10, 8 at a time, in shard 2."""
        words = []
        if self.rate is not None:
            bursts = "" if self.burst is None else f" in bursts of {self.burst}"
            words.append(f"{self.rate} per {exact_span(seconds(self.per))}{bursts}")
        if self.concurrency is not None:
            words.append(f"{self.concurrency} at a time")
        if self.home:
            words.append(f"in shard {self.home}")
        return ", ".join(words)

    @property
    def window(self) -> int:
        """The length of its window, in microseconds."""
        return round(seconds(self.per) * SECOND)

    @property
    def most_cost(self) -> int | None:
        """What one job may cost at most; None if any cost can be had."""
        return self.rate if self.burst is None else self.burst


def pauses_of(
    said: Iterable[tuple[str, float]],
    retry_after: float | None,
    names: Iterable[tuple[str, Limit | None]],
) -> list[tuple[str, float]]:
    """Which limits to pause for how long, after an attempt of a job that names those limits."""
    pauses = list(said)
    if retry_after is not None:
        told = [name for name, limit in names if limit and limit.pause_on_retry_after]
        pauses += [(name, retry_after) for name in told]
    return pauses


def is_whole(value: object) -> bool:
    """Whether it is an integer, and no bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def check_limit_name(name: object) -> str:
    """Return the name of a limit, or of a family of limits: one that ends in `*`."""
    word = check_name("limit", name)
    if ANY in word[:-1]:
        raise InvalidError(f"limit {word!r} may have '*' only as its last character")
    return word


def check_paused_name(name: object) -> str:
    """Return the name of a limit to pause; refuses a family, whose names are paused one by one."""
    word = check_limit_name(name)
    if word.endswith(ANY):
        raise InvalidError(
            f"limit {word!r} is a family; pause its names one by one, such as {word[:-1]}acme"
        )
    return word


def check_costs(limits: Mapping[str, int]) -> dict[str, int]:
    """The limits that a job names, each with its cost, in the order of names."""
    if len(limits) > MOST_NAMES:
        raise InvalidError(f"{len(limits)} limits for one job; name at most {MOST_NAMES}")
    for name, cost in limits.items():
        check_name("limit", name)
        if ANY in name:
            raise InvalidError(f"limit {name!r} is a pattern; a job names limits without '*'")
        if not is_whole(cost) or not 1 <= cost <= MOST_COST:
            raise InvalidError(
                f"cost {shown(cost)} of limit {name!r} must be a whole number from 1 to {MOST_COST}"
            )
    return dict(sorted(limits.items()))


def check_fits(name: str, cost: int, limit: Limit) -> None:
    """Refuse a cost that the limit could never have room for."""
    if limit.most_cost is not None and cost > limit.most_cost:
        raise InvalidError(
            f"cost {cost} of limit {name!r} could never be had: it allows {limit.most_cost}; lower"
            " the cost, or raise its rate or burst"
        )


def costs_text(limits: Mapping[str, int]) -> str | None:
    """The limits of a job as stores keep them: a JSON object in order of names; None if none."""
    return encode(limits).decode() if limits else None


@lru_cache(4096)
def costs_of(text: str | None) -> tuple[tuple[str, int], ...]:
    """The limits of a job, by name, with their costs, from how they are stored.

    Empty where they cannot be read: such a job must not run (`core.decide.beyond`).
    """
    if text is None:
        return ()
    try:
        return tuple(check_costs(decode(text)).items())
    except (*UNREADABLE, InvalidError):
        return ()


def covering(name: str, names: Container[str]) -> str | None:
    """Which of the names of limits covers this one: itself, or the longest pattern; else None.

    It looks for the patterns that could be among the names. So of many names pass a set or a dict.
    """
    if name in names:
        return name
    patterns = (name[:end] + ANY for end in range(len(name), -1, -1))
    return next((pattern for pattern in patterns if pattern in names), None)


def check_declared(name: str, limits: Container[str]) -> str:
    """Return the limit that covers the name; refuses a name that is covered by none."""
    by = covering(name, limits)
    if by is None:
        raise InvalidError(
            f"limit {name!r} is not declared; say app.limit({name!r}, rate=…) or concurrency=…,"
            " once, beside the tasks"
        )
    return by


def check_spent(names: Iterable[str], job_limits: str | None, limits: Container[str]) -> None:
    """Refuse what an attempt spends of a limit that is not declared, nor named by its job."""
    named = [name for name, _ in costs_of(job_limits)]
    for name in names:
        if name not in named:
            check_declared(name, limits)


class LimitState(Struct):
    """What is used of one name: permits held, starts counted, the bucket, and a pause.

    `starts` are (when, cost), oldest first. `full_at` is when the bucket will be full again.
    """

    used: int = 0
    starts: list[tuple[int, int]] = []
    full_at: int = 0
    paused_until: float = 0


def room_at(limit: Limit | None, state: LimitState, cost: int, now: int) -> float:
    """When there is room for a job of this cost if nothing else happens, `now` at the earliest.

    FOREVER if only the end of another job makes room.
    """
    at: float = max(now, state.paused_until)
    if limit is None:
        return at
    if limit.concurrency is not None and state.used >= limit.concurrency:
        return FOREVER
    if limit.rate is None:
        return at
    if limit.burst is not None:
        return max(at, state.full_at + price(limit, bounded(limit, cost)) - allowance(limit))
    room = limit.rate - bounded(limit, cost)
    for when, spent in reversed(state.starts):
        room -= spent
        if room < 0:
            return max(at, when + limit.window)
    return at


def charge(limit: Limit | None, state: LimitState, cost: int, now: int) -> None:
    """Count a start of this cost, or what a job says later that it has spent."""
    if limit is None or limit.rate is None:
        return
    if limit.burst is not None:
        state.full_at = min(LATEST, max(state.full_at, now) + price(limit, cost))
        return
    at = counted_at(limit, now)
    forget_starts(limit, state, now)
    if state.starts and state.starts[-1][0] >= at:
        state.starts[-1] = (state.starts[-1][0], state.starts[-1][1] + cost)
    else:
        state.starts.append((at, cost))


def refund(limit: Limit | None, state: LimitState, cost: int, started: int, now: int) -> None:
    """Take back the charge of a start that never was."""
    if limit is None or limit.rate is None:
        return
    if limit.burst is not None:
        state.full_at -= price(limit, cost)
        return
    at = counted_at(limit, started)
    if at + limit.window <= now:
        return
    for index, (when, spent) in enumerate(state.starts):
        if when >= at:
            state.starts[index] = (when, max(0, spent - cost))
            return


def recount(before: Limit | None, after: Limit | None, state: LimitState, now: int) -> bool:
    """Count what is used of a limit by the rate that replaces its own; says if that is another.

    What a bucket lacks takes as long to refill as the new rate needs for it. Starts of a window
    enter a bucket when they were, and what a bucket lacks enters a window now.
    """
    if not is_recounted(before, after) or before is None or after is None:
        return False
    if before.burst is None:
        for when, cost in state.starts:
            if when + before.window > now:
                full_at = max(state.full_at, min(when, now)) + price(after, cost)
                state.full_at = min(LATEST, full_at)
        state.starts.clear()
        return True
    lacking = min(MOST_OWED, max(0, state.full_at - now) / refill(before))
    if after.burst is not None:
        state.full_at = min(LATEST, now + ceil(lacking * refill(after)))
        return True
    state.full_at = 0
    if lacking:
        charge(after, state, ceil(lacking), now)
    return True


def is_recounted(before: Limit | None, after: Limit | None) -> bool:
    """Whether a limit that replaces another counts differently what was used of that."""
    if before is None or after is None or before.rate is None or after.rate is None:
        return False
    if before.burst is None or after.burst is None:
        return (before.burst is None) != (after.burst is None)
    return refill(before) != refill(after)


def refill(limit: Limit) -> float:
    """How long the bucket takes to refill a cost of 1; stores compute it as floats, too."""
    rate = limit.rate or 1
    whole, rest = divmod(limit.window, rate)
    return float(whole + (rest > 0)) if whole >= LONG_UNIT else limit.window / rate


def forget_starts(limit: Limit, state: LimitState, now: int) -> None:
    """Forget the starts that have left the window."""
    gone = 0
    while gone < len(state.starts) and state.starts[gone][0] + limit.window <= now:
        gone += 1
    del state.starts[:gone]


def idle_from(limit: Limit | None, state: LimitState) -> float:
    """From when on the state says no more than a new one would; FOREVER while permits are held."""
    if state.used:
        return FOREVER
    starts = state.starts[-1][0] + limit.window if limit and limit.rate and state.starts else 0
    return max(starts, state.full_at, state.paused_until)


def bounded(limit: Limit, cost: int) -> int:
    """The cost, or what the limit was lowered to since: such a job starts when nothing is used."""
    return cost if limit.most_cost is None else min(cost, limit.most_cost)


def price(limit: Limit, cost: int) -> int:
    """How long the bucket takes to refill this cost, rounded up; of a debt the part that counts.

    Where that loses less than a thousandth, each unit of the cost is rounded up by itself: then as
    many starts as the bucket holds find room in a full one.
    """
    rate, owed = limit.rate or 1, min(cost, MOST_OWED)
    whole, rest = divmod(limit.window, rate)
    if whole >= LONG_UNIT:
        return min(LATEST, owed * (whole + (rest > 0)))
    return owed * whole - (-owed * rest // rate)


def allowance(limit: Limit) -> int:
    """How long an empty bucket takes to fill: by units as above, or rounded down."""
    rate = limit.rate or 1
    whole, rest = divmod(limit.window, rate)
    burst = limit.burst or 0
    if whole >= LONG_UNIT:
        return burst * (whole + (rest > 0))
    return burst * whole + burst * rest // rate


def counted_at(limit: Limit, now: int) -> int:
    """The time under which a start is counted: its own, or the end of its part of the window."""
    if (limit.rate or 0) <= PARTS:
        return now
    part = max(1, limit.window // PARTS)
    return -(-now // part) * part


class StoredLimit(Struct, frozen=True, omit_defaults=True):
    """A limit as it is stored: what an app declares, and what an operator set instead."""

    declared: Limit | None = None
    set: Limit | None = None

    @property
    def in_force(self) -> Limit | None:
        """What holds: the operator's word before the app's."""
        return self.declared if self.set is None else self.set

    def with_declared(self, limit: Limit | None) -> "StoredLimit":
        """As an app declares it."""
        return replace(self, declared=limit)

    def with_set(self, limit: Limit | None) -> "StoredLimit":
        """As an operator sets it, or with None resets it."""
        return replace(self, set=limit)


class LimitView(Struct, frozen=True):
    """A limit, or one name of a family, as a reader sees it.

    `stored` is what is kept under this very name, `in_force` what holds for it. `used` is the cost
    counted in the window, or what the bucket lacks. Times are the store's, in seconds.
    """

    name: str
    stored: StoredLimit
    in_force: Limit | None
    running: int = 0
    waiting: int = 0
    used: int = 0
    paused_until: float | None = None
    room_at: float | None = None


class KeyView(Struct, frozen=True):
    """A fairness key with work waiting in a lane; `turns` is how many turns it is behind."""

    lane: Lane
    key: str
    waiting: int
    turns: float = 0.0


def used_of(limit: Limit | None, state: LimitState, now: int) -> int:
    """The cost that counts against the limit now."""
    if limit is None or limit.rate is None:
        return 0
    if limit.burst is not None:
        left = max(0, state.full_at - now)
        unit = price(limit, 1)
        return -(-left // unit) if unit > LONG_UNIT else -(-left * limit.rate // limit.window)
    return sum(cost for at, cost in state.starts if at + limit.window > now)


def view_of(
    name: str,
    stored: StoredLimit,
    limit: Limit | None,
    state: LimitState,
    *,
    waiting: int,
    now: float,
) -> LimitView:
    """The limit as a reader sees it at this time of the store."""
    at = room_at(limit, state, 1, micros(now))
    return LimitView(
        name,
        stored,
        limit,
        state.used,
        waiting,
        used_of(limit, state, micros(now)),
        state.paused_until / SECOND if state.paused_until > micros(now) else None,
        None if at == FOREVER else max(now, rounded(at / SECOND)),
    )


def micros(moment: float) -> int:
    """A time in whole microseconds."""
    return round(moment * SECOND)
