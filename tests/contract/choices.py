"""What the comparison draws from: few names and short times, so that jobs get in each other's way.

Times are eighths of a second, which every store keeps exactly.
"""

from collections.abc import Callable
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple

from mulligan.core.budget import Budget
from mulligan.core.checks import class_names, type_name
from mulligan.core.counts import Count
from mulligan.core.facts import QueueSettings
from mulligan.core.fairness import Carry
from mulligan.core.fetch import Balanced, Capped, Fifo, RetryFirst, Separate, Weighted
from mulligan.core.health import Breaker
from mulligan.core.lane import Lane
from mulligan.core.limits import Limit as NamedLimit
from mulligan.core.outcome import Drained, Failed, LimitUse, Lost, Result, Snoozed, Succeeded
from mulligan.core.page import Selection
from mulligan.core.plan import Cap, ClaimPlan, Group, Limit, Rate, Source, Take
from mulligan.core.record import Record
from mulligan.core.retry import Delays, Exponential, Retry
from tests.contract.builders import TRACEBACK

QUEUES = ("a", "b")
REGIONS = ("EU", "US")
SCOPES = ("EU", "US", "*", "*-EU", "*+US")
# Of each region such as make the same pause.
PROBES = {"EU": (-1, 0, 1, 2), "US": (-3,)}
SPANS = (0.125, 0.5, 1.0, 1.0, 2.0, 2.0, 4.0, 16.0, 16.0)
MILLIONTHS = (0, 500_000, 999_999)
LIMITS: tuple[Limit, ...] = (
    Cap("x", 1),
    Cap("y", 2),
    Rate("r", 2, 4.0),
    Rate("c", None, 60.0),
    Rate("s", 1, 60.0, 0.5, "c"),
)


USES = (
    LimitUse((("k", 2),)),
    LimitUse((), (("l", 1.0),)),
    LimitUse((("t:1", 1), ("k", 1)), (("k", 0.5),)),
    LimitUse(retry_after=2.0),
)


class Choices(NamedTuple):
    """Where jobs stand and what holds them up: what comes more often is named more often."""

    queues: tuple[str, ...]
    regions: tuple[str, ...]
    priorities: tuple[int, ...]
    limits: tuple[str | None, ...]
    fairness_keys: tuple[str | None, ...]
    expires: tuple[float | None, ...]
    lanes: list[Lane]
    demands: tuple[int, ...]


SPREAD = Choices(
    ("a", "a", "a", "b"),
    (*REGIONS, "*"),
    (0, 0, 0, 1, 2),
    (None,) * 6 + ('{"k":1}', '{"l":1}', '{"k":2}', '{"k":1,"t:1":1}', '{"t:1":1}', '{"t:2":3}'),
    (None,) * 6 + ("x", "x", "y"),
    (None,) * 7 + (0.0, 1.0, 5.0),
    [Lane("a", scope, priority) for scope in SCOPES for priority in range(4)],
    (0, 1, 1, 2, 3, 5, 20),
)
# Long lanes, read a little at a time, in which most jobs have a key or expire.
CROWDED = Choices(
    ("a",) * 9 + ("b",),
    ("EU",) * 6 + ("US", "*"),
    (0,) * 8 + (1, 2),
    (None,) * 4 + ('{"k":1}',) * 3 + ('{"l":1}', '{"k":2,"l":1}', '{"l":1,"t:1":2}', '{"t:2":1}'),
    (None, None, None, "x", "x", "y", "z"),
    (None, None, 0.0, 1.0, 5.0),
    [Lane("a", scope, priority) for scope in ("EU", "*") for priority in range(3)],
    (0, 1, 1, 1, 2, 3),
)


def with_keys_only(choices: Choices) -> Choices:
    """No job names a limit: lines are told apart by their fairness keys alone."""
    return choices._replace(limits=(None,), fairness_keys=(None, "x", "x", "y", "z"))


def with_limits_only(choices: Choices) -> Choices:
    """No job has a fairness key: nobody takes turns."""
    return choices._replace(fairness_keys=(None,))


FORMS = (
    *(SPREAD, CROWDED) * 2,
    *(with_keys_only(choices) for choices in (SPREAD, CROWDED)),
    *(with_limits_only(choices) for choices in (SPREAD, CROWDED)),
)


class Command(NamedTuple):
    """A method of the comparison, and what it is called with."""

    name: str
    arguments: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.name} {told(self.arguments)}"


def told(value: Any) -> Any:
    """The value as it is shown: without what says nothing."""
    if isinstance(value, dict):
        return {key: told(each) for key, each in value.items() if each is not None}
    return [told(each) for each in value] if isinstance(value, list) else value


