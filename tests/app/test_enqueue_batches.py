"""Callers that enqueue one job each share batches, and each is answered for its own."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mulligan import InvalidError, Mulligan
from mulligan.app import enqueue_batches
from mulligan.app.enqueue_batches import LoopBatches, ThreadBatches
from mulligan.core.errors import ShardAwayError, StoreUnavailableError
from mulligan.core.job import Enqueued, NewJob

TIMEOUT = 30


def job(name: str, size: int = 2) -> NewJob:
    return NewJob(name, "default", "task", b" " * size)


class Store:
    """Notes the batches, and answers each when it may; jobs called bad are refused."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.may_answer = asyncio.Event()
        self.error: Exception | None = None

    async def enqueue(self, jobs):
        self.batches.append([each.id for each in jobs])
        await asyncio.sleep(0)
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        if any(each.id == "bad" for each in jobs):
            raise InvalidError("bad is refused")
        return [Enqueued(each.id, created=True) for each in jobs]


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def batches(store):
    return LoopBatches(store.enqueue)


async def calls(batches, *jobs) -> list[asyncio.Task[Enqueued]]:
    """Callers that have all begun."""
    begun = [asyncio.create_task(batches.add(each)) for each in jobs]
    await asyncio.sleep(0)
    return begun


async def test_what_comes_while_one_is_under_way_is_the_next_batch(batches, store):
    begun = await calls(batches, job("a"), job("b"), job("c"), job("d"))
    assert store.batches == [["a"]]
    store.may_answer.set()
    assert [answer.id for answer in await asyncio.gather(*begun)] == ["a", "b", "c", "d"]
    assert store.batches == [["a"], ["b", "c", "d"]]


async def test_who_was_answered_is_in_the_next_batch_with_those_who_waited(batches, store):
    async def twice(name: str) -> None:
        await batches.add(job(f"{name}1"))
        await batches.add(job(f"{name}2"))

    store.may_answer.set()
    await asyncio.gather(twice("a"), twice("b"), twice("c"))
    assert store.batches == [["a1"], ["b1", "c1", "a2"], ["b2", "c2"]]


async def test_the_error_of_one_job_is_that_ones_alone(batches, store):
    begun = await calls(batches, job("a"), job("b"), job("bad"), job("c"))
    store.may_answer.set()
    answers = await asyncio.gather(*begun, return_exceptions=True)
    assert [type(each) for each in answers] == [Enqueued, Enqueued, InvalidError, Enqueued]
    assert store.batches == [["a"], ["b", "bad", "c"], ["b"], ["bad"], ["c"]]


async def test_when_the_store_is_away_all_are_told_and_nothing_is_sent_again(batches, store):
    begun = await calls(batches, job("a"), job("b"), job("c"))
    store.error = StoreUnavailableError("away")
    store.may_answer.set()
    answers = await asyncio.gather(*begun, return_exceptions=True)
    assert [str(each) for each in answers] == ["away"] * 3
    assert answers[1] is not answers[2]
    assert store.batches == [["a"], ["b", "c"]]
    store.error = None
    assert (await batches.add(job("d"))).created


class SomeShards(Store):
    """Accepts what is for the first shard; the second is away."""

    async def enqueue(self, jobs):
        self.batches.append([each.id for each in jobs])
        await asyncio.sleep(0)
        answers = [Enqueued(each.id, created=True) if each.id[0] == "0" else None for each in jobs]
        if None in answers:
            raise ShardAwayError("shard 1 is away", answers)
        return answers


async def test_what_other_shards_have_accepted_is_not_sent_again():
    store = SomeShards()
    begun = await calls(LoopBatches(store.enqueue), job("0_a"), job("0_b"), job("1_c"), job("0_d"))
    answers = await asyncio.gather(*begun, return_exceptions=True)
    assert [str(each) for each in answers if isinstance(each, Exception)] == ["shard 1 is away"]
    assert [each for each in answers if isinstance(each, Enqueued)] == [
        Enqueued(name, created=True) for name in ("0_a", "0_b", "0_d")
    ]
    assert store.batches == [["0_a"], ["0_b", "1_c", "0_d"], ["1_c"]]


def test_nor_is_it_by_plain_code():
    store = SomeShards()
    batches = ThreadBatches(lambda jobs: asyncio.run(store.enqueue(jobs)))
    begun = [enqueue_batches.Call(job(name)) for name in ("0_b", "1_c", "0_d")]
    batches._waiting.extend(begun)
    assert batches.add(job("0_e")).created
    assert [each.answer and each.answer.id for each in begun] == ["0_b", None, "0_d"]
    assert str(begun[1].error) == "shard 1 is away"
    assert store.batches == [["0_b", "1_c", "0_d", "0_e"], ["1_c"]]


async def test_a_caller_that_is_cancelled_while_it_waits_has_sent_nothing(batches, store):
    begun = await calls(batches, job("a"), job("b"), job("c"))
    begun[1].cancel()
    store.may_answer.set()
    await asyncio.wait(begun, timeout=TIMEOUT)
    assert [each.cancelled() for each in begun] == [False, True, False]
    assert store.batches == [["a"], ["c"]]


