"""An empty place for each contender: its own Redis database, PostgreSQL database, file."""

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from psycopg.sql import SQL, Identifier
from pymongo import MongoClient
from redis import Redis

from benchmarks.contenders import CONTENDERS, Contender
from tests.databases import url_variable


def emptied(contender: Contender, folder: Path) -> str:
    """The URL of the contender's own place, with nothing in it."""
    return PLACES[contender.store](contender, folder)


def redis(contender: Contender, _folder: Path) -> str:
    """A numbered database; Redis has sixteen."""
    neighbours = [each for each in CONTENDERS if each.store == "redis"]
    return redis_database(1 + neighbours.index(contender))


def redis_database(number: int) -> str:
    """The database of this number, emptied."""
    url = urlsplit(os.environ[url_variable("redis")])._replace(path=f"/{number}").geturl()
    with Redis.from_url(url) as client:
        client.flushdb()
    return url


def postgres(contender: Contender, _folder: Path) -> str:
    """A database made anew."""
    url = os.environ[url_variable("postgres")]
    name = slug(contender)
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(name)))
        db.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
    return urlsplit(url)._replace(path=f"/{name}").geturl()


def mongo(contender: Contender, _folder: Path) -> str:
    """A database that has been dropped."""
    url = os.environ[url_variable("mongo")]
    name = slug(contender)
    client: MongoClient[dict[str, object]] = MongoClient(url)
    with client:
        client.drop_database(name)
    return urlsplit(url)._replace(path=f"/{name}").geturl()


def sqlite(contender: Contender, folder: Path) -> str:
    """A file that does not exist yet."""
    return f"sqlite:///{folder / slug(contender)}.db"


def slug(contender: Contender) -> str:
    """A name that every store allows."""
    return "bench_" + re.sub(r"\W+", "_", contender.name).strip("_")


PLACES = {"redis": redis, "postgres": postgres, "mongo": mongo, "sqlite": sqlite}
