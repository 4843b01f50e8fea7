"""What the URL of a Redis store may say."""

from pathlib import Path

import pytest

from mulligan.core.errors import InvalidError
from mulligan.stores import make_store
from mulligan.stores.redis import RedisStore
from tests.contract.builders import (
    claim,
    jobs,
    names,
)
from tests.store_kit import fresh_url, with_query
from tests.stores.redis.kit import opened


async def test_a_url_may_say_valkey():
    async with fresh_url("redis", Path()) as url:
        store = RedisStore(url.replace("redis://", "valkey://"))
        await store.open()
        await store.enqueue(jobs("a"))
        await store.close()
        async with opened(url) as same:
            assert await same.get("a")


@pytest.mark.parametrize(("scheme", "driver"), [("valkey", "redis"), ("valkeys", "rediss")])
def test_errors_call_the_server_what_its_url_does(scheme, driver):
    store = make_store(f"{scheme}://me:hunter2@127.0.0.1:1/0?prefix=p")
    assert isinstance(store, RedisStore)
    assert store._server.url.driver == f"{driver}://me:hunter2@127.0.0.1:1/0"
    assert store._server.url.shown == "valkey at 127.0.0.1:1"


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("prefx=a", "'prefx' is no option of a redis store; use prefix"),
        ("prefix=a{b}", "must not contain braces"),
        ("wait_replicas=many", "wait_replicas 'many' must be a whole number"),
        ("wait_timeout=soon", "wait_timeout 'soon' must be a number of seconds"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(query, reason):
    with pytest.raises(InvalidError, match=reason):
        RedisStore(f"redis://127.0.0.1/0?{query}")


async def test_options_of_the_driver_are_passed_on(url, tmp_path):
    async with opened(with_query(url, client_name="mulligan-test")) as store:
        assert await store._server.command("CLIENT", "GETNAME") == b"mulligan-test"


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("", 5.0),
        ("?socket_timeout=2", 2.0),
        ("?wait_timeout=9", 5.0),
        ("?wait_timeout=9&wait_replicas=1", 14.0),
    ],
)
def test_a_command_has_a_limited_time_to_be_answered(query, seconds):
    server = RedisStore(f"redis://127.0.0.1/0{query}")._server
    assert server._answer_timeout == seconds
    assert server.nodes.home.connection_kwargs["socket_connect_timeout"] == 5.0


async def test_prefixes_do_not_see_each_other(url, tmp_path):
    async with (
        fresh_url("redis", tmp_path) as other_url,
        opened(url) as store,
        opened(other_url) as other,
    ):
        await store.enqueue(jobs("a"))
        await other.pause("default", paused=True)
        assert await other.get("a") is None
        assert names(await claim(other)) == []
        assert names(await claim(store)) == ["a"]
        assert (await store.facts()).paused == frozenset()
