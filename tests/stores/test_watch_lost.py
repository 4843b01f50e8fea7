"""A connection that is lost while somebody waits: all are to look, and are told again later."""

import asyncio
import time

from mulligan.stores.postgres.url import ended_key
from tests.contract.builders import begin, done, job
from tests.store_kit import fresh_url, handle

TERMINATE = """
SELECT pg_terminate_backend(pid) FROM pg_locks
WHERE locktype = 'advisory' AND classid = %s AND objid = %s AND mode = 'ShareLock'
"""


class Caller:
    """Waits until it is told, again and again."""

    def __init__(self):
        self._loop = asyncio.get_running_loop()
        self._news: asyncio.Queue[None] = asyncio.Queue()

    def tell(self):
        self._loop.call_soon_threadsafe(self._news.put_nowait, None)

    async def is_told(self):
        async with asyncio.timeout(10):
            await self._news.get()
        return True


async def tell_again(url, lose):
    """Lose the connection of a store on which somebody waits, and end the job then."""
    async with handle(url, time.time) as worker, handle(url, time.time) as store:
        [claimed] = await begin(worker, job("a"))
        caller = Caller()
        watch = await store.watch("a", caller.tell)
        lose(store)
        assert await caller.is_told()
        # Another one listens, and something may have ended meanwhile.
        assert await caller.is_told()
        await worker.commit([done(claimed)])
        assert await caller.is_told()
        watch.close()


async def test_redis_tells_again_on_a_new_connection(tmp_path):
    async with fresh_url("redis", tmp_path) as url:
        await tell_again(url, lambda store: store._subscriber._channels.close())


async def test_postgresql_tells_again_on_a_new_connection(tmp_path):
    import psycopg  # noqa: PLC0415 - a driver is needed only where its server is

    async with fresh_url("postgres", tmp_path) as url:
        server, _, schema = url.partition("?schema=")
        key = ended_key(schema) % 2**64

        def lose(store):
            del store
            with psycopg.connect(server, autocommit=True) as connection:
                connection.execute(TERMINATE, divmod(key, 2**32))

        await tell_again(url, lose)