def program(chance: Random, length: int) -> list[Command]:
    """So many commands, the work of every day far more often than the rest.

    A longer program begins as a shorter one does.
    """
    weights = list(accumulate(weight for weight, _ in COMMANDS.values()))
    choices = chance.choice(FORMS)
    commands = []
    for _ in range(length):
        [name] = chance.choices(list(COMMANDS), cum_weights=weights)
        commands.append(Command(name, COMMANDS[name][1](chance, choices)))
    return commands


def new_job(chance: Random, choices: Choices) -> dict[str, Any]:
    """The fields of a new job, but for its id."""
    pick = chance.choice
    fields = plain_job(chance, choices)
    if fields["unique_key"] is not None:
        more = pick(({}, {}, {"unique_for": pick((1.0, 8.0, 90.0))}, {"debounce_max": 12.0}))
        fields |= more
    if "debounce_max" in fields:  # by itself and waiting, as an app has it
        fields |= {"awaits": 0, "unique_in": None, "delay": pick((0.125, 1.0, 5.0))}
        fields["debounces"] = pick((None, None, "nobody"))
    return fields


def plain_job(chance: Random, choices: Choices) -> dict[str, Any]:
    """The fields of a new job that is neither debounced nor throttled."""
    pick = chance.choice
    return {
        "queue": pick(choices.queues),
        "region": pick(choices.regions),
        "priority": pick(choices.priorities),
        "delay": pick((0.0, 0.0, 0.0, 0.0, 0.0, 0.125, 1.0, 2.5, 20.0)),
        "unique_key": pick((None, None, None, None, "u", "v")),
        "limits": pick(choices.limits),
        "fairness_key": pick(choices.fairness_keys),
        "expires": pick(choices.expires),
        "on_dead": pick((None, None, "mourn")),
        "unique_in": pick((None, None, None, "a", "b")),
        "awaits": pick((0,) * 12 + (1, 2, 3)),
        "gather": pick((None, None, some(chance), some(chance))),
        "gather_index": pick((0, 1, 2)),
        "return_exceptions": pick((False, True)),
        "keep": pick((None, None, None, 0, 3, 50)),
        "retry": Retry(
            max_retries=pick((0, 1, 2, None, None)),
            backoff=pick((Exponential(2, 2, 60, "full"), Delays((0.0, 0.5, 3.0)))),
            scope=pick(("global", "region")),
            on=pick(((), (), (), (OSError, ValueError))),
            never=pick(((), (), (), (TimeoutError, "Refused"))),
        ),
    }


def result(chance: Random) -> Result | None:
    """What an attempt gave, a failure more often than not; None if it was asked to stop."""
    pick = chance.choice
    kind = pick((None, ValueError, TimeoutError, KeyError))
    failed = Failed(
        "Refused" if kind is None else type_name(kind),
        pick(("boom", "100% 'odd' ☃")),
        code=pick((None, "E1")),
        delay=pick((None, None, 0.0, 1.5)),
        non_retryable=pick((False, False, False, False, True)),
        refused=pick((None, '"Error"')),
        traceback=pick((None, TRACEBACK)),
        classes=() if kind is None else class_names(kind),
    )
    succeeded = Succeeded(pick((None, b"", b"1", b'{"a":1}')))
    others = Snoozed(1.0), Drained(), Lost()
    return pick((*(failed,) * 6, *(succeeded,) * 4, *others * 2, None))


def settings_a(chance: Random) -> QueueSettings:
    """Settings of queue a, whose budgets are all limits.

    A budget keeps its kind and window, as a limit's memory reaches back one window.
    """
    policies = (RetryFirst(), Capped(1), Capped(2), Weighted(0.25), Balanced(), Separate())
    budget = chance.choice((None, Budget(1, 4.0), Budget(2, 4.0)))
    weights = chance.choice(((), (), (("x", 2.0),), (("", 0.5), ("y", 4.0))))
    return QueueSettings(chance.choice(policies), budget, chance.choice((0.0, 2.0)), weights)


def settings_b(chance: Random) -> QueueSettings:
    """Settings of queue b, whose budgets are all shares."""
    policy = chance.choice((Fifo(), RetryFirst(), Capped(1), Weighted(0.25)))
    budget = chance.choice((None, Budget(ratio=0.25), Budget(ratio=0.5)))
    return QueueSettings(policy, None if policy == Fifo() else budget)


