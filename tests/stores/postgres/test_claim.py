"""Claims: what they cost, and many at once."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from mulligan.core.outcome import Done
from mulligan.core.plan import Cap, ClaimPlan
from mulligan.core.worker import Worker
from mulligan.stores.postgres import PostgresStore, pool
from mulligan.stores.postgres.claim import plan_values
from mulligan.stores.postgres.statements import Statements, in_order
from mulligan.stores.postgres.workers import worker_json
from tests.contract.builders import (
    ANN,
    FRESH,
    begin,
    claim,
    dead,
    done,
    group,
    in_turn,
    jobs,
    names,
    one_tier,
    source,
    walk,
)
from tests.store_kit import VirtualClock, handle
from tests.stores.postgres.kit import connected, explaining, opened, read, schema_of


async def test_a_claim_touches_only_what_it_takes(url):
    clock = VirtualClock()
    async with handle(url, clock) as store:
        for name in range(5):
            first = await begin(store, *jobs(*(f"{name}-{n}" for n in range(200))))
            ends = [dead(each) if each.id.endswith("7") else done(each) for each in first]
            await store.commit(ends)
        await store.enqueue(jobs(*(f"later {n}" for n in range(900)), delay=60.0))
        await store.enqueue(jobs(*(f"now {n}" for n in range(900))))
        plan = in_turn(10, group(FRESH))
        epoch = (await store.facts()).epoch
        with connected(url) as connection:
            rows, plans = explained(connection, store, plan, epoch)
    assert len(rows) == 11
    lanes = [text for text in plans if "waiting_lane" in text]
    assert any("Index Scan using waiting_lane" in text and read(10, text) for text in lanes)
    assert not any("Seq Scan on job" in text or "Seq Scan on waiting" in text for text in plans)


async def test_jobs_are_looked_up_by_id_though_the_planner_believes_that_there_are_none(url):
    async with handle(url, VirtualClock()) as store:
        await begin(store, *jobs(*(f"{n}" for n in range(300))))
        epoch = (await store.facts()).epoch
        with connected(url) as connection:
            connection.execute("DELETE FROM job")
            connection.execute("VACUUM ANALYZE job")
            for many in (1, 300):
                await store.enqueue(jobs(*(f"{many} {n}" for n in range(many))))
                plan = in_turn(min(many, 10), group(FRESH))
                [_, *claimed], plans = explained(connection, store, plan, epoch)
                leases = [row[2] for row in claimed], [row[3] for row in claimed]
                finish = Statements(schema_of(url))["finish"]
                connection.execute(finish.encode(), (None, *leases, None))
    updates = [text for text in plans if "Update on job" in text]
    assert len(updates) == 2
    for text in updates:
        assert "Index Scan using job_pkey on job" in text
        assert read(1, text, loops=10)


def explained(connection, store, plan, epoch) -> tuple[list[Any], list[str]]:
    """What a claim of this plan gives, and the plans of everything that it runs on the server."""
    current = ClaimPlan(plan.demand, plan.groups, plan.steps, epoch)
    values = {"self": worker_json(ANN), "channel": "channel", "plan": plan_values(current)}
    found = explaining(connection)
    rows = connection.execute(
        store._database.statements["claim"],
        in_order("claim", values | {"given": 1_000_000_000_000}),
    ).fetchall()
    return rows, found


async def test_eight_clients_never_claim_a_job_twice(store, url):
    await store.enqueue(jobs(*(f"j{n}" for n in range(800))))
    seen: list[tuple[str, int]] = []

    async def drain(number: int) -> None:
        worker = Worker(f"w{number}")
        async with opened(url) as mine:
            while True:
                claimed = (await walk(mine, in_turn(7, group(FRESH)), worker)).claims
                if not claimed:
                    return
                seen.extend(each.lease for each in claimed)
                assert set(await mine.commit([Done(each.lease) for each in claimed])) == {"written"}

    await asyncio.gather(*(drain(number) for number in range(8)))
    left = (await claim(store, demand=800)).claims
    seen += [each.lease for each in left]
    assert len(seen) == len(set(seen)) == 800


async def test_a_cap_holds_for_clients_at_once(store, url):
    await store.enqueue(jobs(*(f"j{n}" for n in range(50))))
    plan = in_turn(5, group(source(FRESH, Cap("cap", 12))))
    stores = [PostgresStore(url) for _ in range(6)]
    await asyncio.gather(*(each.open() for each in stores))
    got = await asyncio.gather(
        *(walk(each, plan, Worker(f"w{n}")) for n, each in enumerate(stores))
    )
    assert sum(len(each.claims) for each in got) == 12
    await asyncio.gather(*(each.close() for each in stores))


async def test_a_claim_does_not_wait_for_a_connection_that_others_use(store):
    await claim(store)
    await store.enqueue(jobs("a"))
    plan = in_turn(1, group(one_tier(FRESH)))
    plan = ClaimPlan(plan.demand, plan.groups, plan.steps, (await store.facts()).epoch)
    async with AsyncExitStack() as others:
        for _ in range(pool.MOST):
            await others.enter_async_context(store._database.pool.use())
        assert names(await asyncio.wait_for(store.claim(plan, ANN), 30)) == ["a"]
