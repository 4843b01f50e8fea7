"""Chains, fan-out and sinks with whole workers, on every store and in real time."""

import asyncio
from contextlib import suppress

import pytest

from mulligan import (
    Delays,
    Failure,
    InvalidError,
    JobCancelledError,
    JobFailedError,
    JobHandle,
    Mulligan,
    Progress,
    Retry,
    Settings,
    UnknownJobError,
    current_job,
    each,
)
from mulligan.app.worker import new_worker, work
from tests.engine.real_engine import until
from tests.engine.test_on_every_store import LEASE, working

AT_ONCE = Retry(5, Delays((0,)))
ONCE = Retry(0)


@pytest.fixture
def app(store_url):
    made = Mulligan(store_url, settings=Settings(lease=LEASE, beat=0.2, concurrency=5))
    yield made
    made.close()


@pytest.fixture
def runs():
    """Which tasks ran, in order."""
    return []


@pytest.fixture
def healthy():
    """Set, once what fails has been repaired."""
    return asyncio.Event()


@pytest.fixture
def pipeline(app, runs, healthy):
    """Three stages in three queues; the second fails until it is healthy."""

    @app.task(queue="ai")
    async def classify(text: str) -> dict[str, str]:
        runs.append("classify")
        return {"text": text}

    @app.task(queue="uploads", retry=Retry(2, Delays((0,))))
    async def upload(item: dict[str, str]) -> list[str]:
        runs.append("upload")
        if not healthy.is_set():
            raise ConnectionError("away")
        return [item["text"], "uploaded"]

    @app.task(queue="reports")
    async def report(parts: list[str]) -> str:
        runs.append("report")
        return " ".join(parts)

    return classify | upload | report


async def test_a_chain_goes_through_its_queues_and_gives_the_last_result(pipeline, runs, healthy):
    healthy.set()
    async with working(pipeline.app), working(pipeline.app):
        chain = await pipeline.aenqueue("abc")
        assert await chain.aresult(timeout=60) == "abc uploaded"
        stages = await chain.astages()
        assert [job.queue for stage in stages for job in stage.jobs] == ["ai", "uploads", "reports"]
    assert runs == ["classify", "upload", "report"]


async def test_a_failing_stage_retries_alone_and_a_replayed_one_goes_on_from_there(
    pipeline, runs, healthy
):
    async with working(pipeline.app):
        chain = await pipeline.aenqueue("abc")
        with pytest.raises(JobFailedError, match="away"):
            await chain.aresult(timeout=60)
        assert runs == ["classify", *["upload"] * 3]
        healthy.set()
        assert await pipeline.app.areplay([f"{chain.id}.2"]) == [True]
        assert await chain.aresult(timeout=60) == "abc uploaded"
    assert runs == ["classify", *["upload"] * 4, "report"]


async def test_a_chain_with_a_key_runs_once_however_often_it_is_sent_until_it_has_ended(
    app, runs, healthy
):
    running = asyncio.Event()

    @app.task(queue="ai")
    async def first(n: int) -> int:
        runs.append("first")
        return n

    @app.task(queue="uploads")
    async def second(n: int) -> int:
        running.set()
        await healthy.wait()
        return n + 1

    keyed = (first | second).using(unique_key="k")
    async with working(app):
        chain = await keyed.aenqueue(1)
        while not running.is_set():
            again = await keyed.aenqueue(1)
            assert (again.id, again.created) == (chain.id, False)
            await asyncio.sleep(0)
        again = await keyed.aenqueue(1)
        assert (again.id, again.created) == (chain.id, False)
        assert runs == ["first"]
        healthy.set()
        assert await again.aresult(timeout=60) == 2
        assert (await keyed.aenqueue(1)).created


@pytest.fixture
def spreading(app, healthy):
    """Words, each measured by a job of its own; `bad` fails until it is healthy."""

    @app.task(queue="split")
    async def split(text: str) -> list[str]:
        return text.split()

    @app.task(queue="measure", retry=ONCE)
    async def measure(word: str) -> int | None:
        if word == "bad" and not healthy.is_set():
            raise ConnectionError("away")
        return None if word == "none" else len(word)

    @app.task(queue="listed")
    async def listed(lengths: list[int | None]) -> list[int | None]:
        return lengths

    return split | each(measure) | listed


async def test_a_fan_out_is_gathered_in_order(spreading):
    async with working(spreading.app), working(spreading.app):
        chain = await spreading.aenqueue("a bb none ccc")
        assert await chain.aresult(timeout=60) == [1, 2, None, 3]
        nothing = await spreading.aenqueue("")
        assert await nothing.aresult(timeout=60) == []


async def test_a_failed_member_leaves_the_rest_waiting_and_a_replay_completes_it(
    spreading, healthy
):
    app = spreading.app
    async with working(app):
        chain = await spreading.aenqueue("a bad ccc")
        with pytest.raises(JobFailedError):
            await measured(app, chain.id, 1)
        assert [await measured(app, chain.id, place) for place in (0, 2)] == [1, 3]
        assert "Waiting for 1 of 3 jobs" in await chain.aexplain()
        healthy.set()
        assert await app.areplay([f"{chain.id}.2.1"]) == [True]
        assert await chain.aresult(timeout=60) == [1, 3, 3]


async def measured(app: Mulligan, chain: str, place: int) -> object:
    """The result of one member."""
    return await (await stored(app, f"{chain}.2.{place}")).aresult(timeout=60)


async def stored(app: Mulligan, job: str) -> JobHandle[object]:
    """The job, when it is there: a store may deliver it a moment after the one before."""

    async def is_there() -> bool:
        with suppress(UnknownJobError):
            return bool(await app.job(job).ainfo())
        return False

    await until(is_there)
    return app.job(job)


