"""What commits cost."""

from redis.asyncio import Redis

from mulligan.core.worker import Worker
from tests.contract.builders import (
    begin,
    claim,
    done,
    jobs,
)
from tests.stores.redis.kit import commands_of, counted


async def test_jobs_that_somebody_else_holds_are_asked_for_at_once(own_server):
    async with (
        counted(own_server.url) as store,
        counted(own_server.url) as other,
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
