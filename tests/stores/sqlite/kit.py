"""What tests of SQLite ask of a store behind its back."""

import asyncio
import re
import sqlite3
from importlib import import_module
from pathlib import Path

# The statements of each module that has some.
SQL = {
    room: import_module(f"mulligan.stores.sqlite.{room}").SQL
    for room in (
        *("claim", "clock", "commit", "enqueue", "rows", "row_writer", "lanes", "limit_states"),
        *("limits", "lines", "named_limits", "operate", "read"),
        *("runs", "stand", "transaction", "wakeup", "workers"),
    )
}


async def rows(store, statement):
    return await store._runner.run(lambda tx: tx.db.execute(statement).fetchall(), writes=False)


async def pragma(store, name):
    return await store._runner.run(
        lambda tx: tx.db.execute(f"PRAGMA {name}").fetchone()[0], writes=False
    )


def foreign(path, statement, *parameters):
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute(statement, parameters)
    connection.close()


async def line_of(process):
    return (await asyncio.to_thread(process.stdout.readline)).strip()


async def finished(process):
    rest, _ = await asyncio.to_thread(process.communicate, "go\n")
    assert process.returncode == 0
    return rest


def wakeup_folder(path):
    folder = Path(f"{path}-wakeup")
    folder.mkdir(exist_ok=True)
    return folder


def sockets_of(path):
    return {each.name for each in wakeup_folder(path).iterdir()}


def exists(path):
    return path.exists()


def explain(db, room, name):
    """How SQLite carries out a statement."""
    statement = SQL[room][name]
    named = dict.fromkeys(re.findall(r":(\w+)", statement))
    plan = db.execute(f"EXPLAIN QUERY PLAN {statement}", named or [None] * statement.count("?"))
    return "\n".join(row[3] for row in plan)


async def traced(store):
    """What the store asks of its file from now on."""
    seen: list[str] = []
    await store._runner.run(lambda tx: tx.db.set_trace_callback(seen.append))
    return seen
