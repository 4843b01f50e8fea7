"""Signed jobs on every store: nothing unsigned runs, and whatever mulligan makes is signed."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest
from msgspec.structs import replace

from mulligan import (
    Delays,
    Failure,
    JobFailedError,
    Mulligan,
    Retry,
    Settings,
    astep,
    current_job,
    each,
)
from mulligan.app.app_store import KEYS_VARIABLE
from mulligan.app.worker import new_worker
from mulligan.core.decide import decide
from mulligan.core.errors import InvalidError
from mulligan.core.job import Lease, NewJob, encode
from mulligan.core.outcome import Dead, Done, Lost, Succeeded
from mulligan.core.page import Selection
from mulligan.core.record import Record, Recording
from mulligan.core.reschedule import Reschedule
from mulligan.core.signature import SIGNATURE, Keys
from mulligan.engine.ticker import Ticker
from mulligan.server.application import make_application
from mulligan.server.guard import Guard
from mulligan.server.service import Service
from mulligan.server.sessions import new_worker_id
from mulligan.stores.contract import Store
from mulligan.stores.signed import signed
from tests.cli.command_line import claim
from tests.contract.builders import REAPER, begin
from tests.hostile.worker import bare, working

if TYPE_CHECKING:
    from mulligan.stores.memory import MemoryStore

KEY, OTHER = "k" * 32, "x" * 32
QUICK = Settings(lease=4.0, beat=0.2, concurrency=5)


@pytest.fixture
async def app(store_url) -> AsyncIterator[Mulligan]:
    """An app with a key, and the functions that its workers must or must not call."""
    made = Mulligan(store_url, settings=QUICK, signing_keys=[KEY])
    yield made
    await asyncio.to_thread(made.close)


def forged(job: str, *args: object, **more: object) -> NewJob:
    body = {"task": "pay", "args": args, "kwargs": {}, "retry": Retry(9, Delays((0,)))} | more
    return NewJob(job, "default", "pay", encode(body))


async def test_signed_jobs_run_and_what_follows_from_them_is_signed(app):
    saved: list[object] = []
    told: list[str] = []

    @app.sink
    async def save(result: object, key: str) -> None:
        saved.append(result)

    @app.task
    async def tell(letter: dict[str, object]) -> None:
        told.append(str(letter["id"]))

    @app.task
    async def numbers(top: int) -> list[int]:
        return list(range(top))

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    @app.task(sink=save)
    async def total(found: list[int]) -> int:
        return sum(found)

    @app.task(retry=Retry(0), on_dead=tell)
    async def broken() -> None:
        raise ValueError("always")

    async with working(app), bare(app) as store:
        chain = await (numbers | each(double) | total).aenqueue(4)
        assert await chain.aresult(timeout=60) == 12
        with pytest.raises(JobFailedError):
            await (await broken.using(id="b").aenqueue()).aresult(timeout=60)
        while not (saved and told):  # noqa: ASYNC110 - the last stages have no handle
            await asyncio.sleep(0.01)
        jobs = (await store.page(Selection(), 100)).jobs
    assert saved == [12]
    assert told == ["b"]
    assert len(jobs) == 9
    assert all(Keys([KEY]).refusal(job.id, job.task, job.body) is None for job in jobs)


@pytest.mark.parametrize("how", ["unsigned", "by another", "changed", "of another job"])
async def test_a_job_that_is_not_signed_well_is_a_dead_letter_and_never_runs(app, how):
    ran: list[int] = []

    @app.task
    async def pay(amount: int) -> int:
        ran.append(amount)
        return amount

    @app.task
    async def tell(letter: dict[str, object]) -> None:
        raise AssertionError(letter)

    bad = forged("bad", 1_000_000, on_dead="tell", sink={"task": "tell"})
    match how:
        case "by another":
            bad = Keys([OTHER]).sign(bad)
        case "changed":
            good = Keys([KEY]).sign(forged("bad", 1))
            bad = replace(good, body=good.body.replace(b"[1]", b"[1000000]"))
        case "of another job":
            bad = replace(Keys([KEY]).sign(forged("good", 1)), id="bad")
    async with bare(app) as store, working(app):
        await store.enqueue([bad])
        with pytest.raises(JobFailedError, match="sign"):
            await app.job("bad").aresult(timeout=60)
        after = await pay.aenqueue(5)
        assert await after.aresult(timeout=60) == 5
        job = await app.job("bad").ainfo()
        [attempt] = await app.job("bad").ahistory()
        jobs = (await store.page(Selection(), 100)).jobs
    assert ran == [5]
    assert (job.result, job.retry_count) == (None, 0)
    assert (attempt.type, attempt.code) == ("BadSignature", "signature")
    assert "replay it" not in await app.job("bad").aexplain()
    assert {each.id for each in jobs} == {"bad", after.id}


async def test_a_forged_job_does_not_speak_through_the_reaper(app):
    """A dead worker's job is decided by whoever reclaims it, and what follows would be signed."""

    @app.task
    async def tell(letter: dict[str, object]) -> None:
        raise AssertionError(letter)

    async with bare(app) as store:
        await store.enqueue([forged("bad", 1, on_dead="tell", retry=Retry(0))])
        gone = new_worker(app)
        await hold(store, gone)
        await store.leave(gone)
        async with working(app):
            with pytest.raises(JobFailedError):
                await app.job("bad").aresult(timeout=60)
        jobs = (await store.page(Selection(), 100)).jobs
    assert [job.id for job in jobs] == ["bad"]


