"""What a seed means: who works where, what arrives when, and what goes wrong."""

import random
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from mulligan import Budget, Exponential, Retry, Sessions, Settings
from mulligan.app.chain import each, part_of
from mulligan.app.gather import gathered
from mulligan.app.schedules import new_schedule
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import Balanced, Capped, FetchPolicy, Fifo, RetryFirst, Weighted
from mulligan.core.job import NewJob
from mulligan.core.schedule import CATCH_UPS, Schedule
from tests.dst import tasks
from tests.dst.tasks import QUEUES

if TYPE_CHECKING:
    from mulligan.core.retry import Jitter, Scope

DAY = 86_400.0
REGIONS = ("US", "EU", "ASIA")
What = Literal[
    "crash",
    "freeze",
    "drain",
    "roll",
    "cut",
    "break",
    "noise",
    "clock",
    "cancel",
    "replay",
    "pause",
    "purge",
    "reuse",
    "configure",
    "limit",
    "reschedule",
    "turnover",
]
FAULTS: tuple[What, ...] = ("crash", "freeze", "drain", "roll", "cut", "break", "noise", "clock")
CHAIN = tasks.split | each(tasks.member) | tasks.collect | tasks.after
PAIR = tasks.render | tasks.after
OPERATORS: tuple[What, ...] = ("cancel", "replay", "pause", "purge", "reuse", "configure", "limit")


# The days with a schedule; the last of eight is a calm one.
TICKING = (3, 7)
# The days on which customers crowd a queue, and others a provider; what the customers weigh.
CROWDED = (0, 3)
WEIGHTS = (("customer0", 4.0), ("customer2", 0.5))


class Arrival(NamedTuple):
    """Jobs that one producer hands over together."""

    at: float
    jobs: list[NewJob]


class Trouble(NamedTuple):
    """Something that is done to the system; `draw` chooses to whom and how much."""

    at: float
    what: What
    draw: float


class Hole(NamedTuple):
    """A region that fails calls at once, from then and for so long."""

    at: float
    seconds: float
    region: str


class Plan(Struct):
    """All that is drawn before the first moment."""

    seed: int
    calm: bool
    settings: Settings
    posts: list[tuple[str, str]]
    queues: dict[str, QueueSettings]
    failure_rate: float
    arrivals: list[Arrival]
    troubles: list[Trouble]
    attempt_seconds: float
    latency: float
    hole: Hole | None = None
    schedule: Schedule | None = None

    def duration(self, chance: random.Random) -> float:
        """How long an attempt takes: mostly a while, now and then longer than a lease."""
        if chance.random() < 0.05:
            return chance.uniform(1, 2) * self.settings.lease
        return chance.expovariate(1 / self.attempt_seconds)

    def delay(self, chance: random.Random) -> float:
        """How long a task wishes to be left alone."""
        return round(chance.uniform(0, 600), 3)


def drawn(seed: int) -> Plan:
    """The plan of a seed; one seed in eight has no faults at all."""
    chance = random.Random(f"plan {seed}")
    calm = seed % 8 == 7
    lease = chance.choice((1800.0, 3600.0, 7200.0))
    settings = Settings(
        lease=lease,
        beat=lease / 3,
        concurrency=chance.choice((1, 2, 4)),
        drain_timeout=chance.choice((0.0, 60.0, 600.0)),
        keep_done=chance.choice((600.0, 3600.0, 2 * DAY)),
        pool_size=chance.choice((1, 2)),
    )
    regions = REGIONS[: chance.choice((1, 2, 2, 3))]
    posts = [
        (f"{region}-{number}", region)
        for region in regions
        for number in range(chance.choice((1, 1, 2)))
    ]
    arriving = arrivals(chance, regions, lease)
    if seed % 4 == 2:
        arriving = [beside_others(arrival) for arrival in arriving]
    hole = hole_of(seed, regions)
    if hole is not None:
        arriving = sorted([*arriving, *calls(hole)], key=lambda arrival: arrival.at)
    busy = [each.at for each in arriving]
    rushed = rushes(seed, regions) if seed % 8 in CROWDED else []
    if rushed:
        crowded = [*arriving, *rushed, *crowds(seed, regions)]
        arriving = sorted(crowded, key=lambda arrival: arrival.at)
    return Plan(
        seed,
        calm,
        settings,
        posts,
        {queue: queue_settings(chance) for queue in QUEUES},
        chance.choice((0.1, 0.3, 0.5)),
        arriving,
        [] if calm else [*troubles(chance, busy), *edits(seed), *turnovers(rushed)],
        chance.choice((20.0, 120.0, 600.0)),
        0.0 if calm else chance.choice((0.0, 0.0, 0.0, 0.05, 10.0)),
        hole,
        schedule(random.Random(f"schedule {seed}"), regions) if seed % 8 in TICKING else None,
    )


