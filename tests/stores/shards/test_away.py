"""A shard that is away holds up its own jobs only, is told by its number, and comes back."""

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest

from mulligan.core.errors import InvalidError, ShardAwayError, StoreUnavailableError
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import RetryFirst
from mulligan.core.shards import absent, tagged
from mulligan.engine import committer
from mulligan.engine.breakers import Ending
from mulligan.engine.committer import Committer
from mulligan.engine.events import Events
from mulligan.engine.reporter import Reporter
from mulligan.sim.loop import OrderedLoop
from mulligan.stores.shards import connection
from tests.contract.builders import ANN, BOB, claim, done, job, jobs, names
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
    assert [each.away for each in (await store.stats()).shards] == [
        *(None, None, "nobody answers", None)
    ]
    shards[2].down = False
    await asyncio.wait_for(waiting, 5)
    assert names(await claim(store, demand=10)) == ["2_j"]
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
    said = {each.id: verdict for each, verdict in zip(claims, raised.value.verdicts, strict=True)}
    assert said == {"0_j": "written", "1_j": "written", "2_j": None, "3_j": "written"}
    shards[2].down = False
    again = dict(zip(said, await three.commit([done(each) for each in claims]), strict=True))
    assert again == {"0_j": "already", "1_j": "already", "2_j": "written", "3_j": "already"}


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
