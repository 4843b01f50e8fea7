"""What only the memory store does, or only of it can be seen."""

import asyncio

from mulligan.core import lines
from mulligan.core.counts import Count
from mulligan.core.fields import CLAIM, names_of
from mulligan.core.health import SLOT, WINDOW
from mulligan.core.lane import Lane
from mulligan.core.limits import Limit
from mulligan.core.plan import Cap, Rate
from mulligan.core.worker import Worker
from mulligan.stores.memory import MemoryStore
from mulligan.stores.memory import claim as walked
from tests.contract.builders import ANN, BOB, FRESH, again, claim, done, job, jobs, source, start
from tests.contract.waits import undisturbed, woken
from tests.store_kit import START

MAIL = Lane("mail", "default", 0)
BRIEF = Worker("brief-1", name="brief", lease=5.0)


async def test_of_sleepers_the_first_is_woken_and_when_it_leaves_the_next_that_is_alive(clock):
    store = MemoryStore(clock=clock)
    for worker in (BOB, BRIEF, ANN):
        await claim(store, worker=worker)
    await store.enqueue(jobs("a"))
    assert await woken(store, BOB)
    clock.advance(BRIEF.lease)
    await store.leave(BOB)
    assert await woken(store, ANN)


async def test_nobody_is_woken_for_a_delayed_job_that_a_sleeper_will_wake_for_by_itself(clock):
    store = MemoryStore(clock=clock)
    await store.enqueue([job("letter", queue="mail", delay=5.0)])
    await claim(store, FRESH, MAIL, worker=ANN)
    await claim(store, FRESH, worker=BOB)
    await store.enqueue([job("later", delay=6.0)])
    assert await undisturbed(store, ANN)
    assert await undisturbed(store, BOB)


async def test_a_note_that_is_past_its_time_takes_no_room_once_it_is_pruned(clock):
    store = MemoryStore(clock=clock)
    await store.note("old", b"1", keep=5.0)
    await store.note("new", b"2", keep=60.0)
    clock.advance(5)
    await store.prune(0.0, 100)
    assert list(store.state.notes) == ["new"]


async def test_a_lane_that_is_empty_takes_no_room_once_someone_has_looked(clock):
    store = MemoryStore(clock=clock)
    await store.enqueue(jobs("a"))
    await claim(store)
    await claim(store)
    assert not store.state.lanes.heaps


async def test_starts_that_are_only_counted_take_one_entry_a_second(clock):
    store = MemoryStore(clock=clock)
    await store.enqueue(jobs("a", "b", "c"))
    for _ in range(3):
        await claim(store, source(FRESH, Rate("k", None, 60.0)))
        clock.advance(0.25)
    assert list(store.state.limits._starts["k"]) == [(START, 3)]


async def test_a_job_that_waits_for_its_retry_holds_no_permit(clock):
    store = MemoryStore(clock=clock)
    await store.enqueue(jobs("a"))
    await store.commit([again(await start(store, source(FRESH, Cap("k", 1))))])
    assert store.state.jobs["a"].permits == []


async def test_counts_that_are_no_longer_recent_take_no_room(clock):
    store = MemoryStore(clock=clock)
    for _ in range(100):
        await store.count([Count("q", "US", "started", 1)])
        clock.advance(SLOT)
    assert len(store.state.counters._slots) == WINDOW / SLOT + 1


async def test_a_wake_up_ends_one_wait_only(clock):
    store = MemoryStore(clock=clock)
    await claim(store, worker=ANN)
    waiting = asyncio.create_task(woken(store, ANN))
    await asyncio.sleep(0)
    await store.enqueue(jobs("a"))
    assert await waiting
    assert await undisturbed(store, ANN)


async def test_two_wake_ups_at_once_end_a_wait_without_complaint(clock):
    store = MemoryStore(clock=clock)
    await claim(store, worker=ANN)
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, said: complaints.append(said))
    waiting = asyncio.create_task(woken(store, ANN))
    await asyncio.sleep(0)
    await store.pause("default", paused=True)
    await store.pause("default", paused=False)
    assert await waiting
    assert complaints == []


async def test_a_claim_has_every_field_as_the_record_keeps_it(clock):
    store = MemoryStore(clock=clock)
    await store.enqueue([job("a", priority=2, region="EU")])
    claimed = await start(store, Lane("default", "EU", 2))
    record = store.state.jobs["a"]
    for name in names_of(CLAIM):
        assert getattr(claimed, name) == getattr(record, name), name


async def test_a_freed_permit_moves_one_line_whatever_else_starts(clock, monkeypatch):
    """A line keeps its place at a limit while other work of its lane takes turns."""
    aside = []

    def counted(*of):
        aside.append(of)
        lines.set_aside(*of)

    monkeypatch.setattr(walked, "set_aside", counted)
    store = MemoryStore(clock=clock)
    await store.set_limit("k", Limit(concurrency=1), declared=True)
    await store.enqueue(
        [job(f"k{n}", limits='{"k":1}', fairness_key=f"customer {n}") for n in range(50)]
    )
    claimed = (await claim(store, demand=9)).claims
    assert len(aside) == 49, "each is looked at once"
    for turn in range(1, 5):
        await store.enqueue(jobs(*(f"{turn} {n}" for n in range(5))))
        await store.commit([done(each) for each in claimed])
        claimed = (await claim(store, demand=9)).claims
        assert [each.id for each in claimed if each.id[0] == "k"] == [f"k{turn}"]
    assert len(aside) == 49
