"""A shard that is away holds up its own jobs only, is told by its number, and comes back."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from mulligan import LeaseLost, Mulligan, Settings, astep, current_job
from mulligan.core.errors import InvalidError, ShardAwayError, StoreUnavailableError
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import RetryFirst
from mulligan.core.outcome import LimitUse
from mulligan.core.page import Selection
from mulligan.core.shards import absent, tagged
from mulligan.engine import committer, recorder
from mulligan.engine.attempt_records import AttemptRecords, Write
from mulligan.engine.breakers import Ending
from mulligan.engine.committer import Committer
from mulligan.engine.events import Events
from mulligan.engine.reporter import Reporter
from mulligan.sim.loop import OrderedLoop
from mulligan.stores.shards import connection, memory_of
from tests.contract.builders import ANN, BOB, claim, done, job, jobs, names
from tests.engine.real_engine import ended, engine
from tests.stores.shards.kit import Switched, spread


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Ask an absent shard again whenever it is needed, so that no test waits."""
    monkeypatch.setattr(connection, "FIRST_LOOK", 0.0)


@pytest.fixture
async def three(store, shards):
    """The store with a job in each shard, and the third of them away."""
    await store.enqueue(jobs(*(tagged("j", number) for number in range(4))))
    shards[2].down = True
    return store


@pytest.fixture
def virtual() -> Iterator[OrderedLoop]:
    """A loop whose time passes when all wait."""
    loop = OrderedLoop()
    yield loop
    loop.close()


async def until(holds: Callable[[], bool]) -> None:
    """Let others have their turns until it holds."""
    for _ in range(10_000):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")


async def test_the_others_go_on(three):
    first = await claim(three, demand=10)
    assert sorted(names(first)) == ["0_j", "1_j", "3_j"]
    assert await three.commit([done(each) for each in first.claims]) == ["written"] * 3
    assert (await three.beat(ANN, [])).lost == []
    assert await three.reclaim(10, ANN) == []
    assert await three.promote(10) == 0


async def test_its_own_jobs_are_refused_by_its_number(three):
    with pytest.raises(StoreUnavailableError, match=r"shard 2 \(memory://\): nobody answers"):
        await three.enqueue([job("2_new")])
    with pytest.raises(StoreUnavailableError, match="shard 2"):
        await three.get("2_j")


async def test_a_job_that_may_be_there_is_not_said_to_be_nowhere(three):
    with pytest.raises(StoreUnavailableError, match="shard 2"):
        await three.get("0_unknown")


async def test_status_and_doctor_say_so(three):
    stats = await three.stats()
    assert [each.away for each in stats.shards] == [None, None, "nobody answers", None]
    [sentence] = absent(stats.shards)
    assert sentence.startswith("shard 2 (memory://) is away: nobody answers; its jobs wait")
    [bad] = [each for each in await three.doctor() if each.level == "bad"]
    assert "shard 2 (memory://) is away" in bad.sentence


async def test_it_comes_back_with_what_it_missed(three, shards):
    await claim(three, demand=10)
    await three.configure("mail", QueueSettings(RetryFirst()))
    await three.pause("sms", paused=True)
    assert "mail" not in shards[2].store.state.queues
    shards[2].down = False
    assert names(await claim(three, demand=10)) == ["2_j"]
    assert shards[2].store.state.queues["mail"] == QueueSettings(RetryFirst())
    assert shards[2].store.state.paused == {"sms"}
    assert [each.away for each in (await three.stats()).shards] == [None] * 4


async def test_a_process_may_start_while_one_is_away_but_not_while_all_are(three, shards, clock):
    other = spread(clock, *shards)
    await other.open()
    assert len((await claim(other, demand=10)).claims) == 3
    for shard in shards:
        shard.down = True
    with pytest.raises(StoreUnavailableError, match="no shard answers"):
        await spread(clock, *shards).open()
    with pytest.raises(StoreUnavailableError):
        await other.stats()


async def test_a_task_looks_for_it_and_wakes_who_sleeps(shards, clock):
    store = spread(clock, *shards, url="redis://shards-away")
    await store.open()
    await store.enqueue(jobs(*(tagged("j", number) for number in range(4))))
    shards[2].down = True
    assert len((await claim(store, demand=10)).claims) == 3
    waiting = asyncio.ensure_future(store.wait(ANN, 60.0))
    await asyncio.sleep(0)
    assert memory_of(store.url).away == {2}
    assert [each.away for each in (await store.stats()).shards] == [
        *(None, None, "nobody answers", None)
    ]
    shards[2].down = False
    await asyncio.wait_for(waiting, 5)
    assert memory_of(store.url).away == set()
    assert names(await claim(store, demand=10)) == ["2_j"]
    await store.close()


