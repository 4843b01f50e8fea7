"""Whoever may only read may wait for a result: told where that is allowed, and else by looking."""

import secrets
import time
from urllib.parse import urlsplit

import pytest

from mulligan.app.wait import LoopWaiter, until_over
from mulligan.core.job import ENDED
from mulligan.stores import make_store
from tests.contract.builders import begin, done, job
from tests.hostile import vandal
from tests.reading.readers import reader_of
from tests.store_kit import fresh_url, handle


async def waited(store, name):
    """The job when it has ended."""

    async def call(operation):
        return await operation(store)

    over = until_over(
        call, LoopWaiter(), lambda: store.get(name), lambda found: found.status in ENDED, 30.0
    )
    return await over


class Once:
    """Commits when somebody has begun to watch, so that nothing has ended before."""

    def __init__(self, store, commit):
        self.get = store.get
        self._watch = store.watch
        self._commit = commit
        self.is_told = None

    async def watch(self, name, tell):
        watch = await self._watch(name, tell)
        self.is_told = watch.is_told
        await self._commit()
        return watch


@pytest.mark.parametrize(("name", "is_told"), [("redis", False), ("postgres", True)])
async def test_a_user_who_may_only_read_gets_the_result(name, is_told, tmp_path):
    async with fresh_url(name, tmp_path) as url, handle(url, time.time) as worker:
        [claimed] = await begin(worker, job("a"))
        with reader_of(url) as reading:
            store = make_store(reading)
            await store.open(read_only=True)
            watched = Once(store, lambda: worker.commit([done(claimed)]))
            try:
                assert (await waited(watched, "a")).status == "done"
                assert watched.is_told is is_told
            finally:
                await store.close()


async def test_a_worker_that_may_not_publish_works_and_who_waits_looks(tmp_path):
    async with fresh_url("redis", tmp_path) as url, handle(url, time.time) as store:
        client, tag = vandal.redis(url)
        name, word = f"worker-{secrets.token_hex(4)}", secrets.token_hex(8)
        rights = [f"~{tag}*", "resetchannels", "+@all", "-@pubsub"]
        with client:
            client.execute_command("ACL", "SETUSER", name, "on", f">{word}", *rights)
            try:
                host = urlsplit(url).netloc.rpartition("@")[2]
                own = urlsplit(url)._replace(netloc=f"{name}:{word}@{host}").geturl()
                async with handle(own, time.time) as worker:
                    [claimed] = await begin(worker, job("a"))
                    watched = Once(store, lambda: worker.commit([done(claimed)]))
                    assert (await waited(watched, "a")).status == "done"
            finally:
                client.execute_command("ACL", "DELUSER", name)


async def test_waiting_leaves_no_key_in_redis(tmp_path):
    async with fresh_url("redis", tmp_path) as url, handle(url, time.time) as store:
        [claimed] = await begin(store, job("a"))
        client, tag = vandal.redis(url)
        with client:
            before = sorted(client.scan_iter(f"{tag}*"))
            watch = await store.watch("a", lambda: None)
            assert sorted(client.scan_iter(f"{tag}*")) == before
            watch.close()
        await store.commit([done(claimed)])
