"""What only the Redis store does: its keys, its inbox, its options, and a server that goes away."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from mulligan.core.budget import Budget
from mulligan.core.counts import Count
from mulligan.core.errors import InvalidError, StoreError, StoreUnavailableError
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import RetryFirst
from mulligan.core.health import CLOSED, SLOT, Breaker
from mulligan.core.job import Call, Job, NewJob, Policy, decode_call, decode_policy
from mulligan.core.lane import Lane
from mulligan.core.outcome import Returned
from mulligan.core.page import Selection
from mulligan.core.plan import Cap
from mulligan.core.retry import PRESETS, Retry
from mulligan.core.worker import Worker
from mulligan.stores import make_store
from mulligan.stores.contract import Store
from mulligan.stores.redis import RedisStore, scripts
from mulligan.stores.redis.wire import AnswerError
from tests.contract.making import (
    ANN,
    ANYONE,
    BOB,
    FRESH,
    RETRY,
    URGENT,
    again,
    begin,
    claim,
    dead,
    done,
    group,
    in_turn,
    job,
    jobs,
    names,
    run_by_policy,
    source,
    start,
    walk,
)
from tests.contract.sleeping import woken
from tests.databases import RedisServer
from tests.databases._server import LOOPBACK
from tests.store_kit import VirtualClock, fresh_url, with_query

EARLIER = Path(__file__).parent / "data/redis-layout-1.json"
PAGE = Path(__file__).parents[3] / "docs/stores/redis.md"
AWAY = "redis://me:hunter2@127.0.0.1:1/0"


@pytest.fixture
async def url(tmp_path) -> AsyncIterator[str]:
    async with fresh_url("redis", tmp_path) as fresh:
        yield fresh


@pytest.fixture
async def store(url) -> AsyncIterator[RedisStore]:
    async with opened(url) as fresh:
        yield fresh


@pytest.fixture
async def client(store) -> AsyncIterator[Redis]:
    """A plain connection to the server, as another program has it."""
    async with Redis.from_url(store._server.address.url, decode_responses=True) as plain:
        yield plain


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    """A server that the test may kill or starve."""
    with RedisServer() as server:
        yield server


class opened:  # noqa: N801 - reads as a word
    """An open store on the server's own clock or another, closed afterwards."""

    def __init__(self, url: str, clock: VirtualClock | None = None) -> None:
        self.store = RedisStore(url, clock)

    async def __aenter__(self) -> RedisStore:
        await self.store.open()
        return self.store

    async def __aexit__(self, *_: object) -> None:
        await self.store.close()


def key(store: RedisStore, name: str) -> str:
    return f"{store._server.address.tag}:{name}"


async def keys_of(client: Redis, store: RedisStore) -> dict[str, str]:
    """Every key of the store without its prefix, and its type."""
    pattern = key(store, "*")
    found = [str(name) async for name in client.scan_iter(pattern, count=1000)]
    types = [str(await client.type(name)) for name in found]
    plain = [name[len(pattern) - 1 :] for name in found]
    return dict(zip(plain, types, strict=True))


# -- the server goes away --------------------------------------------------------------------


async def test_a_restart_keeps_everything_and_the_store_object_goes_on(own_server):
    async with opened(own_server.url) as store:
        first, second = await begin(store, *jobs("a", "b"))
        await store.commit([again(first, 3600.0)])
        await store.enqueue([job("c"), job("later", delay=60.0)])
        before = (await store.stats()).lanes
        own_server.kill()
        with pytest.raises(StoreUnavailableError, match=r"127\.0\.0\.1"):
            await store.enqueue(jobs("d"))
        own_server.start()
        assert (await store.stats()).lanes == before
        assert await store.commit([done(second)]) == ["written"]
        assert len(await store.history("a")) == 1
        assert names(await claim(store, demand=9)) == ["c"]


async def test_a_worker_that_waits_is_told_when_the_server_goes(own_server):
    async with opened(own_server.url) as store:
        await claim(store)
        sleeper = asyncio.create_task(store.wait(ANN, 60.0))
        async with Redis.from_url(own_server.url) as client:
            while not (await client.info("clients"))["blocked_clients"]:  # noqa: ASYNC110
                await asyncio.sleep(0)
        own_server.kill()
        with pytest.raises(StoreUnavailableError):
            await sleeper


async def test_a_connection_that_the_server_closed_while_it_was_idle_is_not_used_again(own_server):
    async with opened(own_server.url) as store, Redis.from_url(own_server.url) as other:
        await store.enqueue(jobs("a"))
        assert await other.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert names(await claim(store)) == ["a"]


async def test_connections_are_used_again_and_no_more_are_made(own_server):
    async with opened(own_server.url) as store, Redis.from_url(own_server.url) as other:
        await store.enqueue(jobs("a"))
        before = (await other.info("stats"))["total_connections_received"]
        for number in range(20):
            await store.enqueue(jobs(f"b{number}"))
        assert (await other.info("stats"))["total_connections_received"] == before


async def test_an_answer_that_comes_too_late_is_not_taken_for_that_of_a_later_command(own_server):
    async with opened(own_server.url) as store, Redis.from_url(own_server.url) as other:
        patience = store._server._patience
        await other.client_pause(60_000, all=False)
        store._server._patience = 0.01
        with pytest.raises(StoreUnavailableError, match="did not answer in time"):
            await store.enqueue(jobs("a"))
        store._server._patience = patience
        await other.client_unpause()
        assert await store.depth(FRESH, 10) in (0, 1)
        assert (await store.facts()).paused == frozenset()


