"""Everything that a store keeps, as it lies there: each row, key and document."""

import os
import sqlite3
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from mulligan.stores.contract import Store
from tests.hostile import vandal

Dump = dict[str, Any]
# What a store in memory, and what it is made of, is besides its data.
NO_DATA = ("lock", "clock", "now", "_read")


def dump(url: str, store: Store | None = None) -> Dump:
    """All that is kept at the URL, by name; what is equal has not been written to."""
    match urlsplit(url).scheme:
        case "memory":
            state = getattr(store, "state")  # noqa: B009 - no other store has one
            kept = {name: value for name, value in vars(state).items() if name not in NO_DATA}
            return {name: flat(value, set()) for name, value in kept.items()}
        case "sqlite":
            return dump_file(Path(unquote(urlsplit(url).path)[1:]))
        case "redis":
            client, tag = vandal.redis(url)
            with client:
                keys = sorted(client.scan_iter(f"{tag}*", count=1000))
                return {str(key): (redis_value(client, key), client.ttl(key) < 0) for key in keys}
        case "postgresql":
            return dump_schema(url)
        case _:
            return dump_database(url)


def redis_value(client: Any, key: bytes) -> object:
    """What a key holds; a table in order, since its own changes while the server rehashes."""
    match client.type(key):
        case b"hash":
            return sorted(client.hgetall(key).items())
        case b"set":
            return sorted(client.smembers(key))
        case _:
            return client.dump(key)


def flat(value: Any, above: set[int]) -> str:
    """A value with all that it is made of, as text; what leads back to itself is told once."""
    if id(value) in above:
        return "…"
    above = above | {id(value)}
    if isinstance(value, dict):
        return str(sorted((flat(key, above), flat(each, above)) for key, each in value.items()))
    if isinstance(value, list | tuple | set | frozenset):
        return str([flat(each, above) for each in value])
    fields = getattr(value, "__struct_fields__", None) or getattr(value, "__slots__", None)
    if fields:
        return str([(name, flat(getattr(value, name), above)) for name in fields])
    if hasattr(value, "__dict__") and not isinstance(value, type):
        return flat({n: v for n, v in vars(value).items() if n not in NO_DATA}, above)
    return repr(value)


def dump_file(path: Path) -> Dump:
    """Every row of every table, the files in the folder, and the locks of this process."""
    beside = sorted(each.name for each in path.parent.iterdir())
    log = path.with_name(f"{path.name}-wal").exists()
    db = sqlite3.connect(f"file:{path}?mode=ro{'' if log else '&immutable=1'}", uri=True)
    try:
        # Another process reads the bytes: closing the file here would drop our locks on it.
        read = subprocess.run(["cat", path], capture_output=True, check=True)
        found: Dump = {"files": beside, "bytes": read.stdout, "locks": locks(path)}
        found["schema"] = db.execute("SELECT * FROM sqlite_master ORDER BY name").fetchall()
        found["version"] = db.execute("PRAGMA user_version").fetchall()
        for [table] in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            found[table] = sorted(map(repr, db.execute(f'SELECT * FROM "{table}"').fetchall()))  # noqa: S608
        return found
    finally:
        db.close()


def locks(path: Path) -> list[str]:
    """The POSIX locks that this process has on the file."""
    file = path.stat()
    place = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    lines = Path("/proc/locks").read_text().splitlines()
    held = [line.partition(": ")[2] for line in lines]
    return sorted(each for each in held if f" {os.getpid()} {place} " in each)


def dump_schema(url: str) -> Dump:
    """Every row of every table, the sequences, and what else is in the schema."""
    import psycopg  # noqa: PLC0415 - a driver is needed only where its server is
    from psycopg import sql  # noqa: PLC0415

    parts = urlsplit(url)
    schema = parts.query.rpartition("schema=")[2]
    found: Dump = {}
    with psycopg.connect(parts._replace(query="").geturl(), autocommit=True) as connection:
        relations = connection.execute(
            "SELECT c.relname::text, c.relkind::text FROM pg_class c JOIN pg_namespace n"
            " ON n.oid = c.relnamespace WHERE n.nspname = %s ORDER BY 1",
            (schema,),
        ).fetchall()
        found["relations"] = relations
        found["functions"] = connection.execute(
            "SELECT p.oid, proname::text, md5(prosrc) FROM pg_proc p JOIN pg_namespace n"
            " ON n.oid = pronamespace WHERE n.nspname = %s ORDER BY 1",
            (schema,),
        ).fetchall()
        for name, kind in relations:
            if kind in ("r", "p", "S"):
                rows = connection.execute(
                    sql.SQL("SELECT * FROM {}").format(sql.Identifier(schema, name))
                ).fetchall()
                found[name] = sorted(map(repr, rows))
    return found


def dump_database(url: str) -> Dump:
    """Every document and every index of every collection."""
    import pymongo  # noqa: PLC0415 - a driver is needed only where its server is
    from bson.codec_options import CodecOptions  # noqa: PLC0415
    from bson.raw_bson import RawBSONDocument  # noqa: PLC0415

    raw: CodecOptions[Any] = CodecOptions(document_class=RawBSONDocument)
    found: Dump = {}
    client: Any = pymongo.MongoClient(url)
    with client:
        database = client[urlsplit(url).path.strip("/")]
        for name in sorted(database.list_collection_names()):
            collection = database.get_collection(name, codec_options=raw)
            indexes = sorted(repr(sorted(each.items())) for each in collection.list_indexes())
            found[name] = (sorted(doc.raw for doc in collection.find()), indexes)
    return found


def changes(before: Dump, after: Dump) -> list[str]:
    """The names of what is no longer as it was."""
    return sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )
