"""Scratch stores for tests, within the user's own: a file, a prefix, a schema, a database."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from mulligan.core.errors import InvalidError
from mulligan.stores import ENGINES, redact, scheme_of

# Names of databases in MongoDB have at most 63 bytes.
LONGEST_NAME = 40


@contextmanager
def scratch_url(url: str, folder: Path) -> Iterator[str]:
    """The URL of an empty part of the store, which is removed afterwards.

    Nothing else in the store is touched. SQLite's is a file in the folder.
    """
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
            yield f"sqlite:///{folder / f'{mark}.db'}"
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
    """Delete the keys of this URL's prefix in Redis."""
    import redis  # noqa: PLC0415 - a driver is needed only where its server is

    from mulligan.stores.redis.url import read_url  # noqa: PLC0415 - as above

    read = read_url(url)
    with redis.Redis.from_url(read.driver) as client:
        keys = list(client.scan_iter(f"{read.tag}*", count=1000))
        if keys:
            client.delete(*keys)


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