async def test_a_server_that_talks_nonsense_counts_as_away(own_server):
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"LIB-VER")  # the driver presents itself
        writer.write(b"+OK\r\n" * 2)
        await reader.readuntil(b"INFO")
        writer.write(b"nonsense\r\n")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        store = RedisStore(f"redis://127.0.0.1:{port}/0")
        with pytest.raises(StoreUnavailableError, match="cannot be reached"):
            await store.open()
        await store.close()


async def test_a_flush_of_the_servers_scripts_is_not_noticed(store, client):
    await store.enqueue(jobs("a"))
    await client.script_flush()
    first = await start(store)
    await client.script_flush()
    assert await store.commit([done(first)]) == ["written"]


async def test_a_full_server_refuses_new_jobs_whole_and_lets_work_finish(own_server):
    async with opened(own_server.url) as store, Redis.from_url(own_server.url) as client:
        await store.enqueue(jobs("a", "b", "c"))
        first = await start(store)
        size = await client.dbsize()
        await client.config_set("maxmemory", 1)
        with pytest.raises(StoreError, match="out of memory and took none of this batch"):
            await store.enqueue([job("d"), job("e", unique_key="u", delay=5.0)])
        assert await client.dbsize() == size
        assert await store.get("d") is None
        assert await store.commit([done(first, None, job("next"))]) == ["written"]
        second = await start(store)
        assert await store.commit([again(second)]) == ["written"]
        assert await store.cancel(["c"], "enough") == [True]
        assert (await store.beat(ANN, [])).lost == []
        assert await store.count([Count("default", "US", "failed", 1)])
        assert await store.switch("default", "US", CLOSED, Breaker(open=True))
        with pytest.raises(StoreError, match="out of memory"):
            await store.note("a", b"1", 60.0)
        await store.note("a", None, 0.0)
        assert await store.prune(-1.0, 10) == 2
        await client.config_set("maxmemory", 0)
        assert (await store.enqueue(jobs("d")))[0].created


WRITES_REFUSED = {
    "a replica": (("REPLICAOF", LOOPBACK, "1"), "is a replica that takes no writes"),
    "too few replicas": (("CONFIG", "SET", "min-replicas-to-write", "1"), "NOREPLICAS"),
}


@pytest.mark.parametrize(("words", "said"), WRITES_REFUSED.values(), ids=WRITES_REFUSED)
async def test_a_server_that_takes_no_writes_counts_as_away(own_server, words, said):
    async with opened(own_server.url) as store, Redis.from_url(own_server.url) as client:
        await store.enqueue(jobs("a"))
        await client.execute_command(*words)
        with pytest.raises(StoreUnavailableError, match=said):
            await store.enqueue(jobs("b"))


@pytest.mark.parametrize(
    ("said", "kind", "sentence"),
    [
        ("OOM command not allowed when used memory > 'maxmemory'.", StoreError, "out of memory"),
        ("READONLY You can't write against a read only replica.", StoreUnavailableError, "replica"),
        ("NOREPLICAS Not enough good replicas to write.", StoreUnavailableError, "now: NOREP"),
        ("WRONGTYPE Operation against a key", StoreError, "refused: WRONGTYPE"),
    ],
)
def test_an_error_within_a_script_of_an_older_server_means_the_same(said, kind, sentence):
    script = "Error running script (call to f_5da5948c): @user_script:1: @user_script: 1: -"
    error = RedisStore(AWAY)._server.explained(AnswerError(script + said))
    assert type(error) is kind
    assert sentence in str(error)


async def test_a_url_may_say_valkey():
    async with fresh_url("redis", Path()) as url:
        store = RedisStore(url.replace("redis://", "valkey://"))
        await store.open()
        await store.enqueue(jobs("a"))
        await store.close()
        async with opened(url) as same:
            assert await same.get("a")


@pytest.mark.parametrize(("scheme", "driver"), [("valkey", "redis"), ("valkeys", "rediss")])
def test_errors_call_the_server_what_its_url_does(scheme, driver):
    store = make_store(f"{scheme}://me:hunter2@127.0.0.1:1/0?prefix=p")
    assert isinstance(store, RedisStore)
    assert store._server.address.url == f"{driver}://me:hunter2@127.0.0.1:1/0"
    assert store._server.address.shown == "valkey at 127.0.0.1:1"


async def test_errors_show_no_credentials():
    store = RedisStore(AWAY)
    with pytest.raises(StoreUnavailableError) as caught:
        await store.open()
    assert "hunter2" not in str(caught.value)
    assert "redis at 127.0.0.1:1 cannot be reached" in str(caught.value)
    await store.close()


async def test_a_wrong_password_is_named_without_showing_it(own_server):
    wrong = own_server.url.replace("redis://", "redis://me:hunter2@")
    store = RedisStore(wrong)
    with pytest.raises(StoreError, match="refused the user or password") as caught:
        await store.open()
    assert "hunter2" not in str(caught.value)
    await store.close()


