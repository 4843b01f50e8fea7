"""An open Redis store, its keys, and what a question costs."""

from collections.abc import Awaitable

from redis.asyncio import Redis

from mulligan.stores.redis import RedisStore
from tests.store_kit import VirtualClock

AWAY = "redis://me:hunter2@127.0.0.1:1/0"


class opened:  # noqa: N801 - reads as a word
    """An open store on the server's own clock or another, closed afterwards."""

    def __init__(self, url: str, clock: VirtualClock | None = None) -> None:
        self.store = RedisStore(url, clock)

    async def __aenter__(self) -> RedisStore:
        await self.store.open()
        return self.store

    async def __aexit__(self, *_: object) -> None:
        await self.store.close()


def key(store: RedisStore, name: str) -> str:
    return f"{store._server.url.tag}:{name}"


class counted(opened):  # noqa: N801 - reads as a word
    """An open store that does not listen to its inbox, whose commands would be counted too."""

    async def __aenter__(self) -> RedisStore:
        self.store._inbox.listen = lambda: None  # type: ignore[method-assign]
        return await super().__aenter__()


async def keys_of(client: Redis, store: RedisStore) -> dict[str, str]:
    """Every key of the store without its prefix, and its type."""
    pattern = key(store, "*")
    found = [str(name) async for name in client.scan_iter(pattern, count=1000)]
    types = [str(await client.type(name)) for name in found]
    plain = [name[len(pattern) - 1 :] for name in found]
    return dict(zip(plain, types, strict=True))


async def commands_of(client: Redis, question: Awaitable[object]) -> int:
    """How many commands it takes to answer, on a server that nobody else talks to."""
    await client.config_resetstat()
    await question
    stats = await client.info("commandstats")
    return sum(each["calls"] for each in stats.values())
