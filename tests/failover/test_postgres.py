"""Three PostgreSQL databases, one of which is on a server that is stopped for a while."""

import asyncio
import time
from contextlib import AsyncExitStack

from mulligan.stores import make_store
from tests.databases import PostgresServer
from tests.failover.run import Say, run
from tests.failover.troubles import REPLACED_WITHIN
from tests.store_kit import fresh_url

JOBS = 300


async def until_ended(urls: list[str], jobs: int) -> None:
    """Return when so many jobs have ended in these, as each says by itself."""
    stores = [make_store(url) for url in urls]
    for store in stores:
        await store.open(read_only=True)
    until = time.monotonic() + REPLACED_WITHIN
    while sum([sum((await store.stats()).ended.values()) for store in stores]) < jobs:
        assert time.monotonic() < until, "the others do not go on"
        await asyncio.sleep(0.1)
    for store in stores:
        await store.close()


async def test_all_jobs_of_two_shards_end_while_the_third_is_stopped_and_then_its_own(tmp_path):
    async with AsyncExitStack() as stack:
        others = [
            await stack.enter_async_context(fresh_url("postgres", tmp_path)) for _ in range(2)
        ]
        server = stack.enter_context(PostgresServer())

        def stop_until_the_others_are_done(say: Say) -> None:
            server.kill()
            asyncio.run(until_ended(others, JOBS * 2 // 3))
            server.start()
            say("it is back")

        counted = await run(
            " ".join([*others, server.url]),
            JOBS,
            [stop_until_the_others_are_done],
            shards=3,
            workers=1,
            say=lambda _: None,
        )
        assert (counted.accepted, counted.done, counted.lost) == (JOBS, JOBS, 0)