async def test_a_write_that_too_few_replicas_acknowledged_is_reported(url):
    async with opened(with_query(url, wait_replicas="1", wait_timeout="0.01")) as store:
        with pytest.raises(StoreUnavailableError, match=r"0 of 1 replicas .* again is safe"):
            await store.enqueue(jobs("a"))
        assert await store.get("a") is not None


# -- the URL ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("prefx=a", "'prefx' is no option of a redis store; use prefix"),
        ("prefix=a{b}", "must not contain braces"),
        ("wait_replicas=many", "wait_replicas 'many' must be a whole number"),
        ("wait_timeout=soon", "wait_timeout 'soon' must be a number of seconds"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(query, reason):
    with pytest.raises(InvalidError, match=reason):
        RedisStore(f"redis://127.0.0.1/0?{query}")


async def test_options_of_the_driver_are_passed_on(url, tmp_path):
    async with opened(with_query(url, client_name="mulligan-test")) as store:
        assert await store._server.command("CLIENT", "GETNAME") == b"mulligan-test"


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("", 5.0),
        ("?socket_timeout=2", 2.0),
        ("?wait_timeout=9", 5.0),
        ("?wait_timeout=9&wait_replicas=1", 14.0),
    ],
)
def test_a_command_has_a_limited_time_to_be_answered(query, seconds):
    server = RedisStore(f"redis://127.0.0.1/0{query}")._server
    assert server._patience == seconds
    assert server._driver.connection_kwargs["socket_connect_timeout"] == 5.0


async def test_a_layout_of_a_later_release_is_refused(store, client):
    await client.set(key(store, "layout"), "4")
    with pytest.raises(StoreError, match="has keys of layout 4, and this release knows 3"):
        await store.open()


# -- a store that the earlier release wrote ----------------------------------------------------

WRITTEN = json.loads(EARLIER.read_text())


@pytest.fixture
async def written(url) -> AsyncIterator[tuple[RedisStore, VirtualClock, Redis]]:
    """A store as the earlier release left it, not opened yet, and a plain connection."""
    clock = VirtualClock(WRITTEN["now"])
    store = RedisStore(url, clock)
    async with Redis.from_url(store._server.address.url, decode_responses=True) as client:
        for name, (kind, value) in WRITTEN["keys"].items():
            await write_key(client, kind, key(store, name), value)
        yield store, clock, client
    await store.close()


async def write_key(client: Redis, kind: str, name: str, value: Any) -> None:
    match kind:
        case "string":
            await client.set(name, value)
        case "hash":
            await client.hset(name, mapping=value)
        case "list":
            await client.rpush(name, *value)
        case "set":
            await client.sadd(name, *value)
        case "zset":
            await client.zadd(name, dict(value))


async def test_a_store_of_the_earlier_release_has_every_job_as_it_was(written, monkeypatch):
    store, _, _ = written
    monkeypatch.setattr("mulligan.stores.redis.store.BATCH_LIMIT", 5)
    await asyncio.gather(store.open(), store.open())
    before = {each.id: each for each in msgspec.convert(WRITTEN["jobs"], list[Job])}
    for each in (await store.page(Selection(), 100)).jobs:
        was = before.pop(each.id)
        assert replace(each, token=was.token, sequence=was.sequence) == was
    assert before == {}


async def test_a_store_of_the_earlier_release_goes_on(written):
    store, clock, client = written
    await store.open()
    await store.beat(BOB, [])
    assert names(await claim(store, demand=3, worker=BOB)) == ["ordinary", "last", "unique"]
    assert await store.cancel(["o1"], "enough") == [True]
    assert names(await claim(store, demand=9, worker=BOB)) == ["o2", "late unique"]
    assert (await store.beat(ANN, [])).lost == []
    clock.advance(ANN.lease)
    await store.beat(BOB, [])
    reclaimed = {each.id: each for each in await store.reclaim(10, BOB)}
    assert set(reclaimed) == {"running", "rerun", "kept 1", "m1"}
    assert set(await store.commit([done(each) for each in reclaimed.values()])) == {"written"}
    last = await claim(store, demand=9, worker=BOB)
    assert names(last) == ["kept 2", "expires", "all"]
    assert await store.replay(["failed"]) == [True]
    await store.cancel([each.id for each in (await store.page(Selection(), 100)).jobs], "enough")
    clock.advance(3600.0)
    assert await store.prune(0.0, 100) == len(WRITTEN["jobs"])
    await claim(store, FRESH, RETRY, Lane("a:b", "U%S", 2), worker=BOB)
    left = {name.partition(":")[0] for name in await keys_of(client, store)}
    assert not left & {"job", "state", "history", "arrived", "old", "running", "done", "past"}


async def test_processes_of_the_earlier_release_are_kept_out_of_a_store_that_was_moved(written):
    store, _, client = written
    await store.open()
    # The first command of its scripts that add or claim work.
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        await client.hget(key(store, "counters"), "epoch")


async def test_prefixes_do_not_see_each_other(url, tmp_path):
    async with (
        fresh_url("redis", tmp_path) as other_url,
        opened(url) as store,
        opened(other_url) as other,
    ):
        await store.enqueue(jobs("a"))
        await other.pause("default", paused=True)
        assert await other.get("a") is None
        assert names(await claim(other)) == []
        assert names(await claim(store)) == ["a"]
        assert (await store.facts()).paused == frozenset()


# -- keys ------------------------------------------------------------------------------------


