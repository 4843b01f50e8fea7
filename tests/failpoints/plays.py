"""What is under way when the process dies: one play for each thing that each role does."""

import asyncio
from contextlib import suppress
from typing import Any, NamedTuple

from msgspec.structs import replace

from mulligan import Delays, Retry, UnknownScheduleError
from mulligan.app.chain import part_of
from mulligan.app.gather import gathered
from mulligan.app.schedules import new_schedule, pause_schedule, put_schedule, remove_schedule
from mulligan.app.using import Prepared
from mulligan.core.decide import decide
from mulligan.core.facts import QueueSettings
from mulligan.core.job import Adopted
from mulligan.core.limits import Limit
from mulligan.core.outcome import Failed, Succeeded
from mulligan.core.record import Record, Recording
from mulligan.core.reschedule import Reschedule
from mulligan.core.schedule import Schedule, record_of, tick_id
from mulligan.engine.ticker import Ticker
from mulligan.stores.contract import Store
from mulligan.stores.memory import MemoryStore
from tests.failpoints.app import MONTH, fan_out
from tests.failpoints.points import within
from tests.failpoints.scene import (
    GHOST_LEASE,
    Part,
    Scene,
    with_status,
    work_until,
    work_until_ended,
)

EVERYWHERE = ("sqlite", "redis", "postgres", "mongo")
NO_RETRY = Retry(0, Delays((0.02,)))
ATTEMPT = (
    "claim",
    "commit",
    "claimed, not started",
    "started",
    "in the attempt",
    "run, no outcome yet",
    "outcome decided, not sent",
)
STEPS = tuple(
    f"{when} step {name}" for name in ("one", "two", "three") for when in ("before", "after")
)


# MongoDB enters a lane when it is first used; a play may be given on a store that was used before.
ONCE = " > enter_lanes > enter > "
# A dead worker's record goes when it is old enough, which may be after the play.
IN_TIME = "reclaim > forget_dead > "
NUMBERS = [f"n{number}" for number in range(8)]
DEAD = {"dead": "failed", "dead.dead.0": "done"}
MIXED = with_status("done", ["good", "retried", "late"]) | DEAD
STAGES = with_status("done", ["root", "root.2", "root.3"])
FANNED = with_status("done", ["root", *(f"root.2.{number}" for number in range(3)), "root.3"])
MEMBERS = [f"all.1.{number}" for number in range(4)]
GATHERED = with_status("done", ["all.1.0", "all.1.2", "all.1.1.dead.0", "all.2"])
GATHERED |= {"all.1.1": "failed"}
CHAINS = with_status("done", ["all.1.0", "all.1.0.2", "all.1.1", "all.1.1.2.dead.0", "all.2"])
CHAINS |= {"all.1.1.2": "failed"}
# When a member is due that is still to be awaited while another is replayed.
LATER = 1.5


class Play(NamedTuple):
    """What is there before, what the process does, and how every job ends.

    Only points within these operations count. With `again`, a clean process does the same once
    more, as a caller does who got no answer. What is done `or_not` may have left nothing at all.
    What is done `by_chance`, within these operations, may not be done in every performance.
    """

    role: str
    name: str
    prepare: Part
    act: Part
    ends: dict[str, str]
    operations: tuple[str, ...]
    again: bool = False
    stores: tuple[str, ...] = EVERYWHERE
    query: str = ""
    or_not: bool = False
    by_chance: tuple[str, ...] = ()

    def may_miss(self, point: str) -> bool:
        """Whether a performance may end without having come to this point."""
        return within(point) in self.by_chance or ONCE in point or point.startswith(IN_TIME)

    @property
    def title(self) -> str:
        """Who does what."""
        return f"{self.role}: {self.name}"


async def nothing(scene: Scene) -> None:
    """The play begins with an empty store."""


# -- producer ------------------------------------------------------------------------------


async def enqueue_many(scene: Scene) -> None:
    """Eight jobs in batches of three: between two batches a caller may die."""
    await scene.enqueue(*(scene.call(f"n{number}", "step", number) for number in range(8)))


async def enqueue_keyed(scene: Scene) -> None:
    """A job with a unique key, and a second one that comes to nothing."""
    key = f"{scene.mark}-key"
    await scene.enqueue(scene.call("first", "step", 1, unique_key=key))
    await scene.enqueue(scene.call("second", "step", 2, unique_key=key))


async def gather(scene: Scene) -> None:
    """Three calls and the job that takes their results: five jobs are two batches."""
    calls = [scene.app.tasks["step"].call(number) for number in range(4)]
    await scene.app.agather(calls, scene.app.tasks["total"], id=scene.id("all"))


async def gather_once(scene: Scene) -> None:
    """Two calls and the job that takes their results: one batch, which nobody asks for again."""
    calls = [scene.app.tasks["step"].call(number) for number in range(2)]
    await scene.app.agather(calls, scene.app.tasks["total"], id=scene.id("all"))


# -- worker --------------------------------------------------------------------------------


async def mixed(scene: Scene) -> None:
    """Jobs that succeed, one whose first attempt fails, one that never works."""
    await scene.enqueue(
        scene.call("good", "step", 1),
        scene.call("retried", "stumble", 2),
        scene.call("dead", "never", 3),
        scene.call("late", "step", 4, delay=0.05),
    )


async def chained(scene: Scene) -> None:
    """Three stages that hold one unique key from the first to the last."""
    step = scene.app.tasks["step"]
    chain = scene.app.chain(step, step, step)
    await chain.using(id=scene.id("root"), unique_key=f"{scene.mark}-key").aenqueue(1)


async def spread(scene: Scene) -> None:
    """One job, three of its elements, and one that gathers them."""
    await fan_out(scene.app).using(id=scene.id("root")).aenqueue(3)


async def gathered_with_failures(scene: Scene) -> None:
    """Three members, of which one never works, and the job that is called with its failure."""
    step, never = scene.app.tasks["step"], scene.app.tasks["never"]
    calls = [step.call(0), never.call(1), step.call(2)]
    await gather_all(scene, calls)


async def gathered_chains(scene: Scene) -> None:
    """Two members that are chains, of which one never gets through its second stage."""
    step, never = scene.app.tasks["step"], scene.app.tasks["never"]
    chains = scene.app.chain(step, step), scene.app.chain(step, never)
    await gather_all(scene, [chain.call(number) for number, chain in enumerate(chains)])


async def gather_all(scene: Scene, calls: list[Prepared[Any]]) -> None:
    """Gather the calls, with failures as values."""
    tally = scene.app.tasks["tally"]
    await scene.app.agather(calls, tally, id=scene.id("all"), return_exceptions=True)


async def limited(scene: Scene) -> None:
    """Three jobs of which one may run at a time."""
    await scene.enqueue(*(scene.call(f"n{number}", "limited", number) for number in range(3)))


async def limited_by_customer(scene: Scene) -> None:
    """Jobs of two customers at a limit, of which a dead worker holds one."""
    await scene.enqueue(
        *(scene.call(f"n{n}", "limited", n, fairness_key="ab"[n % 2]) for n in range(4))
    )
    await scene.taken_by_a_ghost(1)
    await asyncio.sleep(2 * GHOST_LEASE)


async def work_as_declared_anew(scene: Scene) -> None:
    """A worker of another release, which declares the limit and the weights otherwise."""
    await scene.store.set_limit(scene.id("limit"), Limit(rate=500, per=1.0), declared=True)
    await scene.store.configure("default", QueueSettings(weights=(("a", 3.0),)))
    await work_until_ended(NUMBERS[:4])(scene)


async def stepped(scene: Scene) -> None:
    """A job in steps whose first attempt fails after two of them."""
    await scene.enqueue(scene.call("stepped", "in_steps", 1))


async def sunk(scene: Scene) -> None:
    """A job whose result a sink writes within the commit."""
    await scene.enqueue(scene.call("root", "give", 7))


async def work_and_leave(scene: Scene) -> None:
    """A worker that stops in the middle of its work."""

    async def begun() -> bool:
        return any(job.started_at is not None for job in await scene.jobs())

    await work_until(scene, begun)


# -- reaper --------------------------------------------------------------------------------


async def abandoned(scene: Scene) -> None:
    """Jobs that a dead worker holds: one has retries left, one has none, one holds a permit."""
    await scene.enqueue(
        scene.call("spare", "step", 1),
        scene.call("dead", "never", 2),
        scene.call("limited", "limited", 3),
    )
    await scene.taken_by_a_ghost(3)
    await asyncio.sleep(2 * GHOST_LEASE)


