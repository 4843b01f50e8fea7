"""Telling those who wait for jobs to end, without another way to the server and back."""

import asyncio
from functools import partial

from tests.contract.builders import begin, done, job
from tests.stores.postgres.kit import opened


async def test_a_commit_tells_by_itself_if_somebody_waited_at_the_last_one(store, url, monkeypatch):
    told: asyncio.Queue[str] = asyncio.Queue()
    async with opened(url) as other:
        for name in ("a", "b"):
            [claimed] = await begin(store, job(name))
            watch = await other.watch(name, partial(told.put_nowait, name))
            await store.commit([done(claimed)])
            async with asyncio.timeout(10):
                assert await told.get() == name
            watch.close()
            # from now on nothing is told by a statement of its own
            monkeypatch.setattr(store._watcher, "_to_tell", ())