async def test_a_handle_that_is_closed_or_opened_no_longer_counts_a_shard_as_away(shards, clock):
    store = spread(clock, *shards, url="redis://shards-closed")
    await store.open()
    away = memory_of(store.url).away
    shards[2].down = True
    await claim(store)
    assert away == {2}
    await store.close()
    assert away == set()
    shards[2].down = False
    away.add(2)  # as a process has it that was forked while the shard was away
    await store.open()
    assert away == set()
    await store.close()


def test_a_silent_shard_costs_no_lease_in_the_others(virtual):
    async def play() -> list[float]:
        shards = [Switched(virtual.time) for _ in range(3)]
        store = spread(virtual.time, *shards, url="redis://shards-silent")
        await store.open()
        await store.enqueue(jobs("0_j", "1_j"))
        held = [each.lease for each in (await claim(store, demand=10)).claims]
        shards[1].silent = 2 * ANN.lease
        took = []
        for _ in range(4):
            began = virtual.time()
            assert (await store.beat(ANN, held)).lost == []
            took.append(virtual.time() - began)
            await asyncio.sleep(ANN.lease / 3)
        assert [shard.asked["beat"] for shard in shards] == [4, 1, 4]
        assert await shards[0].reclaim(10, BOB) == []
        shards[1].silent = 0.0
        await asyncio.sleep(2 * ANN.lease)
        await store.beat(ANN, held)
        assert await shards[1].reclaim(10, BOB) == []
        await store.close()
        return took

    took = virtual.run_until_complete(play())
    assert took == [pytest.approx(ANN.lease / 3), 0.0, 0.0, 0.0]


def test_where_all_shards_are_slow_a_beat_waits_for_them(virtual):
    async def play() -> float:
        shards = [Switched(virtual.time) for _ in range(3)]
        store = spread(virtual.time, *shards, url="redis://shards-slow")
        await store.open()
        for shard in shards:
            shard.silent = ANN.lease
        await store.beat(ANN, [])
        return float(virtual.time())

    assert virtual.run_until_complete(play()) == pytest.approx(ANN.lease)


async def test_one_that_is_another_when_it_is_back_stays_away(store, shards, clock):
    await store.enqueue([job("2_j")])
    shards[2].down = True
    await claim(store)
    other = [Switched(clock) for _ in range(3)]
    await spread(clock, *other).open()
    shards[2].store, shards[2].down = other[1].store, False
    with pytest.raises(InvalidError, match="is shard 1 of its app, and the list has it as shard 2"):
        await store.get("2_j")


async def test_a_commit_says_what_the_others_have_answered(three, shards):
    shards[2].down = False
    claims = (await claim(three, demand=10)).claims
    shards[2].down = True
    with pytest.raises(ShardAwayError, match="shard 2") as raised:
        await three.commit([done(each) for each in claims])
    said = {each.id: verdict for each, verdict in zip(claims, raised.value.answers, strict=True)}
    assert said == {"0_j": "written", "1_j": "written", "2_j": None, "3_j": "written"}
    shards[2].down = False
    again = dict(zip(said, await three.commit([done(each) for each in claims]), strict=True))
    assert again == {"0_j": "already", "1_j": "already", "2_j": "written", "3_j": "already"}


async def test_a_batch_says_what_the_others_have_accepted_and_may_be_sent_again(three, shards):
    wanted = jobs("0_new", "2_new", "3_new")
    with pytest.raises(ShardAwayError, match="2 of 3 jobs are accepted, in other shards") as raised:
        await three.enqueue_all(wanted)
    assert [each and each.id for each in raised.value.answers] == ["0_new", None, "3_new"]
    shards[2].down = False
    assert [each.created for each in await three.enqueue(wanted)] == [False, True, False]


async def test_a_beat_goes_on_though_a_job_may_be_in_an_absent_shard(three, shards):
    shards[2].down = False
    held = [each.lease for each in (await claim(three, demand=10)).claims]
    assert await three.cancel(["0_j", "1_j"], "no more") == [True, True]
    assert await three.purge(["1_j"]) == [True]
    shards[2].down = True
    # what is not where it should be may be in the shard that is away
    assert [lease.job for lease in (await three.beat(ANN, held)).lost] == ["0_j"]
    shards[2].down = False
    assert {lease.job for lease in (await three.beat(ANN, held)).lost} == {"0_j", "1_j"}


def test_a_silent_shard_holds_up_no_beat_that_has_lost_a_lease_or_finds_news(virtual):
    async def play() -> float:
        shards = [Switched(virtual.time) for _ in range(3)]
        store = spread(virtual.time, *shards, url="redis://shards-news")
        await store.open()
        await store.enqueue(jobs("1_j", "2_j"))
        held = [each.lease for each in (await claim(store, demand=10)).claims]
        await store.cancel(["1_j"], "no more")
        shards[0].silent = 10 * ANN.lease
        await shards[2].store.pause("news", paused=True)
        began = virtual.time()
        assert [lease.job for lease in (await store.beat(ANN, held)).lost] == ["1_j"]
        took = float(virtual.time() - began)
        await store.close()
        return took

    assert virtual.run_until_complete(play()) == pytest.approx(ANN.lease / 3)


