"""Two apps that share a queue: each runs its own jobs, and leaves alone what the other knows."""

import asyncio
from collections.abc import Iterator

import pytest

from mulligan import Mulligan, Settings
from mulligan.core.decide import SNOOZE_LIMIT
from mulligan.core.job import Claim, encode
from mulligan.core.known_tasks import KNOWS, UNKNOWN, Registration, read_registrations, read_unknown
from mulligan.core.outcome import Drained, Snoozed
from mulligan.core.worker import Worker
from mulligan.engine.known_tasks import BRIEFLY, KEPT_SNOOZES, KnownTasks, signature_of
from mulligan.stores.memory import MemoryStore
from tests.engine.test_on_every_store import working
from tests.hostile.worker import bare

# Whoever waits for a job that was put off so long waits in vain.
NEVER = 3000.0
SETTINGS = Settings(lease=4.0, beat=0.2, concurrency=5, unknown_task_delay=NEVER)


@pytest.fixture
def apps(store_url: str) -> Iterator[tuple[Mulligan, Mulligan]]:
    """Two apps on one store."""
    one, other = Mulligan(store_url, settings=SETTINGS), Mulligan(store_url, settings=SETTINGS)
    other._memory = one._memory
    yield one, other
    one.close()
    other.close()


async def test_each_of_two_apps_on_one_queue_runs_its_own_jobs_without_delay(apps):
    one, other = apps

    @one.task
    async def mine(number: int) -> int:
        return number

    @other.task
    async def theirs(number: int) -> int:
        return -number

    async with bare(one) as store, working(one), working(other):
        while len(await store.notes(KNOWS)) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        jobs = []
        for number in range(1, 11):
            jobs += [await mine.aenqueue(number), await theirs.aenqueue(number)]
        results = [await job.aresult(timeout=60) for job in jobs]
        alone = await theirs.aenqueue(5)
        assert await alone.aresult(timeout=60) == -5
    assert results == [sign * number for number in range(1, 11) for sign in (1, -1)]


async def test_a_clash_of_names_is_said_when_a_worker_joins(apps, caplog):
    one, other = apps

    @one.task(name="send")
    async def letter(address: str) -> None: ...

    @other.task(name="send")
    async def parcel(weight: int) -> None: ...

    async with working(one) as first, working(other) as second:
        async with bare(one) as store:
            while len(await store.notes(KNOWS)) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        while not any("is send(" in each.getMessage() for each in caplog.records):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    [said] = {each.getMessage() for each in caplog.records if "is send(" in each.getMessage()}
    assert "send(address: str) -> None" in said
    assert "send(weight: int) -> None" in said
    assert first.worker.id in said
    assert second.worker.id in said
    assert "both serve queue default; give one of them another name or a queue of its own" in said


async def test_settings_that_two_apps_declare_differently_are_said_when_a_worker_joins(
    apps, caplog
):
    one, other = apps
    one.queue("mail", policy="retry-first")
    other.queue("mail", policy="fifo")
    one.limit("openai", concurrency=8)
    other.limit("openai", concurrency=9)

    async with working(one) as first, working(other) as second, bare(one) as store:
        while len(await store.notes(KNOWS)) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        while caplog.text.count("starts last sets it for both") < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    for words in ("policy of queue mail is ", "limit openai is "):
        [said] = {each.getMessage() for each in caplog.records if words in each.getMessage()}
        assert f"worker {first.worker.id}" in said
        assert f"worker {second.worker.id}" in said


async def test_a_task_that_nobody_knows_any_more_is_named_with_who_knew_it_last(apps):
    one, other = apps

    @one.task
    async def old() -> None: ...

    @other.task
    async def new() -> None: ...

    async with working(one) as before:
        await (await old.aenqueue()).aresult(timeout=60)
    job = await old.aenqueue()
    async with bare(one) as store, working(other):
        while not await store.notes(UNKNOWN):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        while (await job.ainfo()).status == "processing":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        said = await job.aexplain()
    assert said.startswith("Waiting because no live worker knows task 'old'; worker ")
    assert f"worker {before.worker.id} knew it last, " in said
    assert said.endswith(
        f"deploy a worker that does, or cancel the job (mulligan cancel {job.id})."
    )


def claimed(snoozes: int = 0, task: str = "theirs") -> Claim:
    return Claim(
        *("a", 1, "default", task, encode({"task": task}), "*", 0, "*", 0, 0.0),
        *(0, 0, snoozes, "w", "default", 0.0),
    )


async def knowing(store: MemoryStore, **tasks: str) -> KnownTasks:
    """A worker without tasks beside one that knows these."""
    other = Registration("other", (await store.facts()).now, ("default",), tasks)
    await store.note(other.note, encode(other), 60.0)
    return KnownTasks(store, Worker("w"), {}, monotonic=lambda: 0.0, longest=3.0)


async def test_what_another_knows_is_put_off_briefly_and_longer_when_it_comes_again():
    known = await knowing(MemoryStore(), theirs="()")
    delays = []
    for snoozes in range(30):
        left = await known.left_to_others(claimed(snoozes))
        assert isinstance(left, Snoozed)
        delays.append(left.delay)
    assert delays[:10] == [BRIEFLY] * 10
    assert delays[10:13] == [2 * BRIEFLY, 4 * BRIEFLY, 8 * BRIEFLY]
    assert delays[-1] == 3.0


async def test_what_another_knows_never_uses_up_its_snoozes():
    known = await knowing(MemoryStore(), theirs="()")
    assert await known.left_to_others(claimed(SNOOZE_LIMIT - KEPT_SNOOZES)) == Drained()


async def test_what_nobody_knows_is_noted_now_and_then():
    store = MemoryStore()
    known = await knowing(store, other="()")
    assert await known.left_to_others(claimed()) is None
    [met] = read_unknown(await store.notes(UNKNOWN))
    assert (met.task, met.queue, met.job) == ("theirs", "default", "a")
    await store.note(next(iter(await store.notes(UNKNOWN))), None, 0.0)
    assert await known.left_to_others(claimed()) is None
    assert await store.notes(UNKNOWN) == {}


async def test_a_worker_that_leaves_says_that_its_tasks_are_no_longer_known():
    store = MemoryStore()
    known = KnownTasks(store, Worker("w", name="ann"), {}, monotonic=lambda: 0.0, longest=3.0)
    await known.register()
    [mine] = read_registrations(await store.notes(KNOWS))
    await known.register(left=True)
    [left] = read_registrations(await store.notes(KNOWS))
    assert (mine.worker, mine.left, left.left) == ("ann", False, True)
    assert mine.is_live(mine.at)
    assert not left.is_live(left.at)


def test_a_function_without_a_signature_has_none_to_compare():
    assert signature_of(dict.fromkeys) == "(iterable, value=None, /)"
    assert signature_of(type) == "(…)"