@pytest.mark.parametrize("sound", [True, False])
async def test_a_forged_job_does_not_speak_through_a_beat(store, clock, sound):
    """A reaper whose reply was lost learns from a beat what it reclaimed, and decides that."""
    keys, last = Keys([KEY]), forged("j", on_dead={"task": "tell"}, retry=Retry(0))
    seen = signed(store, keys)
    [first] = await begin(store, keys.sign(last) if sound else last)
    clock.advance(100)
    [unheard] = await store.reclaim(1, REAPER)
    clock.advance(REAPER.lease + 1)
    beat = await seen.beat(REAPER, [first.lease])
    assert (beat.lost, beat.facts) == ([first.lease], await store.facts())
    [reclaimed] = beat.reclaimed
    assert reclaimed.lease == unheard.lease
    outcome = decide(reclaimed, Lost(), beat.facts, 0.0)
    assert isinstance(outcome, Dead)
    assert [each.task for each in outcome.next] == (["tell"] if sound else [])
    assert await seen.commit([outcome]) == ["written"]
    stored = (await store.page(Selection(), 10)).jobs
    assert {job.task for job in stored} == ({"pay", "tell"} if sound else {"pay"})
    assert all(keys.refusal(job.id, job.task, job.body) is None for job in stored) is sound


async def hold(store: Store, worker) -> None:
    assert await claim(store, 1, "default", worker=worker.id)


@pytest.mark.parametrize("door", ["one", "plain", "many", "server"])
async def test_a_debounced_job_runs_with_the_last_call_whoever_took_it_over(app, door):
    ran: list[int] = []

    @app.task(retry=Retry(0))
    async def index(version: int) -> int:
        ran.append(version)
        return version

    calm = index.using(unique_key="report", debounce=0.5)

    async def send(version: int) -> Any:
        match door:
            case "one":
                return (await calm.aenqueue(version)).id
            case "plain":
                return (await asyncio.to_thread(calm.enqueue, version)).id
            case "many":
                calls = [calm.call(each) for each in range(version + 1)]
                return (await app.aenqueue_many(calls))[-1].id
        call = {"task": index.name, "args": [version], "unique_key": "report", "debounce": 0.5}
        service = Service(app.make_store(), app, Guard(None), declares=False)
        await service.store.open()
        try:
            async with asking(service) as client:
                return (await asked(client, "/api/jobs", **call))["id"]
        finally:
            await service.store.close()

    first = await send(1)
    assert await send(2) == first
    async with working(app), bare(app) as store:
        assert await app.job(first).aresult(timeout=60) == 2
        jobs = (await store.page(Selection(), 10)).jobs
    assert ran == [2]
    assert [job.id for job in jobs] == [first]


async def test_a_debounced_call_of_another_job_is_refused(store, clock):
    keys = Keys([KEY])
    seen = signed(store, keys)
    first, other = (
        replace(forged(name), unique_key=name, delay=5.0, debounce_max=60.0) for name in "ab"
    )
    await seen.enqueue([first, other, replace(first, id="c")])
    assert keys.refusal("a", "pay", (await store.get("a")).body) is None
    taken = (await store.get("a")).body
    assert keys.refusal("b", "pay", taken) is not None


async def test_a_replayed_job_is_still_signed(app):
    ran: list[int] = []

    @app.task(retry=Retry(0))
    async def pay() -> int:
        ran.append(1)
        if len(ran) == 1:
            raise ValueError("not yet")
        return len(ran)

    async with working(app):
        job = await pay.aenqueue()
        with pytest.raises(JobFailedError):
            await job.aresult(timeout=60)
        assert await app.areplay([job.id]) == [True]
        assert await job.aresult(timeout=60) == 2