async def test_a_page_goes_on_where_a_shard_goes_away_while_it_is_read(store, shards, monkeypatch):
    await store.enqueue(jobs(*(tagged("j", number) for number in range(4))))
    read = shards[2].store.page

    async def once(*args: Any, **options: Any) -> Any:
        shards[2].down = True
        return await read(*args, **options)

    monkeypatch.setattr(shards[2].store, "page", once)
    first = await store.page(Selection(), 10)
    assert {each.id for each in first.jobs} == {"0_j", "1_j", "3_j"}
    monkeypatch.setattr(shards[2].store, "page", read)
    shards[2].down = False
    assert [each.id for each in (await store.page(Selection(), 10, first.after)).jobs] == ["2_j"]


async def test_an_outcome_that_names_a_limit_nobody_knows_holds_up_no_other(store, shards):
    await store.enqueue(jobs("1_j", "2_j"))
    one, two = (await claim(store, demand=10)).claims
    spent = replace(done(one), use=LimitUse(spent=(("elsewhere", 1),)))
    shards[0].down = True
    for outcomes, said in (([spent, done(two)], [None, "written"]), ([spent], [None])):
        with pytest.raises(ShardAwayError, match="shard 0") as raised:
            await store.commit(outcomes)
        assert raised.value.answers == said
    shards[0].down = False
    assert await store.commit([spent]) == ["written"]


async def test_of_limits_nobody_knows_and_another_absent_shard_both_wait(store, shards):
    await store.enqueue(jobs("1_j", "2_j", "3_j"))
    claims = {each.id: each for each in (await claim(store, demand=10)).claims}
    spent = replace(done(claims["1_j"]), use=LimitUse(spent=(("elsewhere", 1),)))
    shards[0].down = shards[2].down = True
    with pytest.raises(ShardAwayError) as raised:
        await store.commit([spent, done(claims["2_j"]), done(claims["3_j"])])
    assert raised.value.answers == [None, None, "written"]


async def test_records_for_an_absent_shard_hold_up_no_other_job(store, shards, monkeypatch):
    monkeypatch.setattr(recorder, "LOOK_EVERY", 0.0)
    app = Mulligan("memory://", settings=Settings(concurrency=10))
    begun, away = asyncio.Event(), asyncio.Event()
    waiting: list[str] = []

    @app.task
    async def ship(order: str) -> list[str]:
        waiting.append(order)
        if len(waiting) == 2:
            begun.set()
        await away.wait()
        await current_job().alog(f"ships {order}")
        return [await astep(name, str.upper, order) for name in ("charge", "pack")]

    await store.enqueue([ship.using(id=tagged("j", each)).call(f"{each}a").job for each in (0, 2)])
    async with engine(app, store):
        await begun.wait()
        shards[2].down = True
        away.set()
        assert await ended(store, "0_j") == ["done"]
        shards[2].down = False
        assert await ended(store, "2_j") == ["done"]
    for name in ("0_j", "2_j"):
        recorded = sorted([(each.kind, each.name) for each in await store.records(name)])
        assert recorded == [("log", ""), ("step", "charge"), ("step", "pack")]


async def test_an_attempt_that_ends_waits_no_longer_for_an_absent_shard(store):
    await store.enqueue([job("2_j")])
    sender: Any = None
    attempt = AttemptRecords(sender, (await claim(store)).claims[0], is_async=True)
    before, after = (Write("step", "pack", b"1", asyncio.Future()) for _ in range(2))
    attempt.put_back((), [before], 0.0)
    waited = attempt.is_waiting
    attempt.end()
    attempt.put_back((), [after], 0.0)
    assert (waited, attempt.is_waiting) == (True, False)
    for each in (before, after):
        with pytest.raises(LeaseLost, match="job 2_j"):
            await each.answered


async def test_what_is_for_an_absent_shard_holds_up_no_other_outcome(three, shards, monkeypatch):
    monkeypatch.setattr(committer, "LOOK_EVERY", 0.0)
    shards[2].down = False
    claims = {each.id: each for each in (await claim(three, demand=10)).claims}
    shards[2].down = True
    reporter = Reporter(three)
    running = Committer(three, reporter, Events({}, reporter, None), time.monotonic)
    sending = asyncio.ensure_future(running.run())
    for name in ("2_j", "0_j", "3_j"):
        running.add(done(claims[name]), Ending("default", "default"))
    await until(lambda: running.written == 2)
    running.add(done(claims["1_j"]), Ending("default", "default"))
    await until(lambda: running.written == 3)
    assert [lease.job for lease in running.holding] == ["2_j"]
    shards[2].down = False
    await asyncio.wait_for(running.flushed(), 5)
    assert (running.written, running.stale, running.backlog) == (4, 0, 0)
    sending.cancel()