# -- housekeeper ---------------------------------------------------------------------------


async def expiring(scene: Scene) -> None:
    """Jobs that never start in time, and one that gathers them."""
    await scene.app.apause("default")
    calls = [scene.app.tasks["step"].using(expires=0.01).call(number) for number in range(2)]
    await scene.app.agather(calls, scene.app.tasks["total"], id=scene.id("all"))
    await scene.enqueue(scene.call("alone", "step", 1, expires=0.01))
    await asyncio.sleep(0.02)


async def expiring_members(scene: Scene) -> None:
    """Members that never start in time, and the job that takes their failures."""
    await scene.app.apause("default")
    step = scene.app.tasks["step"].using(expires=0.01)
    await gather_all(scene, [step.call(number) for number in range(2)])
    await asyncio.sleep(0.02)


async def promote(scene: Scene) -> None:
    """End what expired, and let the queue be served again."""
    await scene.store.promote(100)
    await scene.app.aresume("default")


async def finished(scene: Scene) -> None:
    """A whole fan-out that is done, with what has arrived."""
    await spread(scene)
    await work_until_ended(FANNED)(scene)


async def prune(scene: Scene) -> None:
    """Delete all that is done; what a dying process still holds, when it has let go."""
    while (await scene.store.stats()).ended:
        await asyncio.sleep(0.01)
        await scene.store.prune(0.0, 100)


# -- ticker --------------------------------------------------------------------------------


async def tick(scene: Scene) -> None:
    """Store the schedule that the app's one task declares, with its next tick."""
    await Ticker(scene.store, scene.app.declared_schedules, "ticker").look()


async def missed(scene: Scene) -> None:
    """A schedule whose last tick lay ready when nobody was there, for a month and longer."""
    schedule = made(scene, 1)
    now = (await scene.store.facts()).now
    before = schedule.timing.last(now - 2 * MONTH)
    late = replace(schedule, handled=before, placed=before, catch_up="none")
    tick = late.new_job(tick_id(late.name, before), 0.0)
    await scene.app.apause("default")
    await scene.store.reschedule(Reschedule(late.name, None, record_of(late), place=(tick,)))


async def make_up(scene: Scene) -> None:
    """Withdraw that tick, and place the next."""
    await tick(scene)
    await scene.app.aresume("default")


def made(scene: Scene, value: int) -> Schedule:
    """A schedule that ticks once a month."""
    call = scene.app.tasks["step"].call(value)
    return new_schedule(scene.id("acme"), call.job, None, MONTH, None, "one")


async def scheduled(scene: Scene) -> None:
    """A schedule, and its next tick."""
    await put_schedule(scene.store, made(scene, 1))


async def edit(scene: Scene) -> None:
    """Another call: the tick that is placed is replaced."""
    await put_schedule(scene.store, made(scene, 2))


async def unscheduled(scene: Scene) -> None:
    """The schedule is no more, and its tick neither."""
    with suppress(UnknownScheduleError):
        await remove_schedule(scene.store, scene.id("acme"))


async def pause_it(scene: Scene) -> None:
    """The schedule ticks no more."""
    await pause_schedule(scene.store, scene.id("acme"))


# -- operator ------------------------------------------------------------------------------


async def held_and_waiting(scene: Scene) -> None:
    """A job that a worker runs, one that waits, and a gathering job with its members."""
    await scene.enqueue(scene.call("running", "step", 1))
    await scene.taken_by_a_ghost(1)
    await scene.enqueue(scene.call("waiting", "step", 2, delay=60.0))
    calls = [scene.app.tasks["step"].using(delay=60.0).call(number) for number in range(2)]
    await scene.app.agather(calls, scene.app.tasks["total"], id=scene.id("all"))


async def cancel(scene: Scene) -> None:
    """End them all, the members before who awaits them."""
    names = ("running", "waiting", "all.1.0", "all.1.1")
    await scene.store.cancel([scene.id(name) for name in names], "no longer wanted")


async def waiting_members(scene: Scene) -> None:
    """A gather of failures whose members wait, one of them in the hands of a dead worker."""
    step = scene.app.tasks["step"]
    await gather_all(scene, [step.call(0), *(step.using(delay=60.0).call(n) for n in (1, 2))])
    await scene.taken_by_a_ghost(1)