def schedule(chance: random.Random, regions: tuple[str, ...]) -> Schedule:
    """What runs by itself in some seeds; one that is put later takes the place of the first."""
    call = tasks.send.using(region=chance.choice(regions)).call(chance.randrange(100))
    every = chance.choice((1800.0, 3600.0, 7200.0))
    return new_schedule("ticks", call.job, None, every, None, chance.choice(CATCH_UPS))


def edits(seed: int) -> list[Trouble]:
    """When operators edit, pause, resume and run the schedule of a seed."""
    chance = random.Random(f"edits {seed}")
    return [
        Trouble(round(chance.uniform(0, DAY), 3), "reschedule", chance.random())
        for _ in range(8 if seed % 8 in TICKING else 0)
    ]


def beside_others(arrival: Arrival) -> Arrival:
    """In one seed of four, jobs for child processes stand in a queue with others."""
    return arrival._replace(
        jobs=[
            replace(job, queue="video") if job.task == tasks.crunch.name else job
            for job in arrival.jobs
        ]
    )


def hole_of(seed: int, regions: tuple[str, ...]) -> Hole | None:
    """In one seed of four a region fails fast beside healthy ones, if there are any."""
    if seed % 4 != 1 or len(regions) < 2:
        return None
    chance = random.Random(f"hole {seed}")
    return Hole(chance.uniform(0, DAY / 2), chance.uniform(60, 600), chance.choice(regions))


def calls(hole: Hole) -> list[Arrival]:
    """Many at once when it begins, and some more while it lasts and after."""
    options: dict[str, Any] = {
        "region": hole.region,
        "retry": Retry(3, Exponential(2, 2, 60, "none")),
    }
    moments = [hole.at] + [hole.at + hole.seconds * part / 20 for part in range(1, 30)]
    return [
        Arrival(
            round(at, 3),
            [tasks.call.using(**options, id=f"c{n}x{m}").call(m).job for m in range(many)],
        )
        for n, (at, many) in enumerate(zip(moments, [60] + [2] * 29, strict=True))
    ]


def crowds(seed: int, regions: tuple[str, ...]) -> list[Arrival]:
    """Jobs of three customers, of whom one floods the queue first."""
    chance = random.Random(f"crowds {seed}")
    customers = ("customer0", "customer1", "customer2")
    region, crowd = chance.choice(regions), []
    for number in range(2):
        at = chance.uniform(0, DAY)
        keys = chance.choices(customers, (1, 6, 1), k=12) + chance.choices(customers, k=12)
        options: dict[str, Any] = {"region": region, "retry": Retry(0)}
        jobs = [
            tasks.send.using(**options, id=f"k{number}x{n}", fairness_key=key).call(n).job
            for n, key in enumerate(keys)
        ]
        crowd += [Arrival(round(at, 3), jobs[:12]), Arrival(round(at + 30, 3), jobs[12:])]
    return crowd


def rushes(seed: int, regions: tuple[str, ...]) -> list[Arrival]:
    """More jobs of a provider at once than it takes."""
    chance = random.Random(f"rushes {seed}")
    options: dict[str, Any] = {"region": chance.choice(regions), "retry": Retry(0)}
    return [
        Arrival(
            round(chance.uniform(0, DAY), 3),
            [
                tasks.after.using(**options, id=f"b{number}x{n}", limits="bucket").call(n).job
                for n in range(6)
            ],
        )
        for number in range(3)
    ]


def turnovers(rushed: list[Arrival]) -> list[Trouble]:
    """As such jobs come, workers end that have just claimed: what they had is refunded."""
    return [Trouble(each.at - 0.001, "turnover", 0.0) for each in rushed]


def queue_settings(chance: random.Random) -> QueueSettings:
    """How a queue behaves."""
    policy: FetchPolicy = chance.choice(
        (Balanced(), Balanced(), Weighted(0.2), RetryFirst(), Capped(chance.choice((1, 2))), Fifo())
    )
    budget = None
    if not isinstance(policy, Fifo) and chance.random() < 0.3:
        budget = Budget(chance.choice((1, 3)), 60.0) if chance.random() < 0.7 else Budget(ratio=0.5)
    return QueueSettings(policy, budget, chance.choice((0.0, 2.0, 2.0, 30.0)), WEIGHTS)


def arrivals(chance: random.Random, regions: tuple[str, ...], lease: float) -> list[Arrival]:
    """A few bursts and a trickle, over the day."""
    moments = [chance.uniform(0, DAY) for _ in range(chance.choice((20, 40)))]
    for _ in range(chance.randrange(1, 4)):
        begin = chance.uniform(0, DAY)
        moments += [begin + chance.uniform(0, 60) for _ in range(chance.choice((5, 20)))]
    return [
        Arrival(round(at, 3), jobs(chance, regions, lease, n))
        for n, at in enumerate(sorted(moments))
    ]


