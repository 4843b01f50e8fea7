"""An app over several shards, as its user sees it."""

import asyncio
from typing import Any

import pytest

from mulligan import Mulligan
from mulligan.app.limits import DeclaredLimits
from mulligan.app.overview import measure, overview
from mulligan.app.worker import new_worker, work
from mulligan.cli.status import shards_table
from mulligan.core.errors import InvalidError, ShardAwayError
from mulligan.core.shards import HOME, Layout, home_of_id
from mulligan.stores.shards import memory_of


@pytest.fixture(params=["memory://?shards=4", "sqlite:///{}/jobs.db?shards=4"])
def app(request, tmp_path):
    """An app with four shards."""
    made = Mulligan(request.param.format(tmp_path))
    made.limit("api", concurrency=2)

    @made.task
    async def double(number: int) -> int:
        return 2 * number

    @made.task(limits="api")
    async def ask(number: int) -> int:
        return number

    @made.task
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    yield made
    made.close()


async def run_until(app, *handles):
    """Have a worker run until these have results, which are returned."""
    engines: list[Any] = []
    worker = asyncio.ensure_future(work(app, new_worker(app), engines.append))
    try:
        return [await each.aresult(timeout=30) for each in handles]
    finally:
        engines[0].stop()
        await worker


async def test_jobs_chains_gathers_limits_and_keys_end_as_in_one_store(app):
    double, ask, total = app.tasks.values()
    plain = [await double.aenqueue(number) for number in range(8)]
    assert "".join(job.id[0] for job in plain) in "0123" * 3
    limited = [await ask.aenqueue(number) for number in range(4)]
    assert {job.id[0] for job in limited} == {"0"}
    keyed = [await double.using(unique_key="k").aenqueue(3) for _ in range(3)]
    assert len({job.id for job in keyed}) == 1
    chain = await app.chain(double, double, ask).aenqueue(3)
    gather = await app.agather([double.call(number) for number in range(5)], total)
    asked = await app.agather([ask.call(number) for number in range(5)], total)
    mine = await double.using(id="order.7").aenqueue(21)
    results = await run_until(app, *plain, *limited, keyed[0], chain, gather, asked, mine)
    assert results == [*range(0, 16, 2), *range(4), 6, 12, 20, 10, 42]


async def test_explain_status_metrics_and_doctor_show_shards(app):
    double = next(iter(app.tasks.values()))
    jobs = [await double.aenqueue(number) for number in range(4)]
    for job in jobs:
        assert (await job.aexplain()).startswith(f"Shard {job.id[0]} of 4 (")
    whole = await app.access.acall(overview)
    assert [each["waiting"] for each in whole["shards"]] == [1, 1, 1, 1]
    assert len(shards_table(whole)) == 1
    found = {metric.name: metric for metric in await app.access.acall(measure)}
    assert [sample.value for sample in found["mulligan_shard_up"].samples] == [1.0] * 4
    findings = await app.access.acall(lambda store: store.doctor())
    assert findings[0].sentence == "4 shards, all of which answer"


@pytest.fixture
def homed(app):
    """The app with a family of limits in shard 2, and two tasks that name one of it."""
    app.limit("tenant:*", concurrency=1, home=2)

    @app.task(limits=lambda tenant: f"tenant:{tenant}")
    async def serve(tenant: str) -> str:
        return tenant

    @app.task(limits="tenant:big")
    async def after(number: int) -> int:
        return number + 1

    return app


async def test_jobs_chains_and_gathers_with_limits_of_a_home_live_and_end_there(homed):
    double, _ask, total, serve, after = homed.tasks.values()
    single = [await serve.aenqueue(f"t{number}") for number in range(3)]
    keyed = [await serve.using(unique_key="k").aenqueue("a") for _ in range(2)]
    chain = await homed.chain(after, double).aenqueue(1)
    later = await homed.chain(double, after).aenqueue(3)
    gather = await homed.agather([after.call(1), double.call(2)], total)
    assert keyed[0].id == keyed[1].id
    assert {job.id[0] for job in [*single, keyed[0], gather]} == {"2"}
    assert (await single[0].aexplain()).startswith("Shard 2 of 4 (")
    assert (await later.aexplain()).startswith("Shard 2 of 4 (")
    results = await run_until(homed, *single, keyed[0], chain, later, gather)
    assert results == ["t0", "t1", "t2", "a", 4, 7, 6]
    views = {view.name: view for view in await homed.limits.alist()}
    assert {"api", "tenant:*"} <= set(views)
    assert str(views["tenant:*"].in_force) == "1 at a time, in shard 2"