def documented() -> dict[str, tuple[re.Pattern[str], str]]:
    """The table of keys in the documentation: for each a pattern, and the type."""
    row = re.compile(r"^\| `([^`]+)` \| (string|hash|list|set|zset) \|", re.MULTILINE)
    return {
        name: (re.compile("[^:]+:[^:]+:[^:]+".join(map(named, name.split("LANE")))), kind)
        for name, kind in row.findall(PAGE.read_text())
    }


def named(part: str) -> str:
    return re.sub(r"[A-Z]+", ".+", re.escape(part))


async def live_through(store: Store) -> AsyncIterator[None]:
    """Do a little of everything, so that every kind of key is there at one time or another."""
    kept = jobs("k1", "k2", concurrency_key="k")
    new = [*jobs(*"abcdefgh"), *kept, job("u", priority=2, unique_key="u", expires=9.0)]
    await store.enqueue([*new, job("later", delay=60.0), *jobs("x", "y", "z")])
    yield
    taken = (await claim(store, demand=10)).claims
    await store.commit([again(taken[0]), dead(taken[1]), done(taken[2]), Returned(taken[3].lease)])
    urgent = Lane("default", "*", 3)
    await store.commit([again(taken[4], lane=urgent), again(taken[5], 50.0), again(taken[6])])
    await store.cancel(["y"], "enough")
    yield
    await store.pause("mail", paused=True)
    await claim(store, source(Lane("mail", "default", 0), Cap("one", 1)))
    yield
    await claim(store, source(FRESH, Cap("one", 1)))
    share = QueueSettings(RetryFirst(), Budget(ratio=0.5))
    await run_by_policy(store, 20, BOB, share)
    yield
    await store.enqueue([job("all", awaits=2), *jobs("m0", "m1", gather="all")])
    members = await claim(store, demand=9)
    await store.commit([done(each) for each in members.claims if each.id == "m0"])
    await store.count([Count("default", "default", "failed", 1)])
    await store.switch("default", "default", CLOSED, Breaker(open=True))
    await store.note("a", b"1", 60.0)
    yield


async def test_every_key_is_documented_with_its_type_and_has_the_hash_tag(store, client):
    table = documented()
    seen = set()
    async for _ in live_through(store):
        for name, kind in (await keys_of(client, store)).items():
            fitting = {row for row, (p, of) in table.items() if p.fullmatch(name) and of == kind}
            assert fitting, f"{name} is a {kind}"
            seen |= fitting
    unseen = set(table) - seen
    assert unseen <= {"bell:WORKER", "counters", "inbox", "inbox:taken", "inbox:refused"}


async def test_no_key_is_without_the_hash_tag(own_server):
    async with opened(own_server.url) as store, Redis.from_url(own_server.url) as client:
        async for _ in live_through(store):
            keys = [name async for name in client.scan_iter(count=1000)]
            assert all(name.startswith(b"{mulligan}:") for name in keys)


async def test_nothing_is_left_of_jobs_that_are_pruned_and_purged(store, client):
    await store.beat(ANN, [])
    await claim(store)
    before = Counter((await keys_of(client, store)).keys())
    new = [*jobs("a", "b", unique_key=None), *jobs("k1", "k2", "k3", concurrency_key="k")]
    await store.enqueue([*new, job("d", delay=60.0, unique_key="u", expires=90.0)])
    taken = (await claim(store, demand=9)).claims
    await store.commit([done(taken[0]), dead(taken[1]), done(taken[2])])
    await store.cancel(["d", "k2", "k3"], "enough")
    members = [job(f"m{place}", gather="all", gather_index=place) for place in range(3)]
    await store.enqueue([job("all", awaits=3, unique_key="v"), *members])
    first, second = (await claim(store, demand=2)).claims
    await store.commit([done(first), dead(second)])
    assert await store.purge(["m1", "all"]) == [True, True]
    assert await store.cancel(["m2"], "enough") == [True]
    assert await store.purge(["b"]) == [True]
    assert await store.prune(-1.0, 100) == 7
    await claim(store)
    left = Counter((await keys_of(client, store)).keys()) - before
    assert set(left) <= {"sequence", "holders", "lanes"}


async def test_notes_are_found_without_reading_the_others(own_server):
    async with opened(own_server.url) as store, Redis.from_url(own_server.url) as client:
        await store.note("find/a", b"1", 600.0)
        await store.note("find/é\U0010ffff", b"2", 600.0)
        for number in range(300):
            await store.note(f"other/{number}", b"", 600.0)
        await store.notes("find/")  # the server learns the script
        await client.config_resetstat()
        assert await store.notes("find/") == {"find/a": b"1", "find/é\U0010ffff": b"2"}
        calls = {name.removeprefix("cmdstat_") for name in await client.info("commandstats")}
    assert calls - {"evalsha_ro", "evalsha", "time", "config|resetstat", "config"} == {
        "zrangebylex", "zmscore", "hmget"
    }  # fmt: skip