async def test_a_cancelled_member_cancels_what_would_gather_it(spreading):
    app = spreading.app
    await app.apause("measure")
    async with working(app):
        chain = await spreading.aenqueue("a bb")
        assert await (await stored(app, f"{chain.id}.2.0")).acancel("not needed")
        with pytest.raises(JobCancelledError, match="which it awaits, was cancelled"):
            await chain.aresult(timeout=60)


async def test_cancelling_a_chain_ends_all_of_it(spreading):
    app = spreading.app
    await app.apause("measure")
    async with working(app):
        chain = await spreading.aenqueue("a bb")
        await stored(app, f"{chain.id}.2.0")
        await stored(app, f"{chain.id}.2.1")
        assert await chain.acancel("not needed")
        stages = await chain.astages()
        assert [job.status for stage in stages for job in stage.jobs] == [
            "done",
            *["cancelled"] * 3,
        ]
        assert not await chain.acancel()


async def test_calls_of_any_tasks_are_gathered(app):
    @app.task
    async def double(n: int) -> int:
        return 2 * n

    @app.task
    async def text(word: str) -> str:
        return word

    @app.task(queue="gathered")
    async def listed(values: list[int | str]) -> list[int | str]:
        return values

    async with working(app):
        job = await app.agather([double.call(2), text.call("x")], listed, id="g")
        assert await job.aresult(timeout=60) == [4, "x"]
        again = await app.agather([double.call(2), text.call("x")], listed, id="g")
        assert (again.created, await again.aresult(timeout=60)) == (False, [4, "x"])


@pytest.mark.parametrize("with_failures", [False, True])
async def test_a_cancelled_gather_tells_how_its_members_end(app, with_failures):
    @app.task
    async def double(n: int) -> int:
        return 2 * n

    @app.task(queue="held")
    async def held(n: int) -> int:
        return n

    @app.task
    async def listed(values: list[int | Failure]) -> int:
        return len(values)

    calls = [double.call(n) for n in range(3)]
    calls += [held.call(n) for n in range(7)]
    await app.apause("held")
    whole = await app.agather(calls, listed, return_exceptions=with_failures)
    async with working(app):
        for n in range(3):
            await app.job(f"{whole.id}.1.{n}").aresult(timeout=60)
        assert await app.job(f"{whole.id}.2").acancel("enough")
        assert await whole.aprogress() == Progress(10, 3, 0, 0)
        await app.job(f"{whole.id}.1.9").acancel("enough too")
        assert await whole.aprogress() == Progress(10, 3, 0, cancelled=1)
        await app.aresume("held")
        await app.job(f"{whole.id}.1.8").aresult(timeout=60)
        for n in range(3, 8):
            await app.job(f"{whole.id}.1.{n}").aresult(timeout=60)
        assert await whole.aprogress() == Progress(10, 9, 0, cancelled=1)


async def test_a_gather_that_is_cancelled_as_one_has_no_open_members(app):
    @app.task
    async def double(n: int) -> int:
        return 2 * n

    @app.task
    async def listed(values: list[int]) -> int:
        return len(values)

    calls = [double.call(n) for n in range(3)]
    calls += [double.using(delay=600).call(n) for n in range(7)]
    whole = await app.agather(calls, listed)
    async with working(app):
        for n in range(3):
            await app.job(f"{whole.id}.1.{n}").aresult(timeout=60)
    assert await whole.acancel("enough")
    progress = await whole.aprogress()
    assert progress == Progress(10, 3, 0, cancelled=7)
    assert progress.open == 0


async def test_a_sink_has_one_key_over_all_its_retries_and_sees_no_refused_result(app):
    seen = []

    @app.sink(queue="sinks", retry=AT_ONCE)
    async def save(result: str, key: str) -> None:
        seen.append((key, result))
        if current_job().attempt < 3:
            raise ConnectionError("away")

    @app.task(queue="ai", retry=AT_ONCE, accept=lambda answer: answer != "Error", sink=save)
    async def classify(text: str) -> str:
        return text if current_job().attempt == 3 else "Error"

    async with working(app):
        job = await classify.aenqueue("news")
        assert await job.aresult(timeout=60) == "news"
        await (await stored(app, f"{job.id}.sink.0")).aresult(timeout=60)
    assert seen == [(f"{job.id}.0", "news")] * 3


async def test_only_stores_with_transactions_take_a_transactional_sink(app, store_url):
    @app.sink(transactional=True)
    async def write(connection: object, result: int, key: str) -> None: ...

    match store_url.partition(":")[0]:
        case "memory" | "redis" | "mongodb":
            words = "sink write is transactional, and .* has no transactions"
        case "sqlite":
            words = "sink write must be a plain function"
        case _:
            async with working(app):
                return
    with pytest.raises(InvalidError, match=words):
        await work(app, new_worker(app))


async def test_chains_and_gathers_are_members_of_a_gather(app, healthy):
    @app.task
    async def double(n: int) -> int:
        return 2 * n

    @app.task(retry=ONCE)
    async def fragile(n: int) -> int:
        if n == 6 and not healthy.is_set():
            raise ConnectionError("away")
        return n + 1

    @app.task
    async def upto(n: int) -> list[int]:
        return list(range(n))

    @app.task
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    inner = app.gather_call([double.call(1), (double | fragile).call(3)], total | double)
    spreads = upto | each(double) | total
    async with working(app), working(app):
        whole = await app.agather(
            [(double | double).call(1), spreads.call(4), inner], total, id="g"
        )
        await until(whole.afailures)
        [failure] = await whole.afailures()
        assert failure.reason == "away"
        healthy.set()
        assert await whole.areplay() == 1
        assert await whole.aresult(timeout=60) == 4 + 12 + 2 * (2 + 7)
        assert (await whole.aprogress()).done == 3
