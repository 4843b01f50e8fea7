"""Scratch stores for tests, within the user's own: a file, a prefix, a schema, a database."""

import asyncio
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from mulligan.core.errors import InvalidError
from mulligan.stores import ENGINES, LIST, redact, scheme_of
from mulligan.stores.shards import shard_urls

# Names of databases in MongoDB have at most 63 bytes.
LONGEST_NAME = 40


@contextmanager
def scratch_url(url: str, folder: Path) -> Iterator[str]:
    """The URL of an empty part of the store, which is removed afterwards.

    Nothing else in the store is touched. SQLite's is a file in the folder. Of several shards each
    is one by itself.
    """
    if LIST.search(url) is not None:
        with ExitStack() as stack:
            parts_of = [stack.enter_context(scratch_url(each, folder)) for each in shard_urls(url)]
            yield " ".join(parts_of)
        return
    if scheme_of(url) not in ENGINES:
        known = ", ".join(f"{name}://" for name in ENGINES)
        raise InvalidError(f"store {redact(url)!r} does not begin with one of {known}")
    mark = f"test_{secrets.token_hex(6)}"
    engine, _, _ = ENGINES[scheme_of(url)]
    given = dict(parse_qsl(urlsplit(url).query))
    match engine:
        case "memory":
            yield "memory://"
        case "sqlite":
            shards = f"?shards={given['shards']}" if "shards" in given else ""
            yield f"sqlite:///{folder / f'{mark}.db'}{shards}"
        case "redis":
            prefix = ":".join(filter(None, (given.get("prefix"), mark)))
            with removed(with_query(url, prefix=prefix), remove_keys) as made:
                yield made
        case "postgres":
            with removed(with_query(url, schema=mark), drop_schema) as made:
                yield made
        case _:
            parts = urlsplit(url)
            name = f"{(parts.path.strip('/') or 'mulligan')[:LONGEST_NAME]}_{mark}"
            with removed(parts._replace(path=f"/{name}").geturl(), drop_database) as made:
                yield made


@contextmanager
def removed(url: str, remove: Callable[[str], None]) -> Iterator[str]:
    """Remove what is there afterwards, whatever happens."""
    try:
        yield url
    finally:
        remove(url)


def with_query(url: str, **more: str) -> str:
    """The URL with these parameters."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True)) | more
    return parts._replace(query=urlencode(query, quote_via=quote)).geturl()


def remove_keys(url: str) -> None:
    """Delete the keys of this URL's prefix in Redis, of each shard where they are."""
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        for each in shard_urls(url):
            runner.run(remove_keys_of_shard(each))


async def remove_keys_of_shard(url: str) -> None:
    """Delete the keys of one prefix, from the node of a cluster that holds them."""
    from mulligan.stores.redis.connection import Server  # noqa: PLC0415 - a driver is needed
    from mulligan.stores.redis.url import read_url  # noqa: PLC0415 - only where its server is

    read = read_url(url)
    server = Server(read)
    try:
        await server.command("EXISTS", f"{read.tag}:layout")  # a scan is sent to no other node
        cursor = b"0"
        while True:
            cursor, keys = await server.command(
                "SCAN", cursor, "MATCH", f"{read.tag}*", "COUNT", 1000
            )
            if keys:
                await server.command("DEL", *keys)
            if int(cursor) == 0:
                return
    finally:
        await server.close()


def drop_schema(url: str) -> None:
    """Drop the schema of this URL in PostgreSQL."""
    import psycopg  # noqa: PLC0415 - as above
    from psycopg import sql  # noqa: PLC0415 - as above

    from mulligan.stores.postgres.url import read_url  # noqa: PLC0415 - as above

    read = read_url(url)
    with psycopg.connect(read.conninfo, autocommit=True) as connection:
        drop = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE")
        connection.execute(drop.format(sql.Identifier(read.schema)))


def drop_database(url: str) -> None:
    """Drop the database of this URL in MongoDB."""
    import pymongo  # noqa: PLC0415 - as above

    from mulligan.stores.mongo.url import parse_url  # noqa: PLC0415 - as above

    read = parse_url(url)
    client: pymongo.MongoClient[dict[str, object]] = pymongo.MongoClient(read.for_driver)
    with client:
        client.drop_database(read.database)