def jobs(
    chance: random.Random, regions: tuple[str, ...], lease: float, number: int
) -> list[NewJob]:
    """What one producer enqueues: single jobs, a chain, or some that are gathered."""
    kind = chance.random()
    options = options_of(chance, regions, lease)
    name = f"j{number}"
    if kind < 0.6:
        task = chance.choice((tasks.send, tasks.send, tasks.render, tasks.crunch))
        count = chance.choice((1, 1, 1, 3))
        return [task.using(**options, id=f"{name}x{n}").call(n).job for n in range(count)]
    if kind < 0.75:
        return [CHAIN.using(**options, id=name).call(number).job]
    if kind < 0.85:
        return [PAIR.using(**options, id=name).call(number).job]
    if kind < 0.92:
        member = tasks.member.using(region=options["region"])
        members = [member.call(n) for n in range(2)]
        # Of every other pair of gathers one member is a chain.
        members.append((member | tasks.after).call(2) if number % 4 < 2 else member.call(2))
        last = part_of(tasks.collect.using(region=options["region"]))
        takes_failures = number % 2 == 0
        return gathered(name, members, [last], named=True, return_exceptions=takes_failures)[1]
    key = f"key{chance.randrange(4)}"
    if number % 3:
        return many_for_one(number, options, debounced=number % 3 == 1)
    return [tasks.send.using(**options, id=f"{name}u", unique_key=key).call(number).job]


def limits_of(chance: random.Random) -> dict[str, int]:
    """One or two limits that a job names, and what it costs of them."""
    drawn = {f"account{chance.randrange(3)}": 1, "window": chance.randrange(1, 4), "bucket": 1}
    names = chance.sample(sorted(drawn), chance.choice((1, 1, 2)))
    return {name: drawn[name] for name in names}


def many_for_one(number: int, options: dict[str, Any], *, debounced: bool) -> list[NewJob]:
    """Calls with one key, now and hours later: put off until the last, or one in so many hours."""
    given = {name: options[name] for name in ("region", "retry")}
    if debounced:
        # What comes with a call is that of the last one, its policy too: here it is always this.
        given["retry"] = Retry(2, Exponential(60, 2, 600, "none"))
        once: Any = {"unique_key": "later", "debounce": 1800.0, "debounce_max": 7200.0}
    else:
        once = {"unique_key": "seldom", "unique_for": 3 * 3600.0}
    task = tasks.send.using(**given, **once)
    return [replace(task.call(10 * number + n).job, id=f"j{number}m{n}") for n in range(3)]


def options_of(chance: random.Random, regions: tuple[str, ...], lease: float) -> Any:
    """Where and how a job is to run."""
    options: dict[str, Any] = {"region": chance.choice(regions), "retry": retry(chance)}
    if chance.random() < 0.15:
        options["priority"] = "urgent"
    if chance.random() < 0.15:
        options["delay"] = round(chance.uniform(1, 7200), 3)
    elif chance.random() < 0.1:
        options["expires"] = round(chance.uniform(10, 7200), 3)
    if chance.random() < 0.15:
        options["limits"] = limits_of(chance)
    if chance.random() < 0.3:
        options["fairness_key"] = f"customer{chance.randrange(3)}"
    if chance.random() < 0.3:
        # What keep=0 means to workers with such leases, or longer than their keep_done.
        options["keep"] = chance.choice((lease, lease, 3 * DAY))
    return options


def retry(chance: random.Random) -> Retry:
    """A retry policy."""
    scope: Scope = chance.choice(("global", "global", "region"))
    jitter: Jitter = chance.choice(("none", "full"))
    return chance.choice(retries(scope, jitter))


@cache
def retries(scope: "Scope", jitter: "Jitter") -> tuple[Retry, ...]:
    """Retry policies of several tempers."""
    return (
        Retry(0),
        Retry(2, Exponential(60, 2, 3600, jitter), scope),
        Retry(5, Exponential(2, 2, 60, jitter), scope),
        Retry(5, Exponential(300, 2, 3600, jitter), scope),
        Retry(5, Exponential(60, 2, 600, jitter), scope, on=(ConnectionError, TimeoutError)),
        Retry(5, Exponential(60, 2, 600, jitter), scope, never=(LookupError, TimeoutError)),
        Retry(None, Sessions(), scope),
    )


def troubles(chance: random.Random, busy: list[float]) -> list[Trouble]:
    """Faults of a few kinds, so that a seed has a character, and operators now and then.

    Mostly when there is work: what happens to idle workers teaches little.
    """

    def moment() -> float:
        return (
            chance.choice(busy) + chance.expovariate(1 / 120)
            if chance.random() < 0.8
            else (chance.uniform(0, DAY))
        )

    kinds = chance.sample(FAULTS, chance.randrange(1, 5))
    count = chance.choice((3, 8, 16))
    made = [(moment(), chance.choice(kinds), chance.random()) for _ in range(count)]
    made += [
        (moment(), chance.choice(OPERATORS), chance.random())
        for _ in range(chance.choice((0, 4, 10)))
    ]
    return [Trouble(round(at, 3), what, draw) for at, what, draw in sorted(made)]
