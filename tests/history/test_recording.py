"""Writing histories down: in files, by several processes, and by those that are killed."""

import pytest

from mulligan.core.errors import InvalidError
from mulligan.core.fairness import Carry, plan_claim
from mulligan.core.job import Lease
from mulligan.core.outcome import Done
from mulligan.core.settings import BATCH_LIMIT
from mulligan.core.worker import Worker
from mulligan.stores.memory import MemoryStore
from tests.contract.builders import job, jobs
from tests.history import (
    INVARIANTS,
    InFile,
    InMemory,
    check,
    in_order,
    line,
    load,
    recorded,
    report,
    take_stock,
)
from tests.history.events import Claim, Commit, Enqueue
from tests.history.story import Story, lease

W = Worker("w")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


async def work(store) -> list[Lease]:
    """Enqueue two jobs, claim them and finish one."""
    await store.beat(W, [])
    await store.enqueue([job("a"), job("b")])
    facts = await store.facts()
    plan = plan_claim(2, "default", [("default", Carry())], facts)
    leases = [claim.lease for claim in (await store.claim(plan, W)).claims]
    await store.commit([Done(leases[0])])
    return leases


async def test_what_was_asked_and_answered_is_written_down():
    journal = InMemory()
    store = recorded(MemoryStore(), journal, "p", Clock())

    await work(store)

    kinds = [type(event).__name__ for event in journal.events]
    assert kinds == ["Beat", "Enqueue", "Claim", "Commit"]
    commit = journal.events[-1]
    assert isinstance(commit, Commit)
    assert commit.verdicts == ["written"]
    assert commit.began < (commit.ended or 0)


async def test_a_file_tells_the_same_as_memory(tmp_path):
    file = InFile(tmp_path / "p.jsonl")
    store = recorded(MemoryStore(), file, "p", Clock())
    await work(store)
    file.close()

    events = in_order(load([tmp_path / "p.jsonl"]))

    assert [type(event).__name__ for event in events] == ["Beat", "Enqueue", "Claim", "Commit"]
    stock = await take_stock(store, rest=False)
    assert check([*events, stock]) == []


async def test_of_a_process_that_was_killed_the_last_wish_is_known(tmp_path):
    path = tmp_path / "p.jsonl"
    file = InFile(path)
    await work(recorded(MemoryStore(), file, "p", Clock()))
    file.close()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])  # killed while it wrote the answer

    events = load([path])

    last = events[-1]
    assert isinstance(last, Commit)
    assert last.verdicts is None
    assert check(in_order(events)) == []


async def test_an_operation_that_fails_is_in_doubt():
    journal = InMemory()

    class Broken(MemoryStore):
        async def commit(self, outcomes):
            raise ConnectionError("cut off")

    with pytest.raises(ConnectionError):
        await work(recorded(Broken(), journal, "p", Clock()))

    last = journal.events[-1]
    assert isinstance(last, Commit)
    assert (last.verdicts, last.ended, last.error) == (None, None, "ConnectionError: cut off")


async def test_of_many_jobs_each_batch_is_written_down_by_itself(monkeypatch):
    monkeypatch.setattr("mulligan.stores.batches.BATCH_LIMIT", 2)
    journal = InMemory()
    store = recorded(MemoryStore(), journal, "p", Clock())

    answers = await store.enqueue_all(jobs("a", "b", "c"))

    assert answers == [("a", True), ("b", True), ("c", True)]
    assert [len(event.jobs) for event in journal.events if isinstance(event, Enqueue)] == [2, 1]


async def test_an_operation_that_breaks_a_rule_is_refused():
    journal = InMemory()
    store = recorded(MemoryStore(), journal, "p", Clock())

    with pytest.raises(InvalidError):
        await store.enqueue([job(str(number)) for number in range(BATCH_LIMIT + 1)])

    (event,) = journal.events
    assert event.refused
    assert "refused (InvalidError: a batch of 1001" in line(event)


def test_what_was_refused_never_happened():
    def story(*, refused: bool) -> Story:
        asked = Story().enqueue("a", lost=True)
        event = asked.events[-1]
        event.error = "InvalidError: no" if refused else "ConnectionError: cut off"
        event.ended = event.began if refused else None
        return asked.claim(lease("a", 1))

    assert story(refused=False).broken() == set()
    assert story(refused=True).broken() == {"nothing is invented"}
    assert in_order(story(refused=True).events) == story(refused=True).events


async def test_processes_that_overlap_are_put_in_the_order_that_tokens_tell():
    journal = InMemory()
    await work(recorded(MemoryStore(), journal, "p", Clock()))
    enqueue = next(event for event in journal.events if isinstance(event, Enqueue))
    claim = next(event for event in journal.events if isinstance(event, Claim))
    commit = next(event for event in journal.events if isinstance(event, Commit))
    # As if three processes had asked at the same time, the last one first.
    for began, event in enumerate((commit, claim, enqueue)):
        event.began, event.ended = float(began), 10.0

    ordered = in_order([commit, claim, enqueue])

    assert ordered == [enqueue, claim, commit]
    assert check(ordered) == []


def test_a_report_names_the_invariant_the_job_and_what_happened():
    story = Story().enqueue("a").claim(lease("a", 1)).claim(lease("a", 2), worker="v")

    said = report(check(story.events))

    assert said.splitlines()[0] == ("leases exclude: a: claimed by v while w held it with token 1")
    assert "claim 1 by v: a#2 retry 0" in said


@pytest.mark.parametrize("invariant", INVARIANTS)
def test_every_invariant_says_what_it_holds(invariant):
    assert invariant.__doc__
    assert " " in invariant.name()
