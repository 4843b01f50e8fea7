"""Writes to stores behind mulligan's back, each through its own driver."""

import sqlite3
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from mulligan import Mulligan


def write_body(app: Mulligan, job: str, body: bytes) -> None:
    """Replace what is stored as the body of a job."""
    scheme = urlsplit(app.url).scheme
    match scheme:
        case "memory":
            store: Any = app._memory
            record = store.state.jobs[job]
            record.body = body
        case "sqlite":
            sqlite(app.url, "UPDATE job SET body = ? WHERE id = ?", body, job)
        case "postgresql":
            postgres(app.url, "UPDATE {}.job SET body = %s WHERE id = %s", body, job)
        case "redis":
            client, tag = redis(app.url)
            with client:
                head = client.hget(f"{tag}:jobs", job).rsplit(b"\t", 1)[0]
                client.hset(f"{tag}:jobs", job, head + b"\t" + body)
        case "mongodb":
            mongo(app.url, job, {"mulligan.body": body})


def forget_worker(store: Any, worker: str) -> None:
    """Delete what the store knows of a worker, and with it the leases of all that it holds."""
    match urlsplit(store.url).scheme:
        case "memory":
            del store.state.workers[worker]
        case "sqlite":
            sqlite(store.url, "DELETE FROM worker WHERE id = ?", worker)
        case "postgresql":
            postgres(store.url, "DELETE FROM {}.worker WHERE id = %s", worker)
        case "redis":
            client, tag = redis(store.url)
            with client:
                assert client.zrem(f"{tag}:workers", worker) == 1
                assert client.delete(f"{tag}:worker:{worker}") == 1
        case "mongodb":
            forget_in_mongo(store.url, worker)


def sqlite(url: str, statement: str, *values: Any) -> None:
    """Run a statement on the file."""
    with sqlite3.connect(unquote(urlsplit(url).path)[1:], isolation_level=None) as connection:
        assert connection.execute(statement, values).rowcount == 1
    connection.close()


def postgres(url: str, statement: str, *values: Any) -> None:
    """Run a statement; {} stands for the store's schema."""
    import psycopg  # noqa: PLC0415 - a driver is needed only where its server is
    from psycopg import sql  # noqa: PLC0415

    parts = urlsplit(url)
    [schema] = parse_qs(parts.query)["schema"]
    with psycopg.connect(parts._replace(query="").geturl(), autocommit=True) as connection:
        made = sql.SQL(statement).format(sql.Identifier(schema))
        assert connection.execute(made, values).rowcount == 1


def redis(url: str) -> tuple[Any, str]:
    """A client, and what every key of the store begins with."""
    import redis as driver  # noqa: PLC0415 - a driver is needed only where its server is

    parts = urlsplit(url)
    [prefix] = parse_qs(parts.query)["prefix"]
    return driver.Redis.from_url(parts._replace(query="").geturl()), f"{{{prefix}}}"


def mongo(url: str, job: str, fields: dict[str, Any]) -> None:
    """Set fields of a job's document."""
    import pymongo  # noqa: PLC0415 - a driver is needed only where its server is

    client: Any = pymongo.MongoClient(url)
    with client:
        database = client[urlsplit(url).path[1:]]
        answer = database["tasks"].update_one({"_id": job}, {"$set": fields})
        assert answer.matched_count == 1


def forget_in_mongo(url: str, worker: str) -> None:
    """Delete the document of a worker."""
    import pymongo  # noqa: PLC0415 - a driver is needed only where its server is

    client: Any = pymongo.MongoClient(url)
    with client:
        database = client[urlsplit(url).path[1:]]
        assert database["tasks_workers"].delete_one({"_id": worker}).deleted_count == 1


def mongo_meta(url: str, key: str, field: str, value: Any) -> Any:
    """Replace a field of a document that says something of the store as a whole."""
    import pymongo  # noqa: PLC0415 - a driver is needed only where its server is

    client: Any = pymongo.MongoClient(url)
    with client:
        database = client[urlsplit(url).path[1:]]
        before = database["tasks_meta"].find_one_and_update({"_id": key}, {"$set": {field: value}})
        return before[field]