def odd_plan(chance: Random, choices: Choices) -> ClaimPlan:
    """A plan that no policy would make: any lanes, tiers, waits, limits, steps and shares."""
    lanes = chance.sample(choices.lanes, chance.randint(3, min(12, len(choices.lanes))))
    groups: list[Group] = []
    while lanes:
        tiers = []
        for _ in range(chance.randint(1, 2)):
            size = chance.randint(1, 4)
            tier, lanes = lanes[:size], lanes[size:]
            tiers.append(tuple(odd_source(chance, lane) for lane in tier))
        groups.append(Group("a", "fresh", tuple(tiers)))
    demand = chance.choice(choices.demands)
    everything = tuple(range(len(groups)))
    steps = [
        Take(
            chance.choice(everything),
            chance.randint(0, demand),
            chance.choice((250_000, 500_000, 800_000)),
            chance.choice(MILLIONTHS),
            chance.choice(((), (0,), everything)),
        )
        for _ in range(chance.randint(0, 4))
    ]
    return ClaimPlan(demand, tuple(groups), (*steps, Take(chance.choice(everything), demand)))


def odd_source(chance: Random, lane: Lane) -> Source:
    """The lane, behind some limits."""
    limits = tuple(chance.sample(LIMITS, chance.choice((0, 1, 1, 2))))
    return Source(
        lane, chance.choice((0.0, 0.0, 0.0, 1.0, 2.5)), limits, yields=chance.random() < 0.5
    )


def selection(chance: Random) -> Selection:
    """Some of the jobs."""
    return Selection(
        status=chance.choice((None, "pending", "failed", "done")),
        queue=chance.choice((None, *QUEUES)),
        region=chance.choice((None, *REGIONS)),
        text=chance.choice((None, None, "boom", "%")),
    )


def some(chance: Random) -> int:
    """A number that stands for some job or claim."""
    return chance.randrange(100)


def several(chance: Random) -> list[int]:
    """Numbers that stand for jobs or claims, now and then the same twice."""
    return [some(chance) for _ in range(chance.randint(1, 4))]


def worker(chance: Random) -> int:
    """The number of a worker."""
    return chance.randrange(4)


def enqueue(chance: Random, choices: Choices) -> dict[str, Any]:
    """New jobs, now and then under an old id."""
    count = chance.choice((2, 4, 8))
    old = [some(chance) if chance.random() < 0.1 else None for _ in range(count)]
    return {"batch": [{**new_job(chance, choices), "old": each} for each in old]}


def claim(chance: Random, choices: Choices) -> dict[str, Any]:
    """A claim as an engine makes it, now and then from facts that are out of date."""
    return {
        "number": worker(chance),
        "demand": chance.choice(choices.demands),
        "names": chance.sample(QUEUES, 2),
        "carry": Carry(chance.choice(MILLIONTHS), chance.choice(MILLIONTHS)),
        "only": chance.choice((None, None, None, None, "retries", "fresh")),
        "facts": chance.choice(("newest",) * 10 + ("last", "last", "first")),
    }


def commit(chance: Random, choices: Choices) -> dict[str, Any]:
    """Results of some claims, and what comes after those that succeeded."""
    return {
        "chosen": [(each, result(chance)) for each in several(chance)],
        "draw": chance.choice((0.0, 0.5, 0.75)),
        "use": chance.choice((None,) * 5 + USES),
        "following": [new_job(chance, choices) for _ in range(chance.choice((0, 0, 1, 2)))],
    }


def record(chance: Random) -> Record:
    """Something that an attempt records, without its number."""
    value = chance.choice((b"1", b'"odd \xe2\x98\x83"', b'{"a":[1,2,3]}'))
    match chance.choice(("step", "step", "log", "log", "progress", "checkpoint")):
        case "step":
            return Record("step", 0, value, chance.choice(("charge", "ship", "odd ☃ 'name'")))
        case kind:
            return Record(kind, 0, value)


def recording(chance: Random) -> tuple[int, bool, list[Record]]:
    """Under which claim, whether it is sent again, and what is recorded if not."""
    many = chance.choice((1, 1, 2, 5, 120))
    return some(chance), chance.random() < 0.2, [record(chance) for _ in range(many)]


def tally(chance: Random) -> Count:
    """So much of something."""
    name = chance.choice(("succeeded", "failed", "failed", "started", "wait seconds"))
    value = chance.randint(1, 20) if name != "wait seconds" else chance.choice(SPANS)
    return Count(chance.choice(QUEUES), chance.choice(REGIONS), name, value)


def switch(chance: Random, _: Choices) -> dict[str, Any]:
    """A breaker that opens, closes or counts a probe.

    While it is open its pause stays, as a budget's window does.
    """
    region = chance.choice(REGIONS)
    opened = chance.random() < 0.5
    return {
        "queue": chance.choice(QUEUES),
        "region": region,
        "after": Breaker(
            open=opened,
            probes=chance.choice(PROBES[region]) if opened else chance.randint(-7, 2),
            probed_at=chance.randint(0, 80) / 8,
        ),
        "current": chance.random() < 0.8,
    }