async def test_notes_of_the_second_layout_are_brought_over(store, client):
    await client.hset(key(store, "notes"), mapping={"a/1": "one", "a/2": "two", "b": "three"})
    until_ = {"a/1": 4e9, "a/2": 4e9, "b": 4e9}
    await client.zadd(key(store, "notes-until"), until_)
    await client.set(key(store, "layout"), "2")
    reader = RedisStore(store.url)
    with pytest.raises(
        StoreError, match=r"has keys of layout 2, .* reads 3; run: mulligan migrate"
    ):
        await reader.open(read_only=True)
    await reader.close()
    await store.open()
    assert await store.notes("a/") == {"a/1": b"one", "a/2": b"two"}
    await store.note("b", None, 0.0)
    assert set(await store.notes("")) == {"a/1", "a/2"}
    assert await client.get(key(store, "layout")) == "3"


async def commands_of(client: Redis, question: Awaitable[object]) -> int:
    """How many commands it takes to answer, on a server that nobody else talks to."""
    await client.config_resetstat()
    await question
    stats = await client.info("commandstats")
    return sum(each["calls"] for each in stats.values())


async def test_jobs_that_ended_together_are_pruned_in_parts(store):
    taken = await begin(store, *jobs("a", "b", "c", "d", "e"))
    await store.commit([done(each) for each in taken])
    assert [await store.prune(-1.0, 2) for _ in range(4)] == [2, 2, 1, 0]


async def test_what_ended_long_ago_is_pruned_though_it_stands_behind_what_is_younger(url, client):
    clock = VirtualClock()
    async with opened(url, clock) as store:

        async def end(*names_: str) -> None:
            for each in await begin(store, *jobs(*names_)):
                await store.commit([done(each)])

        await end(*(f"ahead{n}" for n in range(150)))  # by a clock that is a year ahead
        clock.advance(-31_536_000.0)
        await end("old0", "old1")
        clock.advance(40.0)
        await end("young")
        clock.advance(-20.0)
        await end("between")
        clock.advance(70.0)
        assert await store.prune(80.0, 1) == 1
        assert await store.prune(80.0, 10) == 1
        assert await store.prune(60.0, 10) == 1
        assert await store.get("between") is None
        assert await store.get("young") is not None
        clock.advance(31_536_100.0)
        assert [await store.prune(60.0, 100) for _ in range(3)] == [100, 51, 0]
        assert not await client.exists(key(store, "past"))


async def test_a_second_life_is_kept_for_its_own_time(url):
    clock = VirtualClock()
    async with opened(url, clock) as store:
        for _ in range(2):
            await store.commit([done(each) for each in await begin(store, *jobs("a", "b"))])
            clock.advance(100.0)
            assert await store.purge(["a", "b"]) == [True, True]
        await store.commit([done(each) for each in await begin(store, *jobs("a", "b"))])
        clock.advance(50.0)
        assert await store.prune(100.0, 10) == 0
        assert await store.get("a") is not None
        clock.advance(51.0)
        assert await store.prune(100.0, 10) == 2


async def test_a_claim_costs_the_same_however_many_jobs_have_ended_or_wait(own_server):
    async with opened(own_server.url) as store, Redis.from_url(own_server.url) as client:
        await store.enqueue(jobs(*(f"first{n}" for n in range(21))))
        await claim(store, demand=10)  # the server learns the script
        few = await commands_of(client, claim(store, demand=10))
        taken = await begin(store, *jobs(*(f"old{n}" for n in range(400))))
        await store.commit([done(each) if n % 2 else dead(each) for n, each in enumerate(taken)])
        await store.enqueue(jobs(*(f"later{n}" for n in range(500)), delay=600.0))
        await store.enqueue(jobs(*(f"now{n}" for n in range(500))))
        assert await commands_of(client, claim(store, demand=10)) <= few + 2


async def test_jobs_that_somebody_else_holds_are_asked_for_at_once(own_server):
    async with (
        opened(own_server.url) as store,
        opened(own_server.url) as other,
        Redis.from_url(own_server.url) as client,
    ):
        taken = await begin(store, *jobs(*(f"j{n}" for n in range(101))))
        await store.enqueue(jobs(*(f"held{n}" for n in range(20))))
        for n in range(20):
            await claim(store, worker=Worker(f"w{n}-1"))
        assert await other.commit([done(taken[0])]) == ["written"]  # the server learns the script
        rest = [done(each) for each in taken[1:]]
        assert await commands_of(client, other.commit(rest)) < 50
        assert await other.commit(rest) == ["already"] * 100


async def test_facts_cost_the_same_however_much_was_counted_long_ago(own_server):
    clock = VirtualClock()
    async with opened(own_server.url, clock) as store, Redis.from_url(own_server.url) as client:
        await store.count([Count("q", "US", "failed", 1)])
        await store.facts()  # the server learns the script
        few = await commands_of(client, store.facts())
        for n in range(50):
            clock.advance(SLOT)
            await store.count([Count("q", "US", name, 1) for name in ("failed", f"other {n}")])
        assert await commands_of(client, store.facts()) == few


async def test_a_source_that_yields_costs_nothing_while_its_lane_is_empty(own_server):
    async with opened(own_server.url) as store, Redis.from_url(own_server.url) as client:
        await store.enqueue(jobs("a", "b", "c", "d"))
        await claim(store, FRESH)
        waits = source(RETRY, waited=2.0)
        without = await commands_of(client, claim(store, FRESH, waits))
        yields = source(RETRY, waited=2.0, yields=True)
        assert await commands_of(client, claim(store, FRESH, yields)) == without