async def test_a_missing_key_is_added_and_the_job_replayed(app):
    @app.task
    async def pay() -> int:
        return 1

    new = Mulligan(app.url, settings=QUICK, signing_keys=[OTHER, KEY])
    new._memory = app._memory
    new.tasks = app.tasks
    async with bare(app) as store:
        await store.enqueue([Keys([OTHER]).sign(forged("j"))])
        async with working(app):
            with pytest.raises(JobFailedError, match="signed with key"):
                await app.job("j").aresult(timeout=60)
        await app.areplay(["j"])
        async with working(new):
            assert await app.job("j").aresult(timeout=60) == 1


# -- what a later attempt or a gathering job is given ------------------------------------------


async def test_steps_checkpoints_and_results_pass_from_attempt_to_attempt_and_to_gathers(app):
    seen: list[object] = []

    @app.task(retry=Retry(1, Delays((0,))))
    async def pay(amount: int) -> int | None:
        job = current_job()
        seen.append((await astep("account", lambda: "DE-1"), await job.alast_checkpoint()))
        if job.attempt == 1:
            await job.acheckpoint({"row": 4})
            raise ValueError("again")
        return amount or None

    @app.task(retry=Retry(0))
    async def broken() -> int:
        raise ValueError("always")

    @app.task
    async def add(number: int) -> int:
        return number + 1

    @app.task
    async def total(found: list[int | Failure | None]) -> list[object]:
        return [each if isinstance(each, int | None) else "failed" for each in found]

    calls = [pay.call(5), pay.call(0), (pay | add).call(7), broken.call()]
    async with working(app), bare(app) as store:
        gather = await app.agather(calls, total, return_exceptions=True)
        assert await gather.aresult(timeout=60) == [5, None, 8, "failed"]
        paid = (await store.page(Selection(task="pay"), 9)).jobs
        [none] = [job for job in paid if b'"args":[0]' in job.body]
        assert await app.job(none.id).aresult(timeout=60) is None
    assert sorted(seen, key=repr) == [("DE-1", None)] * 3 + [("DE-1", {"row": 4})] * 3


FORGED = [
    Record("step", 99, b'"XX-attacker"', "account"),
    Record("checkpoint", 99, b'{"limit":1000000}'),
]


@pytest.mark.parametrize("kind", ["step", "checkpoint"])
@pytest.mark.parametrize("how", ["forged", "of another job"])
async def test_a_forged_record_reaches_no_attempt(app, how, kind):
    given: list[object] = []
    wait, go = asyncio.Event(), asyncio.Event()

    @app.task(retry=Retry(3, Delays((0,))))
    async def pay() -> None:
        job = current_job()
        if job.attempt == 1 and job.id == "victim":
            wait.set()
            await go.wait()
            raise ValueError("again")
        given.append((await astep("account", lambda: "DE-1"), await job.alast_checkpoint()))
        await job.acheckpoint(1)

    async with working(app), bare(app) as store:
        await (await pay.using(id="other").aenqueue()).aresult(timeout=60)
        records = {each.kind: each for each in await store.records("other")}
        forged = {each.kind: each for each in FORGED} if how == "forged" else records
        await pay.using(id="victim").aenqueue()
        await wait.wait()
        running = await store.get("victim")
        assert running is not None
        lease = Lease("victim", running.token)
        put = Recording(lease, (replace(forged[kind], number=99),))
        assert await store.record([put]) == ["recorded"]
        go.set()
        with pytest.raises(JobFailedError, match="of job victim is not what a process with a sign"):
            await app.job("victim").aresult(timeout=60)
        failure = (await app.job("victim").ahistory())[-1]
    assert failure.code == "signature"
    assert given == [("DE-1", None)]


async def test_a_forged_result_reaches_no_gathering_job(app):
    given: list[object] = []

    @app.task(queue="members")
    async def price(item: str) -> int:
        raise AssertionError(item)

    @app.task
    async def pay(prices: list[int]) -> None:
        given.append(prices)

    async with bare(app) as store:
        gather = await app.agather([price.call("a"), price.call("b")], pay)
        good, bad = await claim(store, 2, "members")
        facts = await store.facts()
        seen = signed(store, Keys([KEY]))
        await seen.commit([decide(good, Succeeded(b"3"), facts, 0.0)])
        await store.commit([Done(bad.lease, b"1000000")])
        async with working(app):
            with pytest.raises(JobFailedError, match=r"result 1 that job .* awaited is not what"):
                await gather.aresult(timeout=60)
    assert given == []


