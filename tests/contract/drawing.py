"""What the comparison draws from: few names and short times, so that jobs get in each other's way.

Times are eighths of a second, which every store keeps exactly.
"""

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from mulligan.core.backoff import Delays, Exponential
from mulligan.core.budget import Budget
from mulligan.core.facts import QueueSettings
from mulligan.core.fairness import Carry
from mulligan.core.fetch import Balanced, Capped, Fifo, RetryFirst, Separate, Weighted
from mulligan.core.health import Breaker
from mulligan.core.lane import Lane
from mulligan.core.outcome import Drained, Failed, Lost, Result, Snoozed, Succeeded
from mulligan.core.plan import ClaimPlan, Gate, Group, Rate, Running, Source, Take
from mulligan.core.retry import Retry
from mulligan.stores.contract import Count, Selection

QUEUES = ("a", "b")
REGIONS = ("EU", "US")
SCOPES = ("EU", "US", "*", "*-EU", "*+US")
LANES = [Lane("a", scope, priority) for scope in SCOPES for priority in range(4)]
SPANS = (0.125, 0.5, 1.0, 1.0, 2.0, 2.0, 4.0, 16.0, 16.0)
MILLIONTHS = (0, 500_000, 999_999)
GATES: tuple[Gate, ...] = (
    Running("x", 1),
    Running("y", 2),
    Rate("r", 2, 4.0),
    Rate("c", None, 60.0),
    Rate("s", 1, 60.0, 0.5, "c"),
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
    """So many commands, the work of every day far more often than the rest."""
    names = chance.choices(list(COMMANDS), [weight for weight, _ in COMMANDS.values()], k=length)
    return [Command(name, COMMANDS[name][1](chance)) for name in names]


def new_job(chance: Random) -> dict[str, Any]:
    """The fields of a new job, but for its id."""
    pick = chance.choice
    return {
        "queue": pick(("a", "a", "a", "b")),
        "region": pick((*REGIONS, "*")),
        "priority": pick((0, 0, 0, 2)),
        "delay": pick((0.0, 0.0, 0.0, 0.0, 0.0, 0.125, 1.0, 2.5, 20.0)),
        "unique_key": pick((None, None, None, None, "u", "v")),
        "concurrency_key": pick((None, None, None, "k", "l")),
        "concurrency_limit": pick((1, 1, 2)),
        "expires": pick((None, None, None, None, None, None, None, 0.0, 1.0, 5.0)),
        "on_dead": pick((None, None, "mourn")),
        "unique_in": pick((None, None, None, "a", "b")),
        "awaits": pick((0,) * 12 + (1, 2, 3)),
        "gather": pick((None, None, some(chance), some(chance))),
        "place": pick((0, 1, 2)),
        "retry": Retry(
            max_retries=pick((0, 1, 2, None, None)),
            backoff=pick((Exponential(2, 2, 60, "full"), Delays((0.0, 0.5, 3.0)))),
            scope=pick(("global", "region")),
        ),
    }


def result(chance: Random) -> Result:
    """What an attempt gave; a failure more often than not."""
    pick = chance.choice
    failed = Failed(
        pick(("ValueError", "TimeoutError")),
        pick(("boom", "100% 'odd' ☃")),
        code=pick((None, "E1")),
        delay=pick((None, None, 0.0, 1.5)),
        permanent=pick((False, False, False, False, True)),
        refused=pick((None, '"Error"')),
    )
    succeeded = Succeeded(pick((None, b"", b"1", b'{"a":1}')))
    return pick((failed, failed, failed, succeeded, succeeded, Snoozed(1.0), Drained(), Lost()))


def settings_a(chance: Random) -> QueueSettings:
    """Settings of queue a, whose budgets are all limits.

    A budget keeps its kind and window, as a gate's memory reaches back one window.
    """
    policies = (RetryFirst(), Capped(1), Capped(2), Weighted(0.25), Balanced(), Separate())
    budget = chance.choice((None, Budget(1, 4.0), Budget(2, 4.0)))
    return QueueSettings(chance.choice(policies), budget, chance.choice((0.0, 2.0)))


def settings_b(chance: Random) -> QueueSettings:
    """Settings of queue b, whose budgets are all shares."""
    policy = chance.choice((Fifo(), RetryFirst(), Capped(1), Weighted(0.25)))
    budget = chance.choice((None, Budget(ratio=0.25), Budget(ratio=0.5)))
    return QueueSettings(policy, None if policy == Fifo() else budget)


def odd_plan(chance: Random) -> ClaimPlan:
    """A plan that no policy would make: any lanes, tiers, waits, gates, steps and shares."""
    lanes = chance.sample(LANES, chance.randint(3, 12))
    groups: list[Group] = []
    while lanes:
        tiers = []
        for _ in range(chance.randint(1, 2)):
            size = chance.randint(1, 4)
            tier, lanes = lanes[:size], lanes[size:]
            tiers.append(tuple(odd_source(chance, lane) for lane in tier))
        groups.append(Group("a", "fresh", tuple(tiers)))
    demand = demand_of(chance)
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
    """The lane, behind some gates."""
    gates = tuple(chance.sample(GATES, chance.choice((0, 1, 1, 2))))
    return Source(
        lane, chance.choice((0.0, 0.0, 0.0, 1.0, 2.5)), gates, yields=chance.random() < 0.5
    )


def selection(chance: Random) -> Selection:
    """Some of the jobs."""
    return Selection(
        status=chance.choice((None, "pending", "failed", "done")),
        queue=chance.choice((None, *QUEUES)),
        region=chance.choice((None, *REGIONS)),
        text=chance.choice((None, None, "boom", "%")),
    )


def demand_of(chance: Random) -> int:
    """How many free slots a worker has."""
    return chance.choice((0, 1, 1, 2, 3, 5, 20))


def some(chance: Random) -> int:
    """A number that stands for some job or claim."""
    return chance.randrange(100)


def several(chance: Random) -> list[int]:
    """Numbers that stand for jobs or claims, now and then the same twice."""
    return [some(chance) for _ in range(chance.randint(1, 4))]


def worker(chance: Random) -> int:
    """The number of a worker."""
    return chance.randrange(4)


def enqueue(chance: Random) -> dict[str, Any]:
    """New jobs, now and then under an old id."""
    count = chance.choice((2, 4, 8))
    old = [some(chance) if chance.random() < 0.1 else None for _ in range(count)]
    return {"batch": [{**new_job(chance), "old": each} for each in old]}


def claim(chance: Random) -> dict[str, Any]:
    """A claim as an engine makes it, now and then from facts that are out of date."""
    return {
        "number": worker(chance),
        "demand": demand_of(chance),
        "names": chance.sample(QUEUES, 2),
        "carry": Carry(chance.choice(MILLIONTHS), chance.choice(MILLIONTHS)),
        "only": chance.choice((None, None, None, None, "retries", "fresh")),
        "facts": chance.choice(("newest",) * 10 + ("last", "last", "first")),
    }


def commit(chance: Random) -> dict[str, Any]:
    """Results of some claims, and what comes after those that succeeded."""
    return {
        "chosen": [(each, result(chance)) for each in several(chance)],
        "draw": chance.choice((0.0, 0.5, 0.75)),
        "following": [new_job(chance) for _ in range(chance.choice((0, 0, 1, 2)))],
    }


def tally(chance: Random) -> Count:
    """So much of something."""
    name = chance.choice(("succeeded", "failed", "failed", "started", "wait seconds"))
    value = chance.randint(1, 20) if name != "wait seconds" else chance.choice(SPANS)
    return Count(chance.choice(QUEUES), chance.choice(REGIONS), name, value)


def switch(chance: Random) -> dict[str, Any]:
    """A breaker that opens, closes or counts a probe."""
    return {
        "queue": chance.choice(QUEUES),
        "region": chance.choice(REGIONS),
        "after": Breaker(open=chance.random() < 0.5, probes=chance.randint(0, 2)),
        "current": chance.random() < 0.8,
    }


# Every command: how often it is drawn, and what it is drawn with.
COMMANDS: dict[str, tuple[int, Callable[[Random], dict[str, Any]]]] = {
    "enqueue": (16, enqueue),
    "claim": (20, claim),
    "claim_oddly": (16, lambda c: {"number": worker(c), "plan": odd_plan(c)}),
    "commit": (26, commit),
    "commit_cancelled": (2, lambda c: {"number": some(c)}),
    "advance": (
        16,
        lambda c: {"seconds": c.choice((0.125, 0.5, 1.0, 1.0, 2.0, 2.0, 4.0, 16.0, 16.0))},
    ),
    "advance_far": (1, lambda _: {}),
    "beat": (3, lambda c: {"number": worker(c), "shown": several(c)}),
    "leave": (3, lambda c: {"number": worker(c)}),
    "die": (4, lambda c: {"number": worker(c)}),
    "seize": (8, lambda c: {"number": worker(c), "limit": c.randint(1, 5)}),
    "promote": (2, lambda _: {}),
    "replay": (5, lambda c: {"numbers": several(c)}),
    "cancel": (3, lambda c: {"numbers": several(c)}),
    "purge": (2, lambda c: {"numbers": several(c)}),
    "prune": (2, lambda c: {"keep": c.choice((0.0, 5.0, 100.0))}),
    "adopt": (3, lambda c: {"number": some(c)}),
    "pause": (3, lambda c: {"queue": c.choice(QUEUES), "paused": c.random() < 0.25}),
    "configure": (3, lambda c: {"a": settings_a(c), "b": settings_b(c)}),
    "read": (4, lambda c: {"lane": c.choice(LANES), "limit": c.randint(1, 9), "number": some(c)}),
    "page": (2, lambda c: {"selection": selection(c), "limit": c.randint(1, 6)}),
    "count": (3, lambda _: {}),
    "tally": (6, lambda c: {"counts": [tally(c) for _ in range(c.randint(1, 5))]}),
    "tallies": (2, lambda _: {}),
    "switch": (3, switch),
    "note": (
        2,
        lambda c: {
            "key": c.choice(("a/x", "a/y", "b%")),
            "value": c.choice((None, b"1", b"\x00\xff")),
            "keep": c.choice(SPANS),
        },
    ),
}