async def test_the_last_in_line_is_sought_among_the_newest_thousand(url):
    clock = VirtualClock()
    async with opened(url, clock) as store:
        await store.enqueue(jobs("first"))
        then = clock.now
        clock.advance(1)
        await store.enqueue(jobs(*(f"j{n}" for n in range(999))))
        assert await store.tail(FRESH, then) == "first"
        await store.enqueue(jobs("one too many"))
        assert await store.tail(FRESH, then) is None
        assert await store.tail(FRESH, clock.now) == "one too many"


async def test_counts_of_a_few_seconds_expire_by_themselves(store, client):
    await store.count([Count("q", "US", "failed", 1)])
    [slot] = [name for name in await keys_of(client, store) if name.startswith("counted:")]
    assert 0 < await client.ttl(key(store, slot)) <= 120


async def test_nothing_is_left_of_a_worker_that_died(url, client):
    clock = VirtualClock()
    async with opened(url, clock) as store:
        await claim(store, worker=ANN)
        clock.advance(ANN.lease)
        await store.reclaim(1, BOB)
        assert "sleepers" not in await keys_of(client, store)
        clock.advance(2 * 86_400.0)
        await store.prune(0.0, 100)
        left = set(await keys_of(client, store))
        assert not [name for name in left if name.startswith(("worker", "serving"))]


@pytest.mark.prove
async def test_a_hundred_thousand_jobs_meet_no_limit_of_lua(store):
    for at in range(0, 100_000, 1000):
        await store.enqueue(jobs(*(f"j{n}" for n in range(at, at + 1000))))
    assert await store.depth(FRESH, 200_000) == 100_000
    for at in range(0, 98_000, 1000):
        gone = [f"j{n}" for n in range(at, at + 1000)]
        assert all(await store.cancel(gone, "enough"))
    assert await store.depth(FRESH, 200_000) == 2000
    assert await store.ahead("j99000") == 1000
    claimed = await claim(store, demand=1000)
    assert [each.id for each in claimed.claims] == [f"j{n}" for n in range(98_000, 99_000)]
    assert set(await store.commit([again(each) for each in claimed.claims])) == {"written"}
    retried = await claim(store, RETRY, demand=1000)
    assert set(await store.commit([done(each) for each in retried.claims])) == {"written"}
    while await store.prune(-1.0, 10_000):
        pass
    assert len((await store.page(Selection(), 2000)).jobs) == 1000


# -- the short way to claim ------------------------------------------------------------------


SOME = jobs(*(f"j{number}" for number in range(12)))
FOUND: dict[str, tuple[list[NewJob], int]] = {
    "nothing": ([], 5),
    "one": (jobs("a"), 5),
    "several": (jobs("a", "b", "c"), 5),
    "as many as were asked for": (jobs("a", "b"), 2),
    "more than were asked for": (jobs("a", "b", "c"), 2),
    "more than a few": (SOME, 20),
    "one that is not due": ([*jobs("a"), job("later", delay=60.0)], 5),
    "one of another lane": ([*jobs("a"), job("urgent", priority=2), *jobs("b")], 5),
    "one that has a key": ([*jobs("a"), job("k", concurrency_key="k"), *jobs("b")], 5),
    "one that may expire": ([*jobs("a"), job("e", expires=60.0), *jobs("b")], 5),
    "one that is unique": ([*jobs("a"), job("u", unique_key="u"), *jobs("b")], 5),
    "one that was cancelled": (jobs("a", "gone", "b"), 5),
}


@pytest.mark.parametrize(("new", "demand"), FOUND.values(), ids=FOUND)
async def test_a_worker_that_slept_finds_what_one_that_comes_finds(tmp_path, new, demand):
    seen = []
    for slept in (True, False):
        async with fresh_url("redis", tmp_path) as url, opened(url) as store:
            if slept:
                await claim(store, FRESH, URGENT, demand=demand)
            await store.enqueue(new)
            await store.cancel([each.id for each in new if each.id == "gone"], "enough")
            found = await claim(store, FRESH, URGENT, demand=demand)
            assert await store.commit([done(each) for each in found.claims]) == [
                "written" for _ in found.claims
            ]
            lanes = [(each.lane, each.ready, each.delayed) for each in (await store.stats()).lanes]
            rest = await claim(store, FRESH, URGENT, demand=20)
            given = [replace(each, started_at=0.0, due=0.0) for each in found.claims]
            seen.append((given, found.left, found.again_in is None, lanes, names(rest)))
    assert seen[0] == seen[1]


async def test_a_worker_that_slept_is_found_by_the_next_job(store):
    for name in ("a", "b"):
        assert names(await claim(store, demand=5)) == []
        await store.enqueue(jobs(name))
        assert names(await claim(store, demand=5)) == [name]
        await store.enqueue(jobs(f"after {name}"))
        assert await woken(store, ANN)
        await claim(store, demand=5)


async def test_a_worker_that_slept_asks_the_server_for_less(own_server):
    async with opened(own_server.url) as store, Redis.from_url(own_server.url) as client:
        await claim(store, demand=5)
        await store.enqueue(jobs("a"))
        short = await commands_of(client, claim(store, demand=5))
        await store.enqueue(jobs("b"))
        assert short < await commands_of(client, claim(store, demand=5, worker=BOB))