async def test_a_caller_that_is_cancelled_under_way_does_not_hold_up_the_others(batches, store):
    begun = await calls(batches, job("a"), job("b"), job("c"))
    begun[0].cancel()
    await asyncio.wait(begun[:1], timeout=TIMEOUT)
    store.may_answer.set()
    assert [(await each).id for each in begun[1:]] == ["b", "c"]
    store.may_answer.clear()
    begun = await calls(batches, job("d"), job("e"), job("f"))
    store.may_answer.set()
    await begun[0]
    store.may_answer.clear()
    await asyncio.sleep(0)
    begun[1].cancel()  # its batch is under way
    store.may_answer.set()
    assert (await begun[2]).id == "f"


async def test_a_batch_has_no_more_bytes_than_it_may(batches, store, monkeypatch):
    monkeypatch.setattr(enqueue_batches, "BYTES_LIMIT", 100)
    begun = await calls(batches, *(job(name, 60) for name in "abcd"))
    store.may_answer.set()
    await asyncio.gather(*begun)
    assert store.batches == [["a"], ["b", "c"], ["d"]]


def test_callers_that_wait_when_their_loop_ends_are_cancelled_with_it(store):
    async def main() -> None:
        batches = LoopBatches(store.enqueue)
        await calls(batches, job("a"), job("b"))

    asyncio.run(main())
    assert store.batches == [["a"]]


class PlainStore:
    """As `Store`, for threads."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.asked, self.may_answer = threading.Event(), threading.Event()
        self.error: BaseException | None = None

    def enqueue(self, jobs):
        self.batches.append([each.id for each in jobs])
        self.asked.set()
        assert self.may_answer.wait(TIMEOUT)
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        if any(each.id == "bad" for each in jobs):
            raise InvalidError("bad is refused")
        return [Enqueued(each.id, created=True) for each in jobs]


def begun_in_threads(threads, batches, store, *names: str):
    """One call under way, and others that wait behind it."""
    first = threads.submit(batches.add, job(names[0]))
    assert store.asked.wait(TIMEOUT)
    others = []
    for number, name in enumerate(names[1:], 1):
        others.append(threads.submit(batches.add, job(name)))
        while len(batches._waiting) < number:
            pass
    return [first, *others]


def test_threads_that_wait_for_their_turn_share_a_batch():
    store = PlainStore()
    batches = ThreadBatches(store.enqueue)
    with ThreadPoolExecutor(4) as threads:
        begun = begun_in_threads(threads, batches, store, "a", "b", "bad", "c")
        store.may_answer.set()
        errors = [each.exception(TIMEOUT) for each in begun]
    assert [type(each) for each in errors] == [type(None), type(None), InvalidError, type(None)]
    assert store.batches == [["a"], ["b", "bad", "c"], ["b"], ["bad"], ["c"]]


def test_a_thread_that_is_interrupted_leaves_the_jobs_of_others_to_them():
    store = PlainStore()
    batches = ThreadBatches(store.enqueue)
    batches._waiting.append(enqueue_batches.Call(job("other")))
    store.error = KeyboardInterrupt()
    store.may_answer.set()
    with pytest.raises(KeyboardInterrupt):
        batches.add(job("mine"))
    assert [each.job.id for each in batches._waiting] == ["other"]
    assert batches.add(job("next")).created
    assert store.batches == [["other", "mine"], ["other", "next"]]


def test_a_forked_process_sends_only_its_own(monkeypatch):
    store = PlainStore()
    store.may_answer.set()
    batches = ThreadBatches(store.enqueue)
    batches._waiting.append(enqueue_batches.Call(job("parent's")))
    batches._turn.acquire()
    monkeypatch.setattr("os.getpid", lambda: -1)
    assert batches.add(job("child's")).created
    assert store.batches == [["child's"]]


async def test_a_hundred_coroutines_enqueue_one_job_each(store_url):
    app = Mulligan(store_url)

    @app.task
    def ask(number: int) -> int:
        return number

    async def enqueue(number: int):
        return await ask.using(unique_key=f"k{number // 2}").aenqueue(number)

    async with app.connected():
        handles = await asyncio.gather(*map(enqueue, range(100)))
        assert [handle.created for handle in handles] == [True, False] * 50
        assert handles[0].id == handles[1].id
        jobs = [await handle.ainfo() for handle in handles[::2]]
    assert [each.status for each in jobs] == ["pending"] * 50
    # without a connection of their own on this loop, too
    assert (await enqueue(0)).id == handles[0].id
    await asyncio.to_thread(app.close)


def test_threads_enqueue_one_job_each(store_url):
    app = Mulligan(store_url)

    @app.task
    def ask(number: int) -> int:
        return number

    with ThreadPoolExecutor(8) as threads:
        handles = list(threads.map(ask.enqueue, range(40)))
    assert len({handle.id for handle in handles}) == 40
    assert {handle.status for handle in handles} == {"pending"}
    app.close()
