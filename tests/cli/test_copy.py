"""`mulligan copy`: every unfinished and failed job, once, with its history."""

import asyncio
import os
import signal

import pytest

from mulligan.app.schedules import list_schedules, new_schedule, put_schedule
from mulligan.cli.copy_jobs import BATCH, move_all
from mulligan.cli.group import RefusalError
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import RetryFirst
from mulligan.core.job import Adopted
from mulligan.core.limits import Limit, StoredLimit, costs_of, costs_text
from mulligan.core.outcome import Done, LimitUse
from mulligan.core.page import Selection
from mulligan.stores.memory import MemoryStore
from tests.cli.command_line import (
    claim,
    do,
    fail,
    finish,
    gone,
    good,
    good_json,
    new_job,
    process,
    refused,
    run,
)
from tests.store_kit import STORES, VirtualClock, fresh_url, handle


@pytest.fixture
def other(tmp_path) -> str:
    """The URL of the target."""
    return f"sqlite:///{tmp_path}/other.db"


async def fill(store):
    """Jobs in every state that can be moved, and some that are not."""
    await store.configure("mail", QueueSettings(RetryFirst()))
    await store.enqueue([new_job(name) for name in ("dead", "done", "again")])
    await fail(store, await claim(store, 1), "for good")
    await finish(store, await claim(store, 1))
    await fail(store, await claim(store, 1), "for now", non_retryable=False)
    # One batch: all due at the same instant, in an order of their own.
    await store.enqueue([new_job(f"j{number:03}") for number in range(BATCH + 20)])
    await store.enqueue([new_job("eu", region="EU"), new_job("later", delay=900, unique_key="k")])
    await gone(store)


async def everything(store):
    """Every job and its history, by id."""
    page = await store.page(Selection(), 1000)
    jobs = page.jobs
    while page.after is not None:
        page = await store.page(Selection(), 1000, page.after)
        jobs += page.jobs
    return {job.id: (job, await store.history(job.id)) for job in jobs}


def test_all_that_is_not_done_is_moved_with_its_history(url, other):
    do(url, fill)
    before = do(url, everything)
    moved = good_json("copy", url, other, "--yes")
    assert moved == {"pending": BATCH + 23, "failed": 1, "left": [], "schedules": 0}
    there, here = do(other, everything), do(url, everything)
    assert set(there) == set(before) - {"done"}
    for name, (job, history) in there.items():
        then, past = before[name]
        assert history == past
        for field in ("status", "due", "retry_count", "body", "region", "scope", "unique_key"):
            assert getattr(job, field) == getattr(then, field)
    assert here["j000"][0].cancel_reason == f"moved to {other}"
    assert {job.status for job, _ in here.values()} == {"cancelled", "done"}
    assert do(other, lambda s: s.facts()).queues == {"mail": QueueSettings(RetryFirst())}
    assert do(url, lambda s: s.facts()).paused == {"mail"}
    assert do(other, lambda s: s.facts()).paused == set()


def test_moved_jobs_keep_their_places_in_line(url, other):
    do(url, fill)
    good("copy", url, other, "--yes")
    # All at once: the retry among them comes first if it is due by now.
    started = do(other, lambda s: claim(s, BATCH + 24))
    moved = [each.id for each in started if each.id[0] == "j"]
    assert moved == [f"j{n:03}" for n in range(BATCH + 20)]


def test_moving_again_moves_nothing_twice(url, other):
    do(url, fill)
    good("copy", url, other, "--yes")
    do(url, lambda s: s.enqueue([new_job("straggler")]))
    assert good_json("copy", url, other, "--yes")["pending"] == 1
    assert good_json("copy", url, other, "--yes") == {
        "pending": 0,
        "failed": 0,
        "left": [],
        "schedules": 0,
    }
    assert len(do(other, everything)) == BATCH + 25
    assert do(other, lambda s: s.facts()).paused == set()


def test_a_move_that_died_between_two_steps_is_taken_up(store):
    async def scenario():
        source, target = MemoryStore(), MemoryStore()
        await fill(source)
        found = await everything(source)
        await target.adopt([Adopted(*found["j003"]), Adopted(*found["dead"])])
        moved = await move_all(source, target, "moved")
        assert (moved.pending, moved.failed, moved.left) == (BATCH + 23, 1, [])
        assert len(await everything(target)) == BATCH + 24

    asyncio.run(scenario())


@pytest.mark.parametrize("name", STORES)
async def test_a_job_whose_limits_cannot_be_read_is_moved_with_all_others(name, tmp_path):
    source = MemoryStore()
    await source.enqueue([new_job("bad", limits="x"), new_job("good")])
    async with fresh_url(name, tmp_path) as url, handle(url, VirtualClock()) as target:
        moved = await move_all(source, target, "moved")
        assert (moved.pending, moved.left) == (2, [])
        found = await target.get("bad")
        assert found is not None
        assert costs_of(found.limits) == ()


class KilledError(Exception):
    """Where the process dies: nothing of it happens after this."""