async def test_a_worker_all_of_whose_queues_are_paused_goes_on_sleeping(store):
    await store.pause("default", paused=True)
    for _ in range(2):
        assert names(await run_by_policy(store, 5)) == []


async def test_a_worker_that_slept_takes_no_more_than_its_plan_lets_it(store):
    plan = in_turn(10, group(FRESH), until=(2,))
    assert names(await walk(store, plan)) == []
    await store.enqueue(jobs("a", "b", "c"))
    assert names(await walk(store, plan)) == ["a", "b"]


# -- scripts ---------------------------------------------------------------------------------

LUA = Path(scripts.__file__).parent / "lua"
OPERATIONS = sorted(path.stem for path in LUA.glob("*.lua"))


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_script_defines_no_function_that_it_does_not_use(name):
    source = scripts.script(name).source.decode()
    for function in re.findall(r"^local function (\w+)", source, re.MULTILINE):
        assert len(re.findall(rf"\b{function}\b", source)) > 1, function


def test_every_shared_function_is_used_by_some_script():
    sources = [scripts.script(name).source.decode() for name in OPERATIONS]
    sources.append(scripts.script("facts", around=True).source.decode())
    for path in (LUA / "shared").glob("*.lua"):
        for function in re.findall(r"^local function (\w+)", path.read_text(), re.MULTILINE):
            assert any(re.search(rf"\b{function}\b", each) for each in sources), function


# -- what another program damaged ------------------------------------------------------------


def field(number: int, value: bytes) -> Callable[[bytes], bytes]:
    """Another value in this field of a text."""

    def change(text: bytes) -> bytes:
        fields = text.split(b"\t", 4)
        return b"\t".join([*fields[:number], value, *fields[number + 1 :]])

    return change


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut short": lambda text: text[:10],
    "cut in the middle": lambda text: text[:30],
    "empty": lambda _: b"",
    "nonsense": lambda _: b"nonsense that is longer than a place",
    "a flipped bit": lambda text: bytes([text[0] ^ 0x80]) + text[1:],
    "a place that is no number": field(0, b"first"),
    "a time that is no number": field(1, b"soon"),
    "a lane that is none": field(2, b"nowhere"),
    "a task that is no text": field(3, b"\xff"),
}


