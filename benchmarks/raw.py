"""The room there is: the same rows and batches written to each server without mulligan.

    python benchmarks/raw.py sqlite|redis|postgres|mongo URL [--jobs 20000] [--batch 100]

A bare loop inserts rows in batches, claims them in batches (with a token) and finishes them so
(where the token still fits), with the same durability. No tasks run, no rules are kept. Then the
same claims bring jobs that wait: a hundred coroutines at a time note that they begin, sleep for a
millisecond and note that they end. That is as quick as the event loop and its timers allow.
"""

import argparse
import asyncio
import json
import os
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

WAIT, CONCURRENCY = 0.001, 100
BODY = '{"task":"noop","args":[1],"kwargs":{},"retry":{"max_retries":5}}'
Step = Callable[[int], Awaitable[int]]


def main() -> None:
    """Measure one server and print jobs per second."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=LOOPS)
    parser.add_argument("url")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=100)
    options = parser.parse_args()
    found = asyncio.run(measure(options))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found |= runner.run(measure_waits(options))
    print(json.dumps(found, indent=2))


async def measure(options: argparse.Namespace) -> dict[str, float]:
    """Insert all, then claim and finish all."""
    insert, claim_and_finish, close = await LOOPS[options.engine](options.url)
    begin = time.perf_counter()
    for _ in range(0, options.jobs, 1000):
        await insert(1000)
    middle = time.perf_counter()
    done = 0
    while count := await claim_and_finish(options.batch):
        done += count
    end = time.perf_counter()
    await close()
    return {
        "enqueue_bulk_per_s": round(options.jobs / (middle - begin)),
        "drain_per_s": round(done / (end - middle)),
    }


async def measure_waits(options: argparse.Namespace) -> dict[str, float]:
    """Insert all, then have each that is claimed wait, at most so many at a time."""
    insert, claim_and_finish, close = await LOOPS[options.engine](options.url)
    for _ in range(0, options.jobs, 1000):
        await insert(1000)
    slots, running, done = asyncio.Semaphore(CONCURRENCY), set[asyncio.Task[None]](), 0
    with tempfile.TemporaryFile(buffering=0) as notes:

        async def job() -> None:
            os.write(notes.fileno(), f"wait start {time.time():.6f}\n".encode())
            await asyncio.sleep(WAIT)
            os.write(notes.fileno(), f"wait end {time.time():.6f}\n".encode())
            slots.release()

        begin = time.perf_counter()
        while count := await claim_and_finish(options.batch):
            done += count
            for _ in range(count):
                await slots.acquire()
                task = asyncio.create_task(job())
                running.add(task)
                task.add_done_callback(running.discard)
        await asyncio.gather(*running)
        end = time.perf_counter()
    await close()
    return {"drain_waiting_per_s": round(done / (end - begin))}


async def sqlite(path: str) -> tuple[Step, Step, Callable[[], Awaitable[None]]]:
    """A write-ahead log, synchronous=FULL."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("DROP TABLE IF EXISTS job")
    db.execute("CREATE TABLE job (id INTEGER PRIMARY KEY, status INT, token INT, body TEXT)")
    db.execute("CREATE INDEX pending ON job (id) WHERE status = 0")

    async def insert(count: int) -> int:
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT INTO job (status, token, body) VALUES (0, 0, ?)", [(BODY,)] * count)
        db.execute("COMMIT")
        return count

    async def claim_and_finish(count: int) -> int:
        rows = db.execute(
            "UPDATE job SET status = 1, token = token + 1 WHERE id IN"
            " (SELECT id FROM job WHERE status = 0 ORDER BY id LIMIT ?) RETURNING id, token, body",
            (count,),
        ).fetchall()
        db.execute("BEGIN IMMEDIATE")
        db.executemany(
            "UPDATE job SET status = 2 WHERE id = ? AND token = ?", [row[:2] for row in rows]
        )
        db.execute("COMMIT")
        return len(rows)

    async def close() -> None:
        db.close()

    return insert, claim_and_finish, close