def test_what_ran_in_the_target_is_not_moved_again_by_who_takes_up_a_move_that_died(store):
    class Dying(MemoryStore):
        """A source whose mover dies before the first batch has ended in it."""

        dies = True

        async def cancel(self, jobs, reason):
            if self.dies:
                raise KilledError
            return await super().cancel(jobs, reason)

    async def scenario():
        source, target = Dying(), MemoryStore()
        await fill(source)
        with pytest.raises(KilledError):
            await move_all(source, target, "moved")
        [letter] = (await target.page(Selection(status="failed"), 9)).jobs
        assert "run mulligan copy again" in str(letter.last_failure_reason)
        started = await claim(target, 50)
        ran = {each.id for each in started}
        await finish(target, started)
        assert await target.prune(-1.0, 1000) == 50
        source.dies = False
        moved = await move_all(source, target, "moved")
        assert (moved.pending, moved.failed, moved.left) == (BATCH + 23, 1, [])
        there = await everything(target)
        assert ran.isdisjoint(there)
        assert len(there) == BATCH + 24 - 50
        assert letter.id not in there
        ended = [job for job, _ in (await everything(source)).values()]
        assert {job.status for job in ended} == {"cancelled", "done"}

    asyncio.run(scenario())


def test_what_a_move_that_died_could_not_store_is_not_lost(store):
    class Dying(MemoryStore):
        """A source whose mover dies before the first batch has ended in it."""

        async def cancel(self, jobs, reason):
            raise KilledError

    async def scenario():
        source, target = Dying(), MemoryStore()
        await source.enqueue([new_job("keyed", unique_key="k"), new_job("taken"), new_job("free")])
        await target.enqueue([new_job("other", unique_key="k"), new_job("taken", region="MARS")])
        with pytest.raises(KilledError):
            await move_all(source, target, "moved")
        await target.cancel(["other", "taken"], "enough")
        await target.purge(["other", "taken"])
        Dying.cancel = MemoryStore.cancel  # type: ignore[method-assign]
        moved = await move_all(source, target, "moved")
        assert (moved.pending, moved.left) == (3, [])
        assert set(await everything(target)) == {"keyed", "taken", "free"}

    asyncio.run(scenario())


def test_a_move_that_is_killed_is_finished_by_the_next(tmp_path):
    """Killed for good as soon as the target has some: whichever step it is in by then."""
    source, target = (f"sqlite:///{tmp_path}/{name}.db" for name in ("source", "target"))
    jobs = [f"j{number}" for number in range(10 * BATCH)]
    do(source, lambda store: store.enqueue_all([new_job(name) for name in jobs]))
    do(target, lambda store: store.stats())
    for share in (0.1, 0.5):
        with process("copy", source, target, "--yes") as copying:
            while arrived(target) < share * len(jobs) and copying.poll() is None:
                pass
            copying.kill()
    good("copy", source, target, "--yes")
    there = do(target, everything)
    assert sorted(there) == sorted(jobs)
    assert {job.status for job, _ in there.values()} == {"pending"}
    assert {job.status for job, _ in do(source, everything).values()} == {"cancelled"}


def arrived(url: str) -> int:
    """How many jobs wait in the store."""
    return sum(lane.ready for lane in do(url, lambda store: store.stats()).lanes)


def test_when_interrupted_it_ends_between_two_batches():
    class Interrupting(MemoryStore):
        """A target in whose first batch Ctrl-C is pressed."""

        async def adopt(self, jobs):
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(5):  # the loop hears of a signal a turn or two later
                await asyncio.sleep(0)
            return await super().adopt(jobs)

    async def scenario():
        source, target = MemoryStore(), Interrupting()
        await fill(source)
        with pytest.raises(RefusalError, match=f"interrupted after {BATCH} jobs; copy again"):
            await move_all(source, target, "moved")
        ended = [j for j, _ in (await everything(source)).values() if j.status == "cancelled"]
        assert {job.id for job in ended} == set(await everything(target))
        assert (await move_all(source, MemoryStore(), "moved")).pending == 23

    asyncio.run(scenario())


def test_jobs_that_the_target_has_already_are_left_and_named(url, other):
    do(url, fill)
    good("migrate", "--store", other)
    taken = [new_job("another", unique_key="k"), new_job("j001", region="MARS")]
    do(other, lambda s: s.enqueue(taken))
    said = refused(1, "copy", url, other, "--yes")
    assert "2 jobs were left where they are" in said
    assert "j001" in said
    assert "later" in said
    assert do(url, lambda s: s.get("later")).status == "pending"


def test_a_pause_of_the_source_holds_in_the_target(url, other):
    do(url, fill)
    good("pause", "mail", "--store", url)
    assert "is paused in the target too" in run("copy", url, other, "--yes").stderr
    assert do(other, lambda s: s.facts()).paused == {"mail"}


def test_it_is_refused_while_a_worker_is_alive_and_leaves_no_trace(url, other):
    do(url, fill)
    do(url, lambda s: claim(s, 1))
    assert "1 workers are alive" in refused(1, "copy", url, other, "--yes")
    assert do(url, lambda s: s.facts()).paused == set()
    do(url, gone)
    assert "1 jobs of" in refused(1, "copy", url, other, "--yes")
    assert do(other, everything) == {}


