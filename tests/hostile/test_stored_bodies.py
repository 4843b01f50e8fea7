"""Bodies that were damaged in the store: the job is set aside with the reason, and work goes on."""

import asyncio

import pytest

from mulligan import Delays, Mulligan, Retry
from mulligan.core.job import encode
from tests.cli.command_line import claim, gone, good
from tests.hostile.vandal import write_body
from tests.hostile.worker import QUICK, bare, ended, working

SOON = Retry(1, Delays((0,)))
DEEP = b"[" * 10_000 + b"]" * 10_000


def body(**fields: object) -> bytes:
    return encode({"task": "victim", "args": [1], "kwargs": {}, "retry": SOON} | fields)


UNREADABLE = {
    "empty": b"",
    "text": b"nonsense",
    "bytes": b"\x00\xff\xfe",
    "null": b"null",
    "number": b"7",
    "list": b"[1,2]",
    "string": b'"victim"',
    "cut in half": body()[:20],
    "cut at the end": body()[:-1],
    "twice": body() + body(),
    "args is a number": body(args=5),
    "kwargs is a list": body(kwargs=[]),
    "timeout is text": body(timeout="soon"),
    "flow is a number": body(flow=7),
    "args is too deep": body().replace(b"[1]", DEEP),
    "something else is too deep": body()[:-1] + b',"x":' + DEEP + b"}",
    "no UTF-8": body(args=["@"]).replace(b"@", b"\xff\xfe"),
    "number out of range": body().replace(b"[1]", b"[1e999]"),
    "policy is text": body(retry="soon", args=5),
    "policy is of no known kind": body(retry={"backoff": {"type": "lunar"}}, args=5),
    "policy is negative": body(retry={"max_retries": -1}, args=5),
    "on_dead is a number": body(on_dead=5, args=5),
    "on_dead is no UTF-8": body(on_dead="@", args=5).replace(b"@", b"\xff"),
}
# The arguments can be read, and so the task runs; what should come after it cannot.
UNREADABLE_AFTER = {
    "sink is a number": body(sink=7),
    "sink has no task": body(sink={"queue": "default"}),
    "stages are a number": body(flow={"root": "r", "path": ["victim"], "then": 7}),
    "flow has no root": body(flow={"path": []}),
}


async def test_jobs_whose_bodies_cannot_be_read_are_dead_letters_and_work_goes_on(app: Mulligan):
    ran: list[int] = []

    @app.task(retry=SOON)
    async def victim(number: int) -> None:
        ran.append(number)

    for damage, written in UNREADABLE.items():
        await victim.using(id=damage).aenqueue(1)
        write_body(app, damage, written)
    after = await victim.aenqueue(2)
    async with bare(app) as store, working(app):
        jobs = [await ended(store, damage) for damage in UNREADABLE]
        assert (await ended(store, after.id)).status == "done"
    assert [job.id for job in jobs if job.status != "failed"] == []
    assert [job.id for job in jobs if not job.last_failure_reason] == []
    assert ran == [2]


@pytest.mark.parametrize("keys", [None, ["k" * 32]], ids=["unsigned", "signed"])
async def test_work_goes_on_beside_bodies_with_a_flipped_bit_and_of_signed_ones_none_runs(
    store_url, keys
):
    """Of an unsigned body only what makes it no JSON is noticed, or what its task makes of it."""
    app = Mulligan(store_url, settings=QUICK, signing_keys=keys)
    ran: list[int] = []

    @app.task(retry=SOON)
    async def victim(number: int) -> None:
        ran.append(number)

    await victim.using(id="whole").aenqueue(1)
    async with bare(app) as store:
        stored = await store.get("whole")
        assert stored is not None
        places = range(0, len(stored.body), len(stored.body) // 20)
        for place in places:
            flipped = bytearray(stored.body)
            flipped[place] ^= 0x80
            await victim.using(id=f"byte {place}").aenqueue(1)
            write_body(app, f"byte {place}", bytes(flipped))
        await victim.using(id="after").aenqueue(2)
        async with working(app):
            jobs = [await ended(store, f"byte {place}") for place in places]
            assert (await ended(store, "after")).status == "done"
    dead = [job for job in jobs if job.status == "failed"]
    assert all(job.last_failure_reason for job in dead)
    assert len(ran) == 2 + len(jobs) - len(dead)
    assert dead[0].id == "byte 0"
    if keys:
        assert dead == jobs
    await asyncio.to_thread(app.close)


async def test_jobs_whose_followers_cannot_be_read_are_dead_letters_and_work_goes_on(
    app: Mulligan,
):
    @app.task(retry=SOON)
    async def victim(number: int) -> None: ...

    for damage, written in UNREADABLE_AFTER.items():
        await victim.using(id=damage).aenqueue(1)
        write_body(app, damage, written)
    after = await victim.aenqueue(2)
    async with bare(app) as store, working(app):
        jobs = [await ended(store, damage) for damage in UNREADABLE_AFTER]
        assert (await ended(store, after.id)).status == "done"
    assert {job.status for job in jobs} == {"failed"}
    for job in jobs:
        assert "what comes after the job cannot be read" in str(job.last_failure_reason)


async def test_lost_attempts_of_such_jobs_end_them_too(app: Mulligan):
    """The reaper decides by the body as well, and must not die of it."""

    @app.task(retry=SOON)
    async def victim(number: int) -> None: ...

    damages = ("text", "bytes", "args is too deep", "on_dead is no UTF-8")
    for damage in damages:
        await victim.using(id=damage).aenqueue(1)
        write_body(app, damage, UNREADABLE[damage])
    async with bare(app) as store:
        assert len(await claim(store, len(damages), "default", worker="gone")) == len(damages)
        await gone(store, "gone")
        async with working(app):
            jobs = [await ended(store, damage) for damage in damages]
    assert {job.status for job in jobs} == {"failed"}
    for job in jobs:
        assert "cannot be read" in str(job.last_failure_reason)


@pytest.mark.parametrize("damage", UNREADABLE)
def test_the_command_line_shows_such_a_job(tmp_path, damage):
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = Mulligan(url)

    @app.task(retry=SOON)
    def victim(number: int) -> None: ...

    victim.using(id="damaged").enqueue(1)
    write_body(app, "damaged", UNREADABLE[damage])
    for command in (
        ["job", "damaged"],
        ["job", "damaged", "--json"],
        ["jobs"],
        ["jobs", "--json"],
        ["explain", "damaged"],
        ["status"],
        ["history"],
    ):
        good(*command, "--store", url)
    app.close()