# -- where keys come from ----------------------------------------------------------------------


def test_ticks_are_signed():
    app = Mulligan("memory://", signing_keys=[KEY])

    @app.task(every=10)
    async def tick() -> None: ...

    async def one() -> bytes:
        store = app.make_store()
        await Ticker(store, app.declared_schedules, "w").look()
        [job] = (await store.page(Selection(), 10)).jobs
        assert job.task == tick.name
        return job.body

    assert SIGNATURE.search(asyncio.run(one()))


def test_a_schedule_that_was_forged_or_is_not_signed_does_not_tick(caplog):
    app, other = Mulligan("memory://", signing_keys=[KEY]), Mulligan("memory://")
    other._memory = bare = cast("MemoryStore", app._memory)

    @app.task
    async def pay(amount: int) -> None: ...

    @other.task(name="pay")
    async def same(amount: int) -> None: ...

    app.schedules.put("good", pay.call(1), every=60)
    app.schedules.put("forged", pay.call(1), every=60)
    other.schedules.put("unsigned", same.call(1), every=60)
    store = app.make_store()

    async def forge_and_tick() -> set[str]:
        stored = await store.schedules()
        forged = stored["forged"].replace(b'"args":[1]', b'"args":[9]')
        assert forged != stored["forged"]
        await bare.reschedule(Reschedule("forged", stored["forged"], forged))
        bare.state.clock = lambda: time.time() + 600
        for _ in range(3):
            await Ticker(store, [], "w").look()
        jobs = (await store.page(Selection(), 100)).jobs
        late = [job for job in jobs if job.due > time.time() + 300]
        assert all(Keys([KEY]).refusal(job.id, job.task, job.body) is None for job in late)
        return {job.id.partition("@")[0] for job in late}

    assert asyncio.run(forge_and_tick()) == {"good"}
    assert "schedule forged does not tick here: the job's signature does not fit" in caplog.text
    assert "schedule unsigned does not tick here: the job is not signed" in caplog.text


def test_who_has_no_keys_leaves_signed_schedules_to_others():
    app = Mulligan("memory://", signing_keys=[KEY])

    @app.task
    async def pay(amount: int) -> None: ...

    app.schedules.put("good", pay.call(1), every=60)
    bare = cast("MemoryStore", app._memory)

    async def ticked() -> int:
        bare.state.clock = lambda: time.time() + 600
        await Ticker(bare, [], "w").look()
        return len((await bare.page(Selection(), 100)).jobs)

    assert asyncio.run(ticked()) == 1


def test_an_app_under_test_is_signed_too():
    app = Mulligan("memory://", signing_keys=[KEY])

    @app.task
    def pay() -> int:
        return 1

    with app.testing() as t:
        good = pay.enqueue()
        t.run(t.store.enqueue([forged("bad")]))
        t.drain()
        assert good.status == "done"
        assert app.job("bad").status == "failed"
        assert all(SIGNATURE.search(job.body) for job in t.jobs() if job.id == good.id)


def test_keys_come_from_the_environment_unless_they_are_given(monkeypatch):
    monkeypatch.delenv(KEYS_VARIABLE, raising=False)
    assert Mulligan("memory://").keys is None
    monkeypatch.setitem(os.environ, KEYS_VARIABLE, f"{KEY},{OTHER}")
    assert repr(Mulligan("memory://").keys) == repr(Keys([KEY, OTHER]))
    assert repr(Mulligan("memory://", signing_keys=[OTHER]).keys) == repr(Keys([OTHER]))
    monkeypatch.setitem(os.environ, KEYS_VARIABLE, "short")
    with pytest.raises(InvalidError, match="signing key 1 has 5 bytes"):
        Mulligan("memory://")


@pytest.mark.parametrize("given", [(), [], b""], ids=repr)
def test_a_list_of_keys_without_a_key_is_refused(given):
    with pytest.raises(InvalidError, match="signing_keys"):
        Mulligan("memory://", signing_keys=given)


@pytest.mark.parametrize("written", ["", " , ", ",,"])
def test_a_variable_without_a_key_is_refused(monkeypatch, written):
    monkeypatch.setenv(KEYS_VARIABLE, written)
    with pytest.raises(InvalidError, match=f"{KEYS_VARIABLE} '{written}' has no key; unset it"):
        Mulligan("memory://")
    assert Mulligan("memory://", signing_keys=[KEY]).keys is not None