def test_it_asks_before_it_moves(url, other):
    do(url, fill)
    result = run("copy", url, other, input="n\n")
    assert result.exit_code == 1
    assert f"Move {BATCH + 23} pending and 1 failed jobs" in result.stderr
    assert "nothing was moved" in result.stderr
    assert do(url, lambda s: s.facts()).paused == set()
    assert "Moved" in good("copy", url, other, input="y\n")


def test_jobs_that_await_others_are_moved_before_those(store):
    async def scenario():
        source, target = MemoryStore(), MemoryStore()
        await source.enqueue(
            [
                new_job("member", gather="inner", gather_index=0),
                new_job("inner", gather="outer", gather_index=0, awaits=1),
                new_job("outer", awaits=1),
            ]
        )
        moved = await move_all(source, target, "moved")
        assert (moved.pending, moved.left) == (3, [])
        stored = [await target.get(name) for name in ("outer", "inner", "member")]
        assert [(job.status, job.awaits) for job in stored if job] == [
            ("pending", 1),
            ("pending", 1),
            ("pending", 0),
        ]

    asyncio.run(scenario())


def test_schedules_are_moved_with_the_ticks_that_are_placed(url, other):
    schedule = new_schedule("acme", new_job("x"), "0 9 * * *", None, "Europe/Berlin", "all")
    do(url, lambda s: put_schedule(s, schedule))
    [before] = do(url, list_schedules)
    moved = good_json("copy", url, other, "--yes")
    assert (moved["pending"], moved["schedules"]) == (1, 1)
    assert do(url, list_schedules) == []
    assert do(other, list_schedules) == [before]
    [job] = do(other, lambda s: s.page(Selection(), 10)).jobs
    assert job.id.partition("@")[0] == "acme"
    assert job.due == pytest.approx(before.next_tick, abs=60)
    assert good_json("copy", url, other, "--yes")["schedules"] == 0


async def fill_limits(store):
    """Limits of either kind with a debt, a pause and jobs that wait, and permits held before."""
    await store.configure("mail", QueueSettings(weights=(("acme", 3.0),)))
    await store.set_limit("openai", Limit(rate=5, per=3600), declared=True)
    await store.set_limit("tokens", Limit(rate=100, per=86_400, burst=100), declared=True)
    await store.set_limit("tenant:*", Limit(concurrency=1), declared=True)
    await store.set_limit("tenant:acme", Limit(concurrency=2), declared=False)
    costs = {"openai": 1, "tenant:acme": 1}
    await store.enqueue(
        [
            *(new_job(f"o{n}", limits=costs_text(costs), fairness_key="acme") for n in range(4)),
            new_job("t0", limits=costs_text({"tokens": 60})),
            new_job("t1", limits=costs_text({"tokens": 60})),
        ]
    )
    first, *others = await claim(store, 9)
    await store.commit([Done(first.lease, b"1", use=LimitUse(spent=(("openai", 2),)))])
    await finish(store, others)
    await store.pause_limit("tenant:acme", 3000.0)
    await gone(store)


def seen(views):
    """What a copy must keep of limits."""
    return {view.name: (view.stored, view.used, view.paused_until is not None) for view in views}


def test_limits_are_moved_with_what_is_owed_and_their_pauses_and_without_permits(url, other):
    do(url, fill_limits)
    before = do(url, lambda s: s.limits(99))
    assert {view.name: view.used for view in before if view.used} == {"openai": 4, "tokens": 60}
    good("copy", url, other, "--yes")
    after = do(other, lambda s: s.limits(99))
    assert seen(after) == seen(before)
    [paused] = [view.paused_until for view in before if view.paused_until]
    assert [v.paused_until for v in after if v.paused_until] == [pytest.approx(paused, abs=30)]
    assert [view.running for view in after] == [0] * 4
    assert do(other, lambda s: s.facts()).queue("mail").weights == (("acme", 3.0),)
    # Two of four have run; the others wait for the pause, and the one for tokens.
    assert [each.id for each in do(other, lambda s: claim(s, 9))] == []
    do(other, lambda s: s.pause_limit("tenant:acme", 0.0))
    assert [each.id for each in do(other, lambda s: claim(s, 9))] == ["o2"]


def test_what_is_owed_is_moved_once_however_often_it_is_copied(url, other):
    do(url, fill_limits)
    good("copy", url, other, "--yes")
    good("copy", url, other, "--yes")
    assert seen(do(other, lambda s: s.limits(99))) == seen(do(url, lambda s: s.limits(99)))


def test_what_an_operator_set_in_the_target_stays(url, other):
    do(url, fill_limits)
    do(other, lambda s: s.set_limit("openai", Limit(rate=9), declared=False))
    good("copy", url, other, "--yes")
    [openai] = [v for v in do(other, lambda s: s.limits(99)) if v.name == "openai"]
    assert openai.stored == StoredLimit(Limit(rate=5, per=3600), Limit(rate=9))