@pytest.mark.parametrize("special", [{}, {"unique_key": "u"}], ids=["ordinary", "unique"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
async def test_a_job_whose_text_cannot_be_read_is_a_dead_letter_and_holds_up_nothing(
    store, client, damage, special
):
    await store.enqueue([*jobs("before"), job("damaged", **special), *jobs("after")])
    text = await store._server.command("HGET", key(store, "jobs"), "damaged")
    await store._server.command("HSET", key(store, "jobs"), "damaged", damage(text))
    claimed = await claim(store, demand=9)
    assert names(claimed) == ["before", "after"]
    assert claimed.again_in == 0.0
    await expect_dead(store, "damaged")
    assert (await store.enqueue([job("other", **special)]))[0].created


@pytest.mark.parametrize(
    "state", [{"counts": "x"}, {"counts": "8 0"}, {"due": "x", "counts": "-"}], ids=str
)
async def test_a_job_whose_state_cannot_be_read_is_a_dead_letter(store, client, state):
    await store.enqueue([job("damaged", unique_key="u"), *jobs("after")])
    await client.hset(key(store, "state:damaged"), mapping=state)
    assert names(await claim(store, demand=9)) == ["after"]
    await expect_dead(store, "damaged")


async def test_a_job_that_was_damaged_while_it_ran_is_a_dead_letter_when_it_is_reclaimed(url):
    clock = VirtualClock()
    async with opened(url, clock) as store:
        await begin(store, *jobs("damaged", "other"))
        await store._server.command("HSET", key(store, "jobs"), "damaged", "nonsense")
        clock.advance(ANN.lease)
        assert [each.id for each in await store.reclaim(9, BOB)] == ["other"]
        await expect_dead(store, "damaged")


@pytest.mark.parametrize("name", ["state", "history"])
async def test_what_another_program_keeps_in_a_jobs_place_is_set_aside(store, client, name):
    first, second = await begin(store, *jobs("damaged", "other"))
    await client.set(key(store, f"{name}:damaged"), "mine")
    assert await store.commit([again(first), again(second)]) == ["written", "written"]
    assert await client.get(key(store, f"damaged:{name}:damaged")) == "mine"
    for each in ("damaged", "other"):
        assert (await store.get(each)).retry_count == 1
    assert len(await store.history("other")) == 1
    assert {attempt.number for attempt in await store.history("damaged")} == {1}


async def expect_dead(store: RedisStore, name: str) -> None:
    """It is listed as failed, says why, and can be purged."""
    [listed] = (await store.page(Selection(status="failed", queue="default"), 9)).jobs
    assert listed == await store.get(name)
    assert (listed.id, listed.status) == (name, "failed")
    assert "cannot be read" in str(listed.last_failure_reason)
    assert await store.purge([name]) == [True]
    assert await store.get(name) is None


# -- the inbox -------------------------------------------------------------------------------


async def test_a_document_of_another_program_becomes_a_job_and_wakes_a_worker(store, client):
    await claim(store, Lane("mail", "EU", 2))
    sleeper = asyncio.create_task(woken(store, ANN))
    document = {
        "task": "send",
        "args": [1],
        "kwargs": {"to": "ann"},
        "queue": "mail",
        "region": "EU",
        "priority": "urgent",
        "id": "m1",
        "unique_key": "u",
        "retry": {"max_retries": 7},
    }
    await client.rpush(key(store, "inbox"), json.dumps(document))
    assert await sleeper
    first = await start(store, Lane("mail", "EU", 2))
    assert (first.id, first.task, first.queue, first.region) == ("m1", "send", "mail", "EU")
    assert decode_call(first.body) == Call([1], {"to": "ann"})
    assert decode_policy(first.body) == Policy(Retry(7))
    stored = await store.get("m1")
    assert stored is not None
    assert stored.unique_key == "u"


async def test_a_document_needs_no_more_than_a_task(store, client):
    await client.rpush(key(store, "inbox"), '{"task": "ask"}', '{"task": "ask", "retry": "quick"}')
    await client.rpush(key(store, "inbox"), '{"task": "ask", "delay": 60}')
    await store.promote(100)
    first, second = (await claim(store, demand=9)).claims
    assert first.lane == ANYONE
    assert decode_policy(first.body).retry == Retry()
    assert decode_policy(second.body).retry == PRESETS["quick"]
    assert (await store.stats()).delayed["default"].total == 1


REFUSED = {
    "no JSON": ("{", "the document is no job"),
    "no task": ('{"args": []}', "missing required field `task`"),
    "a word too many": ('{"task": "a", "color": 1}', "unknown field `color`"),
    "a wrong type": ('{"task": "a", "args": {}}', "Expected `array`"),
    "an empty name": ('{"task": ""}', "has 0 characters"),
    "a control character": ('{"task": "a\\tb"}', "control character"),
    "a region that is a pattern": ('{"task": "a", "region": "*-US"}', "must not begin with"),
    "a delay before now": ('{"task": "a", "delay": -1}', "must be between"),
    "an unknown priority": ('{"task": "a", "priority": "high"}', "Invalid enum value"),
    "an unknown preset": ('{"task": "a", "retry": "never"}', "is not one of default, quick"),
    "a policy of nonsense": ('{"task": "a", "retry": {"max_retries": -1}}', "must be 0 or more"),
    "too much": (json.dumps({"task": "a", "args": ["x" * 300_000]}), "at most 262144 are taken"),
    "too deep": (f'{{"task": "a", "args": {"[" * 202 + "]" * 202}}}', "more than 200 levels deep"),
    "far too deep": ("[" * 100_000, "more than 200 levels deep"),
    "no text": (b"\xff\xfe", "the document is no job"),
}


@pytest.mark.parametrize(("entry", "reason"), REFUSED.values(), ids=REFUSED)
async def test_what_is_no_job_is_refused_with_the_reason_and_holds_up_nothing(
    store, client, entry, reason
):
    await client.rpush(key(store, "inbox"), entry, '{"task": "ask", "id": "good"}')
    await store.promote(100)
    assert names(await claim(store, demand=9)) == ["good"]
    [noted] = await client.lrange(key(store, "inbox:refused"), 0, -1)
    assert reason in json.loads(noted)["reason"]
    assert "inbox:taken" not in await keys_of(client, store)


async def test_what_a_process_took_and_died_with_is_accepted_by_the_next(store, client):
    await client.rpush(key(store, "inbox:taken"), '{"task": "ask", "id": "a"}')
    await store.promote(100)
    assert names(await claim(store)) == ["a"]


async def test_a_document_that_two_processes_look_at_becomes_one_job(url, client):
    async with opened(url) as store, opened(url) as other:
        documents = ['{"task": "ask"}'] * 50
        await client.rpush(key(store, "inbox"), *documents)
        await asyncio.gather(store.promote(100), other.promote(100))
        assert len((await claim(store, demand=100)).claims) == 50


# -- the doctor ------------------------------------------------------------------------------


async def test_the_doctor_finds_nothing_wrong_with_a_server_that_is_set_up_well(own_server):
    async with opened(own_server.url) as store, Redis.from_url(own_server.url) as client:
        await client.config_set("maxmemory", "1gb")
        findings = await store.doctor()
        assert {level for level, *_ in findings} == {"ok"}, findings


async def test_the_doctor_names_what_would_lose_jobs_and_the_remedy(own_server):
    async with opened(own_server.url) as store, Redis.from_url(own_server.url) as client:
        await client.config_set("maxmemory-policy", "allkeys-lru")
        await client.config_set("appendonly", "no")
        findings = [each for each in await store.doctor() if each[0] != "ok"]
        assert [(level, remedy) for level, _, remedy in findings] == [
            ("bad", "CONFIG SET maxmemory-policy noeviction"),
            ("warn", "CONFIG SET appendonly yes"),
        ]


async def test_the_doctor_says_what_a_user_may_not_do(own_server):
    async with Redis.from_url(own_server.url) as client:
        await client.execute_command("ACL SETUSER app on >pw ~{other}:* +@all")
    async with opened(own_server.url):
        store = RedisStore(own_server.url.replace("redis://", "redis://app:pw@"))
        findings = await store.doctor()
        [(_, sentence, remedy)] = [each for each in findings if each[0] == "bad"]
        assert "may not read by mulligan's scripts" in sentence
        assert "~{mulligan}:*" in remedy
        await store.close()