async def test_limits_of_two_homes_are_refused_for_one_job_and_in_one_chain_or_gather(homed):
    double, ask, total, _serve, after = homed.tasks.values()
    with pytest.raises(InvalidError, match="must live together; give both the same home="):
        await double.using(limits=["api", "tenant:a"]).aenqueue(1)
    with pytest.raises(InvalidError, match="must live together"):
        await homed.chain(ask, after).aenqueue(1)
    with pytest.raises(InvalidError, match="must live together"):
        await homed.agather([ask.call(1), after.call(1)], total)
    assert not (await homed.access.acall(lambda store: store.stats())).lanes


async def test_a_limit_of_a_home_is_set_paused_and_reset_while_jobs_wait(homed):
    serve = list(homed.tasks.values())[3]
    await serve.aenqueue("t0")
    limits = homed.limits
    assert str((await limits.aset("tenant:*", concurrency=3)).in_force).startswith("3 at a time")
    assert (await limits.apause("tenant:t0", 60)).paused_until is not None
    assert (await limits.aresume("tenant:t0")).paused_until is None
    assert str((await limits.areset("tenant:*")).in_force) == "1 at a time, in shard 2"


def test_a_schedule_with_limits_of_another_home_is_refused_before_any_job_has_named_them(homed):
    serve = list(homed.tasks.values())[3]
    with pytest.raises(InvalidError, match="its call names limits of shard 2"):
        homed.schedules.put("nightly", serve.call("t0"), every=60)
    assert homed.schedules.list() == []


def test_an_app_of_one_store_takes_a_home_and_refuses_two_for_one_job():
    app: Any = Mulligan("memory://")
    app.limit("a", concurrency=1, home=3)
    app.limit("b", concurrency=1)
    ask = app.task(lambda: 1, name="ask")
    with pytest.raises(InvalidError, match="'a' lives in shard 3 and limit 'b' in shard 0"):
        ask.using(limits=["a", "b"]).enqueue()
    assert ask.using(limits="a").enqueue().created
    with pytest.raises(InvalidError, match="a family and what it covers live together"):
        app.limit("*", concurrency=1)


def test_an_id_beside_a_unique_key_is_refused(app):
    double = next(iter(app.tasks.values()))
    with pytest.raises(InvalidError, match="leave id= away"):
        double.using(id="mine", unique_key="k").enqueue(1)


def test_a_gather_with_an_id_and_limits_of_another_home_is_refused(app):
    _, ask, total = app.tasks.values()
    layout = Layout(4, 4)
    name = next(name for name in "abcdefgh" if home_of_id(name, layout) != HOME)
    with pytest.raises(InvalidError, match="leave id= of the gather away"):
        app.gather([ask.call(1)], total, id=name)
    assert app.run(lambda: app.access.acall(lambda store: store.stats())).gathering == {}


def test_new_jobs_go_to_shards_that_are_not_known_to_be_away():
    url = "redis://nobody?shards=4"
    memory = memory_of(url)
    app: Any = Mulligan(url)
    ask = app.task(lambda: 1, name="ask")

    def tags(calls: int) -> str:
        return "".join(ask.call().job.id[0] for _ in range(calls))

    assert tags(5) in "0123" * 2
    memory.away.update((1, 2))
    assert tags(4) in "03" * 3
    assert ask.using(id="2_mine").call().job.id == "2_mine"  # what has a home is for it alone
    memory.away.update((0, 3))
    assert sorted(tags(4)) == list("0123")
    memory.away.clear()
    assert sorted(tags(4)) == list("0123")


def test_many_processes_that_enqueue_one_job_each_spread_them_too():
    firsts = set()
    for _ in range(200):
        app: Any = Mulligan("redis://nobody?shards=2")
        firsts.add(app.task(lambda: 1, name="ask").call().job.id[0])
    assert firsts == {"0", "1"}


def test_while_the_home_of_limits_is_away_jobs_without_limits_are_enqueued(app, monkeypatch):
    double, ask, _ = app.tasks.values()

    async def nobody(_self: Any, _store: Any) -> None:
        raise ShardAwayError("shard 0 is away")

    monkeypatch.setattr(DeclaredLimits, "store_in", nobody)
    for _ in range(2):
        with pytest.raises(ShardAwayError, match="shard 0 is away"):
            ask.enqueue(1)
        assert double.enqueue(1).created
    monkeypatch.undo()
    assert double.enqueue(1).created
    assert [view.name for view in app.limits.list()] == ["api"]


def test_an_app_with_one_store_makes_plain_ids():
    app = Mulligan("memory://?shards=1")
    assert app.sharded_ids is None
    assert Mulligan("memory://").sharded_ids is None