async def redis(url: str) -> tuple[Step, Step, Callable[[], Awaitable[None]]]:
    """One Lua script an operation."""
    from redis.asyncio import Redis  # noqa: PLC0415 - only this engine needs it

    client: Any = Redis.from_url(url)
    put = client.register_script(
        "for i = 2, #ARGV do redis.call('HSET', 'raw:' .. ARGV[1] .. ':' .. i, 'body', ARGV[i])"
        " redis.call('RPUSH', KEYS[1], ARGV[1] .. ':' .. i) end"
    )
    take = client.register_script(
        "local ids = redis.call('LPOP', KEYS[1], ARGV[1]) or {} local out = {}"
        " for _, id in ipairs(ids) do out[#out + 1] = id"
        " out[#out + 1] = redis.call('HINCRBY', 'raw:' .. id, 'token', 1)"
        " out[#out + 1] = redis.call('HGET', 'raw:' .. id, 'body') end return out"
    )
    finish = client.register_script(
        "for i = 1, #ARGV, 2 do if redis.call('HGET', 'raw:' .. ARGV[i], 'token') == ARGV[i + 1]"
        " then redis.call('DEL', 'raw:' .. ARGV[i]) end end"
    )
    batches = iter(range(1_000_000))

    async def insert(count: int) -> int:
        await put(["raw:lane"], [next(batches), *[BODY] * count])
        return count

    async def claim_and_finish(count: int) -> int:
        flat = await take(["raw:lane"], [count])
        await finish([], [each for at in range(0, len(flat), 3) for each in flat[at : at + 2]])
        return len(flat) // 3

    return insert, claim_and_finish, client.aclose


async def postgres(url: str) -> tuple[Step, Step, Callable[[], Awaitable[None]]]:
    """SKIP LOCKED and deletes, one statement each."""
    from psycopg import AsyncConnection  # noqa: PLC0415 - only this engine needs it

    db = await AsyncConnection.connect(url, autocommit=True)
    await db.execute("DROP TABLE IF EXISTS raw_job")
    await db.execute(
        "CREATE TABLE raw_job (id bigserial PRIMARY KEY, status int, token int, body text)"
    )
    await db.execute("CREATE INDEX ON raw_job (id) WHERE status = 0")

    async def insert(count: int) -> int:
        await db.execute(
            "INSERT INTO raw_job (status, token, body) SELECT 0, 0, b FROM unnest(%s::text[]) b",
            ([BODY] * count,),
        )
        return count

    async def claim_and_finish(count: int) -> int:
        cursor = await db.execute(
            "UPDATE raw_job SET status = 1, token = token + 1 WHERE id IN (SELECT id FROM raw_job"
            " WHERE status = 0 ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED)"
            " RETURNING id, token, body",
            (count,),
        )
        rows = await cursor.fetchall()
        await db.execute(
            "DELETE FROM raw_job j USING unnest(%s::bigint[], %s::int[]) d (id, token)"
            " WHERE j.id = d.id AND j.token = d.token",
            ([row[0] for row in rows], [row[1] for row in rows]),
        )
        return len(rows)

    return insert, claim_and_finish, db.close


async def mongo(url: str) -> tuple[Step, Step, Callable[[], Awaitable[None]]]:
    """Find the first, claim them by one update, read them back, finish them by one update."""
    from pymongo import AsyncMongoClient  # noqa: PLC0415 - only this engine needs it

    client: Any = AsyncMongoClient(url)
    tasks = client.raw.tasks
    await tasks.drop()
    await tasks.create_index([("status", 1), ("created_at", 1)])
    stamps = iter(range(1_000_000))

    async def insert(count: int) -> int:
        now = time.time()
        await tasks.insert_many(
            [{"status": "pending", "created_at": now, "body": BODY} for _ in range(count)]
        )
        return count

    async def claim_and_finish(count: int) -> int:
        stamp = next(stamps)
        found = tasks.find({"status": "pending"}, {"_id": 1}).sort("created_at").limit(count)
        ids = [each["_id"] async for each in found]
        if not ids:
            return 0
        await tasks.update_many(
            {"_id": {"$in": ids}, "status": "pending"},
            {"$set": {"status": "processing", "stamp": stamp}},
        )
        mine = [each["_id"] async for each in tasks.find({"stamp": stamp, "_id": {"$in": ids}})]
        await tasks.update_many(
            {"_id": {"$in": mine}, "stamp": stamp}, {"$set": {"status": "done"}}
        )
        return len(mine)

    return insert, claim_and_finish, client.close


LOOPS = {"sqlite": sqlite, "redis": redis, "postgres": postgres, "mongo": mongo}

if __name__ == "__main__":
    main()
