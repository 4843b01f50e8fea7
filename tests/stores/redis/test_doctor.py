"""What the doctor finds."""

from redis.asyncio import Redis

from mulligan.stores.redis import RedisStore
from tests.stores.redis.kit import opened


async def test_the_doctor_finds_nothing_wrong_with_a_server_that_is_set_up_well(own_server):
    async with opened(own_server.url) as store, Redis.from_url(own_server.url) as client:
        await client.config_set("maxmemory", "1gb")
        findings = await store.doctor()
        assert {level for level, *_ in findings} == {"ok"}, findings


async def test_the_doctor_names_what_would_lose_jobs_and_the_remedy(own_server):
    async with opened(own_server.url) as store, Redis.from_url(own_server.url) as client:
        await client.config_set("maxmemory-policy", "allkeys-lru")
        await client.config_set("appendonly", "no")
        findings = [each for each in await store.doctor() if each[0] != "ok"]
        assert [(level, remedy) for level, _, remedy in findings] == [
            ("bad", "CONFIG SET maxmemory-policy noeviction"),
            ("warn", "CONFIG SET appendonly yes"),
        ]


async def test_the_doctor_says_what_a_user_may_not_do(own_server):
    async with Redis.from_url(own_server.url) as client:
        await client.execute_command("ACL SETUSER app on >pw ~{other}:* +@all")
    async with opened(own_server.url):
        store = RedisStore(own_server.url.replace("redis://", "redis://app:pw@"))
        findings = await store.doctor()
        [(_, sentence, remedy)] = [each for each in findings if each[0] == "bad"]
        assert "may not read by mulligan's scripts" in sentence
        assert "~{mulligan}:*" in remedy
        await store.close()