async def cancel_members(scene: Scene) -> None:
    """End the members; the job that gathers them starts."""
    names = ("all.1.0", "all.1.1", "all.1.2")
    await scene.store.cancel([scene.id(name) for name in names], "no longer wanted")


async def failed_member(scene: Scene) -> None:
    """A member that failed for good, and one that the job which takes failures still awaits."""
    stumble, step = scene.app.tasks["stumble"], scene.app.tasks["step"]
    await gather_all(
        scene, [stumble.using(retry=NO_RETRY).call(0), step.using(delay=LATER).call(1)]
    )

    async def failed() -> bool:
        return "failed" in {job.status for job in await scene.jobs()}

    await work_until(scene, failed)


async def replay_member(scene: Scene) -> None:
    """The member takes its failure back; it fails again."""
    await scene.store.replay([scene.id("all.1.0")])


async def purge_member(scene: Scene) -> None:
    """Delete the failed member: what has arrived of it stays."""
    await scene.store.purge([scene.id("all.1.0")])


async def dead_letters(scene: Scene) -> None:
    """Two dead letters, of which one had a unique key."""
    await scene.enqueue(
        scene.call("one", "stumble", 1, retry=NO_RETRY),
        scene.call("two", "stumble", 2, retry=NO_RETRY, unique_key=f"{scene.mark}-key"),
    )
    await work_until_ended(["one", "two"])(scene)


async def replay(scene: Scene) -> None:
    """Give them their retries again; their first attempt fails again, and that is their end."""
    await scene.store.replay([scene.id("one"), scene.id("two")])


async def dead_member(scene: Scene) -> None:
    """A member that failed for good, and the job that still awaits it."""
    calls = [
        scene.app.tasks["step"].call(0),
        scene.app.tasks["stumble"].using(retry=NO_RETRY).call(1),
    ]
    await scene.app.agather(calls, scene.app.tasks["total"], id=scene.id("all"))

    async def failed() -> bool:
        jobs = await scene.jobs()
        return {"done", "failed"} <= {job.status for job in jobs}

    await work_until(scene, failed)


async def purge(scene: Scene) -> None:
    """Delete the dead member: who awaits it is cancelled."""
    await scene.store.purge([scene.id("all.1.1")])


async def adopt(scene: Scene) -> None:
    """Take over jobs of another store: one failed, one waits, one awaits another, one arrived."""
    other = scene._replace(store=MemoryStore())
    calls = [scene.app.tasks["step"].call(number) for number in range(2)]
    _, gathered_jobs = gathered(scene.id("all"), calls, [part_of(scene.app.tasks["total"])])
    dead = scene.call("dead", "stumble", 1, retry=NO_RETRY).job
    waiting = scene.call("waiting", "step", 2, unique_key=f"{scene.mark}-key").job
    await other.store.enqueue([dead, *gathered_jobs[:2]])
    facts = await other.store.facts()
    for claim in await other.taken_by_a_ghost(2):
        lost = claim.id == dead.id
        made = (Record("step", 1, b"1", "one"), Record("log", 2, b'"x"'))
        await other.store.record([Recording(claim.lease, made)])
        result = Failed("ValueError", "no luck") if lost else Succeeded(b"1")
        await other.store.commit([decide(claim, result, facts, 0.0)])
    await other.store.enqueue([waiting, gathered_jobs[2]])
    moved = [job.id for job in await other.jobs() if job.status != "done"]
    await scene.store.adopt([await whole(other.store, job) for job in sorted(moved)])


async def whole(store: Store, job: str) -> Adopted:
    """A job with all that is known of it."""
    stored = await store.get(job)
    assert stored is not None
    return Adopted(
        stored, await store.history(job), await store.arrivals(job), await store.records(job)
    )


# -- all of them ---------------------------------------------------------------------------

UPKEEP = ("beat", "configure", "count", "leave", "reclaim", "promote", "prune")
# What a worker does every so often, and perhaps not in its last moments.
IN_PASSING = ("count", "reclaim", "promote", "prune")
SURVIVORS = with_status("done", ["spare", "limited"]) | DEAD
SUNK = with_status("done", ["root", "root.sink.0"])


def working(name: str, prepare: Part, ends: dict[str, str], operations: tuple[str, ...]) -> Play:
    """A worker that does all there is to do."""
    return Play("worker", name, prepare, work_until_ended(ends), ends, operations)


