"""Everything that can be done to a store, in any order, on the memory store and another at once."""

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from mulligan.core.decide import decide
from mulligan.core.fairness import plan_claim
from mulligan.core.health import Breaker
from mulligan.core.job import ENDED, Adopted, Claim, Lease, NewJob, Status
from mulligan.core.outcome import (
    Again,
    Cancelled,
    Dead,
    Done,
    Later,
    Limited,
    LimitUse,
    Outcome,
    Returned,
)
from mulligan.core.page import Selection
from mulligan.core.record import Recording
from mulligan.core.reschedule import Reschedule
from mulligan.core.retry import Retry
from mulligan.core.worker import Worker
from tests.contract import choices
from tests.contract.builders import body, job
from tests.contract.pair import Pair

MOSTLY = 75  # of a hundred
FREE = 0.2  # of failures, as if they were probes
HANDS_ON = 0.3  # of those that are done and go on
LIMITED = 0.4  # of those that are returned, if they have no limits


class Comparison:
    """Commands whose answers must be the same, and what must hold whatever was done before."""

    def __init__(self, name: str, folder: Path, *, counted: bool = True) -> None:
        self.pair = Pair(name, folder, counted=counted)
        self.ids: list[str] = ["never enqueued"]
        self.claims: list[Claim] = []
        self.recorded: dict[Lease, Recording] = {}
        self.incarnations = [0, 0, 0, 0]
        for number in range(4):
            self.pair.ask("beat", self.worker(number), [])
        self.facts = self.first_facts = self.pair.facts()

    def run(self, program):
        """Do all that the program says, and compare all there is in the end."""
        try:
            for name, arguments in program:
                getattr(self, name)(**arguments)
            self.count()
            self.facts = self.pair.facts()
            for each in self.pair.stored():
                if each.last_failure_reason is not None:
                    self.pair.ask("history", each.id)
                self.pair.ask("arrivals", each.id)
                self.pair.ask("records", each.id)
        finally:
            self.pair.close()

    def worker(self, number: int) -> Worker:
        """One of four workers in two regions, in its present incarnation."""
        name = f"w{number}"
        region = choices.REGIONS[number % 2]
        return Worker(f"{name}-{self.incarnations[number]}", region, ("a", "b"), name=name)

    def job(self, number: int, *wanted: Status) -> str:
        """The id of some job, mostly one of the wanted status, now and then one never stored."""
        stored = self.pair.stored(*wanted) if number < MOSTLY else []
        ids = [each.id for each in stored] or self.ids
        return ids[number % len(ids)]

    def enqueue(self, batch):
        """Enqueue jobs, new ones and now and then one that was there before."""
        names = []
        for fields in batch:
            old = fields["old"]
            names.append(f"j{len(self.ids)}" if old is None else self.job(old))
            self.know(names)
        self.pair.ask("enqueue", self.made(names, batch))

    def claim(self, *, number, demand, names, carry, only, facts):
        """Claim as an engine does, now and then from facts that may be long out of date."""
        worker = self.worker(number)
        if facts == "newest":
            self.facts = self.pair.facts()
        known = self.first_facts if facts == "first" else self.facts
        queues = [(name, carry) for name in names]
        ours, theirs = (plan_claim(demand, worker.region, queues, f, only) for f in known)
        self.take(self.pair.ask_each("claim", (ours, worker), (theirs, worker)).claims)

    def claim_oddly(self, number, plan):
        """Claim by a plan that no policy would make."""
        worker = self.worker(number)
        self.facts = self.pair.facts()
        ours, theirs = (replace(plan, epoch=f.epoch) for f in self.facts)
        self.take(self.pair.ask_each("claim", (ours, worker), (theirs, worker)).claims)

    def take(self, claims):
        """Remember claims, and hold them to what every claim promises."""
        for claim in claims:
            assert claim.due <= self.pair.clock.now, "nothing starts before its time"
        assert len({claim.id for claim in claims}) == len(claims), "one job is claimed once"
        self.claims += claims

    def commit(self, chosen, draw, following, use):
        """Commit results of claims, the newest and old ones, some of them again."""
        claims = [(self.claim_of(number), result) for number, result in chosen]
        outcomes = [self.outcome(*each, draw, following) for each in claims if each[0]]
        self.commit_all([using(each, use) for each in outcomes])

    def claim_of(self, number):
        """Some claim, mostly one that is still held, now and then any there has ever been."""
        claims = self.claims
        if number < MOSTLY:
            running = {(each.id, each.token) for each in self.pair.stored("processing")}
            claims = [each for each in claims if each.lease in running]
        return claims[number % len(claims)] if claims else None

    def outcome(self, claim, result, draw, following) -> Outcome:
        """What the result means for the claim, with next jobs where it succeeded."""
        if result is None:
            return Cancelled(claim.lease, "asked to stop")
        outcome = decide(claim, result, self.facts[0], draw)
        if isinstance(outcome, Done):
            names = [f"{claim.id}.{claim.replay}.{place}" for place in range(len(following))]
            new = tuple(self.made(names, following))
            outcome = replace(outcome, next=new, hands_on=bool(new) and draw < HANDS_ON)
        if isinstance(outcome, Again) and draw < FREE:
            outcome = replace(outcome, free=True)
        if isinstance(outcome, Returned) and draw < LIMITED and not self.has_limits(claim):
            outcome = Limited(claim.lease, '{"k":1}', ("x", None)[len(claim.id) % 2], claim.trail)
        self.know([each.id for each in getattr(outcome, "next", ())])
        return outcome

    def has_limits(self, claim) -> bool:
        """Whether the job names limits, or is no longer held."""
        held = [job for job in self.pair.stored("processing") if job.id == claim.id]
        return not held or held[0].limits is not None

    def commit_all(self, outcomes):
        """Commit, and hold the verdicts and the jobs to the reference."""
        ended = {each.id for each in self.pair.stored(*ENDED)}
        verdicts = self.pair.ask("commit", outcomes)
        for outcome, verdict in zip(outcomes, verdicts, strict=True):
            name = outcome.lease.job
            assert verdict != "written" or name not in ended, "what has ended has ended"
            self.pair.ask("get", name)

    def record(self, chosen):
        """Record something under claims, the newest and old ones; now and then the same again."""
        sent = []
        for number, again, records in chosen:
            claim = self.claim_of(number)
            if claim is not None:
                last = self.recorded.get(claim.lease)
                if last is None or not again:
                    above = 0 if last is None else last.records[-1].number
                    made = (replace(each, number=above + i) for i, each in enumerate(records, 1))
                    last = self.recorded[claim.lease] = Recording(claim.lease, tuple(made))
                sent.append(last)
        self.pair.ask("record", sent)
        for name in dict.fromkeys(each.lease.job for each in sent):
            self.pair.ask("records", name)
            self.pair.ask("records", name, 3)

    def beat(self, number, shown):
        """Beat, showing some leases that are held and some that are not."""
        claims = [self.claim_of(each) for each in shown]
        leases = dict.fromkeys(each.lease for each in claims if each is not None)
        self.pair.ask("beat", self.worker(number), list(leases))

    def leave(self, number):
        """Stop on purpose, and come back as a new incarnation."""
        self.pair.ask("leave", self.worker(number))
        self.die(number)

    def die(self, number):
        """Come back as a new incarnation; nobody beats for the old one."""
        self.incarnations[number] += 1

    def reclaim(self, number, limit):
        """Take over what dead workers hold."""
        self.take(self.pair.ask("reclaim", limit, self.worker(number)))

    def promote(self):
        """Do the housekeeping."""
        self.pair.tell("promote", 1000)

    def advance(self, seconds):
        """Let time pass."""
        self.pair.clock.advance(seconds)

    def advance_far(self):
        """Let more time pass than any window, lease or grace lasts."""
        self.pair.clock.advance(61.0)

    def replay(self, numbers, *, from_start):
        """Make failed jobs pending again, now and then without what they have recorded."""
        names = [self.job(each, "failed") for each in numbers]
        self.operate("replay", names, from_start=from_start)
        for name in dict.fromkeys(names):
            self.pair.ask("records", name)

    def cancel(self, numbers):
        """End jobs by hand."""
        names = [self.job(each, "processing" if each % 2 else "pending") for each in numbers]
        self.operate("cancel", names, "by hand")

    def purge(self, numbers):
        """Delete jobs that have ended."""
        self.operate("purge", [self.job(each, *ENDED) for each in numbers])

    def operate(self, command, names, *more, **options):
        """Give a command about some jobs, and look at them."""
        self.pair.ask(command, names, *more, **options)
        for name in dict.fromkeys(names):
            self.pair.ask("get", name)

    def prune(self, keep):
        """Delete what ended long ago."""
        self.pair.ask("prune", keep, 1000)

    def adopt(self, number):
        """Take over a copy of a job as if it came from another store."""
        name = self.job(number, "pending", "processing", "failed")
        stored, history = self.pair.ask("get", name), self.pair.ask("history", name)
        if stored is not None and stored.status not in ("done", "cancelled"):
            copy = replace(stored, id=f"copy {len(self.ids)} of {stored.id}"[:60])
            self.ids.append(copy.id)
            arrived, records = self.pair.ask("arrivals", name), self.pair.ask("records", name)
            self.pair.ask("adopt", [Adopted(copy, history, arrived, records)])
            self.pair.ask("get", copy.id)
            self.pair.ask("records", copy.id)

    def pause(self, queue, paused):
        """Stop or resume a queue."""
        self.pair.ask("pause", queue, paused=paused)

    def set_limit(self, name, limit, *, declared):
        """Change a limit."""
        self.pair.ask("set_limit", name, limit, declared=declared)

    def pause_limit(self, name, seconds, *, at_least):
        """Pause a limit, or end its pause."""
        self.pair.ask("pause_limit", name, seconds, at_least=at_least)

    def spend(self, name, cost):
        """Charge a limit."""
        self.pair.ask("spend", name, cost)

    def limits(self):
        """Look at all limits."""
        self.pair.ask("limits", 100)

    def keys(self, queue):
        """Look at the fairness keys of a queue."""
        self.pair.ask("keys", queue, 100)

    def configure(self, a, b):
        """Change the settings of both queues."""
        self.pair.ask("configure", "a", a)
        self.pair.ask("configure", "b", b)

    def tally(self, counts):
        """Count what happened in some regions."""
        self.pair.ask("count", counts)

    def switch(self, queue, region, after, *, current):
        """Switch a breaker, mostly from what it is."""
        health = self.pair.facts()[0].health_of(queue, region)
        before = health.breaker if current else Breaker(open=after.open, since=1.0)
        self.pair.ask("switch", queue, region, before, after)

    def note(self, key, value, keep):
        """Keep a note, and look at those that begin alike."""
        self.pair.ask("note", key, value, keep)
        self.pair.ask("notes", key[:1])

    def reschedule(self, name, after, batch, *, current, withdraw, edit):
        """Change a schedule, mostly from what it is, with ticks that are withdrawn and placed."""
        if self.pair.name == "shards":  # which refuse it, as its home may be another shard
            batch = [{**fields, "unique_key": None} for fields in batch]
        stored = self.pair.ask("schedules")
        before = stored.get(name) if current else b'{"n":9}'
        names = [f"{name}@{number}" for number in range(len(batch))]
        place = tuple(made(tick, [], **fields) for tick, fields in zip(names, batch, strict=True))
        gone = tuple(f"{name}@{number}" for number in withdraw)
        self.pair.ask("reschedule", Reschedule(name, before, after, gone, place, edit=edit))
        self.pair.ask("schedules")
        self.know(names)
        for tick in dict.fromkeys((*gone, *names)):
            self.pair.ask("get", tick)

    def counts(self):
        """Look at all that was counted."""
        self.pair.ask("counts")

    def read(self, lane, limit, number):
        """Look at a lane, and at one job's place in its own."""
        self.pair.ask("depth", lane, limit)
        self.pair.ask("tail", lane, self.pair.clock.now - number % 4)
        stored = self.pair.stored("pending") if number < MOSTLY else self.pair.stored()
        if stored:
            self.pair.ask("ahead", stored[number % len(stored)].id)

    def page(self, selection, limit):
        """Walk all pages of a selection."""
        self.pair.pages(selection, limit)

    def count(self):
        """Count everything, and hold the counts to a recount."""
        stats = self.pair.ask("stats")
        stored = self.pair.pages(Selection(), 500).values()
        pending = sum(each.ready + each.delayed for each in stats.lanes)
        pending += sum(stats.gathering.values())
        counts = pending, sum(stats.running.values()), sum(stats.ended.values())
        statuses = [each.status for each in stored]
        running = statuses.count("processing")
        ended = sum(status in ENDED for status in statuses)
        assert counts == (statuses.count("pending"), running, ended), "each job is in one place"

    def know(self, names):
        """Remember the ids that are new."""
        self.ids += [name for name in names if name not in self.ids]

    def made(self, names: list[str], batch: list[dict[str, Any]]) -> list[NewJob]:
        """New jobs of these fields, now and then one that another awaits, also one beside it."""
        stored = [each.id for each in self.pair.stored("pending") if each.awaits]
        named = list(zip(names, batch, strict=True))
        beside = [name for name, fields in named if fields["awaits"]]
        return [
            made(name, stored if fields["awaits"] else stored + beside, **fields)
            for name, fields in named
        ]


def using(outcome: Outcome, use: LimitUse | None) -> Outcome:
    """The outcome, which says how limits were used."""
    says = isinstance(outcome, Done | Dead | Again | Later)
    return replace(outcome, use=use) if says and use is not None else outcome


def made(
    name: str,
    awaiting: list[str],
    retry: Retry,
    on_dead: str | None,
    gather: int | None,
    **fields: Any,
) -> NewJob:
    """A new job of these fields; where it is to be awaited, by one of those that await others."""
    fields.pop("old", None)
    if gather is not None and awaiting:
        fields["gather"] = awaiting[gather % len(awaiting)]
    return job(name, body=body(retry, on_dead=on_dead and {"task": on_dead}), **fields)