def test_without_keys_the_store_is_the_store_itself(monkeypatch):
    monkeypatch.delenv(KEYS_VARIABLE, raising=False)
    app = Mulligan("memory://")
    assert app.make_store() is app._memory


# -- over HTTP ---------------------------------------------------------------------------------


@asynccontextmanager
async def served(app: Mulligan) -> AsyncIterator[httpx.AsyncClient]:
    async with asking(Service(app.make_store(), app, Guard(None), declares=False)) as client:
        yield client


@asynccontextmanager
async def asking(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(make_application(service), client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def asked(client: httpx.AsyncClient, path: str, **body: object) -> dict[str, list[object]]:
    answer = await client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    document: dict[str, list[object]] = answer.json()
    return document


async def test_a_server_signs_what_is_enqueued_over_http():
    app = Mulligan("memory://", signing_keys=[KEY])
    async with served(app) as client:
        await asked(client, "/api/jobs", task="pay", id="j")
    assert app._memory is not None
    job = await app._memory.get("j")
    assert job is not None
    assert Keys([KEY]).refusal("j", "pay", job.body) is None


async def test_a_server_hands_no_forged_job_to_workers_over_http():
    app = Mulligan("memory://", signing_keys=[KEY])
    assert app._memory is not None
    await app._memory.enqueue([forged("bad", on_dead="tell"), Keys([KEY]).sign(forged("good"))])
    async with served(app) as client:
        worker = (await asked(client, "/worker/join"))["worker"]
        claimed = await asked(client, "/worker/claim", worker=worker, limit=5)
    assert [job["id"] for job in claimed["jobs"]] == ["good"]  # type: ignore[index]
    bad = await app._memory.get("bad")
    assert bad is not None
    assert bad.status == "failed"
    assert "not signed" in str(bad.last_failure_reason)


async def test_a_commit_that_another_server_claimed_for_is_checked_too():
    """This server reads the job from the store then, and what follows from it would be signed."""
    app = Mulligan("memory://", signing_keys=[KEY])
    assert app._memory is not None
    await app._memory.enqueue([forged("bad", sink={"task": "tell"}, on_dead="tell")])
    async with served(app) as client:
        worker = replace(new_worker(app), id=new_worker_id("http", b""))
        await hold(app._memory, worker)
        job = await app._memory.get("bad")
        assert job is not None
        lease = {"id": "bad", "token": job.token, "result": 1}
        await asked(client, "/worker/ack", worker=worker.id, jobs=[lease])
    jobs = (await app._memory.page(Selection(), 10)).jobs
    assert [job.id for job in jobs] == ["bad"]


async def test_workers_over_http_are_given_no_forged_record_and_no_forged_result():
    app = Mulligan("memory://", signing_keys=[KEY])
    store = app._memory
    assert store is not None
    keys, record = Keys([KEY]), Record("step", 1, b'"XX"', "account")
    flow = {"root": "total", "path": ["each(pay)", "pay"], "members": 1, "gathers": True}
    gathering = replace(forged("total", flow=flow), awaits=1)
    member = replace(forged("member"), queue="members", gather="total")
    async with served(app) as client:
        await store.enqueue(keys.sign_all([forged("j"), gathering, member]))
        [bad] = await claim(store, 1, "members")
        await store.commit([Done(bad.lease, b"1000000")])
        worker = (await asked(client, "/worker/join"))["worker"]
        claimed = await asked(client, "/worker/claim", worker=worker, limit=5)
        assert [job["id"] for job in claimed["jobs"]] == ["j"]  # type: ignore[index]
        [lease] = [{"id": j["id"], "token": j["token"]} for j in claimed["jobs"]]  # type: ignore[index]
        own = lease | {"number": 1, "steps": [{"name": "own", "result": "DE"}]}
        await asked(client, "/worker/record", worker=worker, jobs=[own])
        told = await asked(client, "/worker/records", worker=worker, **lease)
        assert told["steps"] == [{"name": "own", "result": "DE"}]
        await store.record([Recording(Lease("j", int(str(lease["token"]))), (record,))])
        answer = await client.post("/worker/records", json={"worker": worker, **lease})
    assert answer.status_code == 409
    assert "the result of step 'account' of job j is not what" in answer.json()["detail"]
    total = await store.get("total")
    assert total is not None
    assert "result 0 that job total awaited" in str(total.last_failure_reason)