def reschedule(chance: Random, choices: Choices) -> dict[str, Any]:
    """A schedule that is stored, changed or removed, with a few ticks."""
    batch = [new_job(chance, choices) for _ in range(chance.choice((0, 1, 1, 2)))]
    return {
        "name": chance.choice(("daily", "hourly")),
        "after": chance.choice((None, b'{"n":1}', b'{"n":2}', b'{"n":3}')),
        "batch": [
            fields | {"awaits": 0, "gather": None, "debounce_max": None, "debounces": None}
            for fields in batch
        ],
        "current": chance.random() < 0.85,
        "withdraw": chance.sample((0, 1), chance.choice((0, 1, 1, 2))),
        "edit": chance.random() < 0.4,
    }


def limit(chance: Random, _: Choices) -> dict[str, Any]:
    """A limit that is declared or set, or is so no more."""
    made = (
        None,
        NamedLimit(concurrency=1),
        NamedLimit(concurrency=2, pause_on_retry_after=True),
        NamedLimit(rate=2, per=1.0),
        NamedLimit(rate=3, per=4.0),
        NamedLimit(rate=2, per=2.0, burst=3),
        NamedLimit(rate=7, per=3.0, burst=2),
        NamedLimit(concurrency=2, rate=3, per=1.0),
        NamedLimit(rate=300, per=2.0),
    )
    return {
        "name": chance.choice(("k", "k", "l", "t:*", "t:1", "*")),
        "limit": chance.choice(made),
        "declared": chance.random() < 0.6,
    }


# Every command: how often it is drawn, and what it is drawn with.
COMMANDS: dict[str, tuple[int, Callable[[Random, Choices], dict[str, Any]]]] = {
    "enqueue": (16, enqueue),
    "claim": (20, claim),
    "claim_oddly": (16, lambda c, of: {"number": worker(c), "plan": odd_plan(c, of)}),
    "commit": (26, commit),
    "advance": (
        16,
        lambda c, _: {"seconds": c.choice((0.125, 0.5, 1.0, 1.0, 2.0, 2.0, 4.0, 16.0, 16.0))},
    ),
    "advance_far": (1, lambda *_: {}),
    "beat": (3, lambda c, _: {"number": worker(c), "shown": several(c)}),
    "leave": (3, lambda c, _: {"number": worker(c)}),
    "die": (4, lambda c, _: {"number": worker(c)}),
    "reclaim": (8, lambda c, _: {"number": worker(c), "limit": c.randint(1, 5)}),
    "promote": (2, lambda *_: {}),
    "replay": (5, lambda c, _: {"numbers": several(c), "from_start": c.random() < 0.3}),
    "record": (6, lambda c, _: {"chosen": [recording(c) for _ in range(c.randint(1, 3))]}),
    "cancel": (3, lambda c, _: {"numbers": several(c)}),
    "purge": (2, lambda c, _: {"numbers": several(c)}),
    "prune": (2, lambda c, _: {"keep": c.choice((0.0, 5.0, 100.0))}),
    "adopt": (3, lambda c, _: {"number": some(c)}),
    "pause": (3, lambda c, _: {"queue": c.choice(QUEUES), "paused": c.random() < 0.25}),
    "set_limit": (4, limit),
    "pause_limit": (
        2,
        lambda c, _: {
            "name": c.choice(("k", "l", "t:1")),
            "seconds": c.choice((0.0, 0.0, *SPANS)),
            "at_least": c.random() < 0.25,
        },
    ),
    "spend": (1, lambda c, _: {"name": c.choice(("k", "l", "t:1")), "cost": c.randint(1, 5)}),
    "limits": (2, lambda *_: {}),
    "keys": (2, lambda c, _: {"queue": c.choice(QUEUES)}),
    "configure": (3, lambda c, _: {"a": settings_a(c), "b": settings_b(c)}),
    "read": (
        4,
        lambda c, of: {"lane": c.choice(of.lanes), "limit": c.randint(1, 9), "number": some(c)},
    ),
    "page": (2, lambda c, _: {"selection": selection(c), "limit": c.randint(1, 6)}),
    "count": (3, lambda *_: {}),
    "tally": (6, lambda c, _: {"counts": [tally(c) for _ in range(c.randint(1, 5))]}),
    "counts": (2, lambda *_: {}),
    "switch": (3, switch),
    "reschedule": (5, reschedule),
    "note": (
        2,
        lambda c, _: {
            "key": c.choice(("a/x", "a/y", "b%")),
            "value": c.choice((None, b"1", b"\x00\xff")),
            "keep": c.choice(SPANS),
        },
    ),
}