def asking(role: str, name: str, prepare: Part, act: Part, ends: dict[str, str],
           *operations: str) -> Play:  # fmt: skip
    """Somebody who asks something of the store, and asks again if there was no answer."""
    return Play(role, name, prepare, act, ends, operations, again=True)


# PostgreSQL accepts batches in tasks of their own, which no operation leads to.
ENQUEUE = ("enqueue", "enqueue_all", "accept")
PLAYS = (
    asking("producer", "many", nothing, enqueue_many, with_status("done", NUMBERS), *ENQUEUE),
    asking("producer", "unique key", nothing, enqueue_keyed, {"first": "done"}, *ENQUEUE),
    asking("producer", "gather", nothing, gather, with_status("done", [*MEMBERS, "all.2"]),
           *ENQUEUE),
    Play("producer", "gather or not", nothing, gather_once,
         with_status("done", [*MEMBERS[:2], "all.2"]), ENQUEUE, or_not=True),
    working("mixed", mixed, MIXED, ATTEMPT),
    working("dead letters moved", mixed, MIXED, ("commit",))._replace(
        stores=("mongo",), query="move_dead=true"),
    working("chain with a key", chained, STAGES, ("commit",)),
    working("fan-out and gather", spread, FANNED, ("commit",)),
    working("gather with failures", gathered_with_failures, GATHERED, ("commit",)),
    working("gather of chains", gathered_chains, CHAINS, ("commit",)),
    working("one at a time", limited, with_status("done", NUMBERS[:3]), ("claim", "commit")),
    Play("worker", "two releases", limited_by_customer, work_as_declared_anew,
         with_status("done", NUMBERS[:4]), ("set_limit", "claim", "commit")),
    working("steps", stepped, with_status("done", ["stepped"]), ("record", "commit", *STEPS)),
    working("sink", sunk, SUNK, ("commit_within",))._replace(stores=("sqlite", "postgres")),
    Play("worker", "leaving", mixed, work_and_leave, MIXED, UPKEEP, by_chance=IN_PASSING),
    Play("reaper", "lost leases", abandoned, work_until_ended(SURVIVORS), SURVIVORS,
         ("reclaim", "commit")),
    asking("housekeeper", "expired", expiring, promote,
           with_status("cancelled", ["alone", "all.1.0", "all.1.1", "all.2"]), "promote", "pause"),
    asking("housekeeper", "expired members", expiring_members, promote,
           with_status("cancelled", MEMBERS[:2]) | {"all.2": "done"}, "promote", "pause"),
    asking("housekeeper", "old", finished, prune, {}, "prune"),
    asking("ticker", "tick", nothing, tick, {}, "reschedule", "note"),
    asking("ticker", "missed", missed, make_up, {"acme": "pending"}, "reschedule"),
    asking("operator", "put", nothing, scheduled, {"acme": "pending"}, "reschedule"),
    asking("operator", "edit", scheduled, edit, {"acme": "pending"}, "reschedule"),
    asking("operator", "pause", scheduled, pause_it, {}, "reschedule"),
    asking("operator", "remove", scheduled, unscheduled, {}, "reschedule"),
    asking("operator", "cancel", held_and_waiting, cancel,
           with_status("cancelled", ["running", "waiting", "all.1.0", "all.1.1", "all.2"]),
           "cancel"),
    asking("operator", "cancel members", waiting_members, cancel_members,
           with_status("cancelled", MEMBERS[:3]) | {"all.2": "done"}, "cancel"),
    asking("operator", "replay a member", failed_member, replay_member,
           {"all.1.0": "failed", "all.1.1": "done", "all.2": "done"}, "replay"),
    asking("operator", "purge a member", failed_member, purge_member,
           with_status("done", ["all.1.1", "all.2"]), "purge"),
    asking("operator", "replay", dead_letters, replay, with_status("failed", ["one", "two"]),
           "replay"),
    asking("operator", "purge", dead_member, purge, {"all.1.0": "done", "all.2": "cancelled"},
           "purge"),
    asking("operator", "adopt", nothing, adopt,
           {"dead": "failed"} | with_status("done", ["waiting", "all.1.1", "all.2"]), "adopt"),
)  # fmt: skip
