"""A job of another program is the same as the app's, whatever door it came through."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mulligan import Delays, Mulligan, Retry, Settings
from mulligan.app.worker import new_worker, work
from mulligan.core.decide import policy_of
from mulligan.core.job import Job
from mulligan.core.retry import PRESETS
from tests.doors.producers import DOORS, python
from tests.engine.real_engine import until
from tests.store_kit import fresh_url

ENDED = ("done", "failed", "cancelled")


@pytest.fixture(params=DOORS)
async def door(request, tmp_path):
    """An app on a store, and one way into it that does not know the app."""
    name, enqueue = DOORS[request.param]
    async with fresh_url(name, tmp_path) as url:
        app = Mulligan(url, settings=Settings(lease=4.0, beat=0.2, concurrency=5))
        yield app, enqueue
        app.close()


@asynccontextmanager
async def working(app: Mulligan) -> AsyncIterator[None]:
    """A worker of the app; drained at the end."""
    ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    running = asyncio.ensure_future(work(app, new_worker(app), ready.set_result))
    engine = await ready
    try:
        yield
    finally:
        engine.stop()
        await running


async def stored(app: Mulligan, job: str) -> Job | None:
    """The job as it is stored, if it is."""
    return await app.access.acall(lambda store: store.get(job))


async def end_of(app: Mulligan, job: str) -> dict[str, Any]:
    """What became of the job, once it has ended, without what differs from run to run."""

    async def over() -> bool:
        found = await stored(app, job)
        return found is not None and found.status in ENDED

    await until(over)
    handle = app.job(job)
    info = await handle.ainfo()
    tried = [(each.number, each.type, each.delay) for each in await handle.ahistory()]
    return {
        "status": info.status,
        "retries": info.retry_count,
        "value": info.value(),
        "tried": tried,
    }


def declare(app: Mulligan) -> dict[str, list[Any]]:
    """Tasks that declare all that a task can, and what their sink and on_dead were told."""
    told: dict[str, list[Any]] = {"sink": [], "dead": []}

    @app.sink
    async def keep(result: Any, key: str) -> None:
        told["sink"].append((result, key.partition(".")[0]))

    @app.task
    async def mourn(letter: dict[str, Any]) -> None:
        told["dead"].append((letter["id"], letter["attempts"], letter["type"]))

    @app.task(
        retry=Retry(2, Delays((0.01,))),
        timeout=0.05,
        accept=lambda value: value != "Error",
        sink=keep,
        on_dead=mourn,
    )
    async def ask(way: str) -> str:
        if way == "slow":
            await asyncio.get_running_loop().create_future()
        return way

    return told


async def test_what_a_task_declares_holds_for_a_job_of_any_door(door):
    app, enqueue = door
    told = declare(app)
    ends: dict[str, list[Any]] = {}
    # The worker is there first where a store lays out its tables with it.
    async with working(app):
        for number, way in enumerate(("good", "Error", "slow")):
            for name, push in (("python", python), ("foreign", enqueue)):
                job = f"{name}-{number}"
                await push(app, {"task": "ask", "args": [way], "id": job})
                ends.setdefault(name, []).append(await end_of(app, job))

        async def all_told() -> bool:
            return len(told["sink"]) == 2 and len(told["dead"]) == 4

        await until(all_told)
    assert ends["foreign"] == ends["python"]
    assert [end["status"] for end in ends["foreign"]] == ["done", "failed", "failed"]
    assert sorted(told["sink"]) == [("good", "foreign-0"), ("good", "python-0")]
    assert sorted(told["dead"]) == [
        (f"{name}-{number}", 3, why)
        for name in ("foreign", "python")
        for number, why in ((1, "Refused"), (2, "Timeout"))
    ]


async def test_the_limits_of_a_task_hold_for_a_job_of_any_door(door):
    app, enqueue = door
    inside: list[str] = []
    most: list[int] = []

    app.limit("till", concurrency=2)

    @app.task(limits="till", fairness_key="shop")
    async def pay(name: str) -> None:
        inside.append(name)
        most.append(len(inside))
        await asyncio.sleep(0.01)
        inside.remove(name)

    jobs = [f"job-{number}" for number in range(6)]
    async with working(app):
        for job in jobs:
            await enqueue(app, {"task": "pay", "args": [job], "id": job})
        ends = [await end_of(app, job) for job in jobs]
    assert {end["status"] for end in ends} == {"done"}
    assert max(most) <= 2
    stores = [await stored(app, job) for job in jobs]
    limits = {(job.limits, job.fairness_key) for job in stores if job is not None}
    assert limits == {('{"till":1}', "shop")}


async def test_what_a_producer_says_itself_goes_before_the_task(door):
    app, enqueue = door
    told = declare(app)
    async with working(app):
        retry = {"max_retries": 1, "backoff": {"type": "delays", "seconds": [0]}}
        await enqueue(app, {"task": "ask", "args": ["Error"], "id": "own", "retry": retry})
        end = await end_of(app, "own")

        async def is_told() -> bool:
            return bool(told["dead"])

        await until(is_told)
    assert (end["status"], end["retries"]) == ("failed", 1)
    assert told["dead"] == [("own", 2, "Refused")]


async def test_a_policy_of_any_door_may_name_classes(door):
    app, enqueue = door
    backoff = {"type": "delays", "seconds": [0]}
    ways: dict[str, dict[str, Any]] = {
        "retried": {"on": ["OSError", "httpx.HTTPError"]},
        "other": {"on": "TimeoutError"},
        "never": {"on": ["OSError"], "never": ["ConnectionError"]},
    }

    @app.task
    async def reset() -> None:
        raise ConnectionResetError

    async with working(app):
        for name, classes in ways.items():
            retry = {"max_retries": 1, "backoff": backoff, **classes}
            await enqueue(app, {"task": "reset", "args": [], "id": name, "retry": retry})
        ends = [await end_of(app, name) for name in ways]
    assert [(end["status"], end["retries"]) for end in ends] == [
        ("failed", 1),
        ("failed", 0),
        ("failed", 0),
    ]


async def test_a_preset_may_be_named_at_any_door(door):
    app, enqueue = door
    async with working(app):
        for name in PRESETS:
            said = {"task": "later", "args": [], "id": f"job-{name}", "retry": name}
            await enqueue(app, said)

        async def policies() -> list[Any]:
            jobs = [await stored(app, f"job-{name}") for name in PRESETS]
            found = [None if job is None else policy_of(job.body) for job in jobs]
            return [None if policy is None else policy.retry for policy in found]

        async def are_there() -> bool:
            return None not in await policies()

        await until(are_there)
        assert await policies() == list(PRESETS.values())


async def test_a_priority_is_a_word_or_a_number_at_any_door(door):
    app, enqueue = door
    numbers = enqueue.__name__.startswith("postgres")  # whose column holds no words
    said = {0: 0, 1: 1, 2: 2} | ({} if numbers else {"normal": 0, "retry": 1, "urgent": 2})
    async with working(app):
        for word in said:
            await enqueue(app, {"task": "later", "args": [], "id": f"job-{word}", "priority": word})

        async def priorities() -> list[Any]:
            jobs = [await stored(app, f"job-{word}") for word in said]
            return [None if job is None else (job.priority, job.lane_priority) for job in jobs]

        async def are_there() -> bool:
            return None not in await priorities()

        await until(are_there)
        assert await priorities() == [(number, number) for number in said.values()]
