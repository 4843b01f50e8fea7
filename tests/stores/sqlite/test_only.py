"""What only the SQLite store does: plans of queries, its file, bells, inbox and transactions."""

import asyncio
import errno
import os
import re
import secrets
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

import pytest

from mulligan.core.counts import Count
from mulligan.core.errors import InvalidError, StoreError, StoreUnavailableError
from mulligan.core.job import Lease, decode_call, decode_policy, first_token
from mulligan.core.lane import Lane, Priority
from mulligan.core.outcome import Done
from mulligan.core.page import Selection
from mulligan.core.retry import Retry
from mulligan.core.worker import Worker
from mulligan.stores.sqlite import SqliteStore, _connection, _runner, _schema
from mulligan.stores.sqlite._bell import folder_of
from mulligan.stores.sqlite._sql import load
from tests.contract.making import (
    ANN,
    BOB,
    begin,
    body,
    claim,
    done,
    job,
    jobs,
    names,
    source,
    start,
)
from tests.store_kit import handle

TABLES = "job|lane|held|running|ended|attempt|permit|note"
STATEMENTS = sorted(
    each.name.removesuffix(".sql")
    for each in files("mulligan.stores.sqlite").joinpath("sql").iterdir()
)


@pytest.fixture
def path():
    # Short enough that a socket fits beside it, however long the names of tests are.
    with tempfile.TemporaryDirectory(prefix="m") as folder:
        yield Path(folder) / "jobs.db"


@pytest.fixture
def url(path):
    return f"sqlite:///{path}"


@pytest.fixture
async def store(url, clock):
    async with handle(url, clock) as opened:
        yield opened


@pytest.fixture
def db(store, path):
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()


# -- the URL -----------------------------------------------------------------------------------


async def test_a_relative_path_is_taken_from_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = SqliteStore("sqlite:///here.db")
    monkeypatch.chdir("/")
    await store.open()
    await store.close()
    assert (tmp_path / "here.db").exists()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite://?durability=normal"])
async def test_a_database_in_memory_needs_no_thread(url, clock):
    store = SqliteStore(url, clock)
    await store.open()
    await store.enqueue(jobs("a"))
    assert names(await claim(store)) == ["a"]
    assert store._runner._thread is None
    await store.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite://jobs.db", "is not a SQLite URL; write sqlite:///relative.db"),
        ("sqlite:///jobs.db?speed=high", "option 'speed' .* is unknown"),
        ("sqlite:///jobs.db?durability=none", "durability 'none' .* is not one of full, normal"),
    ],
)
def test_a_url_that_means_nothing_is_refused(url, message):
    with pytest.raises(InvalidError, match=message):
        SqliteStore(url)


# -- the disk ----------------------------------------------------------------------------------


class Disk:
    """Stands for the disk: counts what was pressed onto it, and works only while it is told to."""

    def __init__(self):
        self.pressed = 0
        self.works = threading.Event()
        self.works.set()
        self.busy = threading.Event()

    def __call__(self, file):
        self.busy.set()
        assert self.works.wait(60)
        os.fsync(file)
        self.pressed += 1


@pytest.fixture
def disk(monkeypatch):
    found = Disk()
    monkeypatch.setattr("mulligan.stores.sqlite._log.sync_file", found)
    return found


@pytest.mark.parametrize(
    ("option", "times"), [("", 1), ("?durability=full", 1), ("?durability=normal", 0)]
)
@pytest.mark.parametrize("inline", [False, True])
async def test_durability_says_whether_an_answer_waits_for_the_disk(
    url, disk, option, times, inline
):
    store = SqliteStore(f"{url}{option}", inline=inline)
    await store.open()
    await store.enqueue(jobs("a"))
    assert disk.pressed == times
    assert await pragma(store, "journal_mode") == "wal"
    await store.close()


@pytest.mark.parametrize("inline", [False, True])
async def test_many_batches_wait_for_the_disk_together(url, disk, monkeypatch, inline):
    monkeypatch.setattr("mulligan.stores.batches.BATCH_LIMIT", 2)
    store = SqliteStore(url, inline=inline)
    await store.open()
    await store.enqueue_all(jobs("a", "b", "c", "d", "e"))
    assert disk.pressed == 1
    await store.enqueue_all(jobs("f", "g", "h", "a", "b"))  # the last batch adds nothing
    assert disk.pressed == 2
    await store.close()


async def test_who_is_at_work_is_known_without_the_disk(store, disk):
    await store.enqueue(jobs("a"))
    pressed = disk.pressed
    [claimed] = (await claim(store, worker=ANN)).claims
    await store.reclaim(1, BOB)
    await store.leave(BOB)
    assert disk.pressed == pressed
    await store.commit([done(claimed)])
    await store.beat(ANN, [])
    await store.note("key", b"value", 1)
    assert disk.pressed == pressed + 3


async def test_while_the_disk_is_busy_work_goes_on_and_those_who_wait_share_its_next_turn(
    store, disk
):
    disk.works.clear()
    disk.busy.clear()
    first = asyncio.create_task(store.enqueue(jobs("a")))
    await asyncio.to_thread(disk.busy.wait)
    others = [asyncio.create_task(store.enqueue(jobs(name))) for name in "bcd"]
    while len((await store.page(Selection(), 10)).jobs) < 4:
        pass
    assert names(await claim(store, demand=9)) == ["a", "b", "c", "d"]
    assert not first.done()
    disk.works.set()
    assert await asyncio.gather(first, *others) == [[(name, True)] for name in "abcd"]
    assert disk.pressed == 2


async def test_other_processes_need_not_wait_for_our_disk(store, disk, db):
    disk.works.clear()
    disk.busy.clear()
    first = asyncio.create_task(store.enqueue(jobs("a")))
    await asyncio.to_thread(disk.busy.wait)
    db.execute("INSERT INTO inbox (task, id) VALUES ('ask', 'b')")
    assert not first.done()
    disk.works.set()
    await first


async def test_what_the_disk_does_not_take_is_not_said_to_be_written(store, monkeypatch):
    def refuse(_file):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("mulligan.stores.sqlite._log.sync_file", refuse)
    with pytest.raises(StoreError, match=r"the disk failed .*; check the disk and restart"):
        await store.enqueue(jobs("a"))
    monkeypatch.undo()
    with pytest.raises(StoreError, match="the disk failed"):
        await store.enqueue(jobs("a"))
    await store.close()
    await store.open()
    assert await store.enqueue(jobs("a")) == [("a", False)]


async def test_what_was_answered_is_there_after_a_power_cut(
    path, url, clock, tmp_path, monkeypatch
):
    def press(file):
        os.fsync(file)
        for name in ("jobs.db", "jobs.db-wal"):
            shutil.copy(path.with_name(name), tmp_path / name)

    monkeypatch.setattr("mulligan.stores.sqlite._log.sync_file", press)
    async with handle(url, clock) as store:
        await store.enqueue(jobs("done", "claimed", "waiting"))
        [first] = (await claim(store)).claims
        assert await store.commit([done(first, b"7")]) == ["written"]
        assert names(await claim(store)) == ["claimed"]
        monkeypatch.undo()
        async with handle(f"sqlite:///{tmp_path}/jobs.db", clock) as left:
            ended, waiting, claimed = [
                await left.get(each) for each in ("done", "waiting", "claimed")
            ]
            assert ended is not None
            assert ended.result == b"7"
            assert waiting is not None
            assert waiting.status == "pending"
            assert claimed is not None
            assert claimed.status == "pending", "nobody is at work any more"


async def test_who_waits_for_the_disk_is_answered_before_the_store_is_closed(url, clock, disk):
    store = SqliteStore(url, clock)
    await store.open()
    disk.works.clear()
    disk.busy.clear()
    waiting = asyncio.create_task(store.enqueue(jobs("a")))
    await asyncio.to_thread(disk.busy.wait)
    closing = asyncio.create_task(store.close())
    disk.works.set()
    assert await waiting == [("a", True)]
    await closing


async def pragma(store, name):
    return await store._runner.run(
        lambda tx: tx.db.execute(f"PRAGMA {name}").fetchone()[0], writes=False
    )


# -- the plans of its queries ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        ("claim_heads", "lane USING PRIMARY KEY (queue=? AND scope=? AND lane_priority=?)"),
        ("claim_rows", "lane_priority=? AND (due,sequence)>(?,?) AND due<?)"),
        ("claim_lease", "lane_priority=? AND (due,sequence)>(?,?) AND (due,sequence)<(?,?))"),
        ("claim_take", "lane_priority=? AND (due,sequence)>(?,?) AND (due,sequence)<(?,?))"),
        ("lane_leave", "lane_priority=? AND due=? AND sequence=?)"),
        ("held_next", "held_key"),
        ("reclaim_worker", "running_worker"),
        ("promote", "lane_expires"),
        ("promote", "held_expires"),
        ("ended_group", "ended_queue"),
        ("prune", "ended_queue"),
        ("unique_holder", "job_unique"),
        ("depth", "lane USING PRIMARY KEY (queue=? AND scope=? AND lane_priority=? AND due<?)"),
        ("tail", "lane USING PRIMARY KEY (queue=? AND scope=? AND lane_priority=? AND due<?)"),
        ("attempt_list", "attempt_job"),
        ("attempt_trim", "attempt_job"),
        ("permits_of", "permit_job"),
        ("note_prune", "note_until"),
    ],
)
def test_a_query_uses_its_index_and_sorts_nothing(db, statement, index):
    plan = explain(db, statement)
    assert index in plan
    assert not re.search(rf"SCAN ({TABLES})\b(?! USING)", plan), plan
    assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize("statement", ["running", "reclaim_rows"])
def test_of_the_running_jobs_only_those_of_the_worker_are_looked_at(db, statement):
    assert "SEARCH running USING INDEX running_worker (worker=?)" in explain(db, statement)


@pytest.mark.parametrize(
    "statement", ["commit_attempt", "commit_done_if_held", "commit_rows", "running_leave", "get"]
)
def test_jobs_are_found_by_key(db, statement):
    plan = explain(db, statement)
    assert re.search(r"SEARCH (job|running) USING I(NTEGER PRIMARY KEY|NDEX sqlite_auto)", plan)
    assert not re.search(rf"SCAN ({TABLES})\b(?! USING)", plan), plan


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        ("stats_lanes", "SCAN lane"),
        ("stats_ended", "USING COVERING INDEX ended_queue"),
        ("stats_delayed", "USING COVERING INDEX lane_delayed"),
        ("stats_held", "USING COVERING INDEX held_key"),
        ("stats_gathering", "USING COVERING INDEX held_key"),
    ],
)
def test_counts_read_no_bodies(db, statement, index):
    plan = explain(db, statement)
    assert index in plan
    assert " job " not in plan


def test_the_health_of_a_region_is_read_from_its_recent_attempts_alone(db):
    plan = explain(db, "recent_attempts")
    assert plan.endswith("PRIMARY KEY (queue=? AND region=? AND name=? AND slot>?)")


@pytest.mark.parametrize("statement", ["arrival_list", "arrival_delete"])
def test_arrivals_are_found_by_their_job(db, statement):
    found = r"SEARCH arrival USING (COVERING )?INDEX sqlite_autoindex_arrival_1 \(job=\?\)"
    assert re.search(found, explain(db, statement))


async def test_only_a_lane_where_a_job_stands_makes_a_claim_ask_who_sleeps(store):
    seen: list[str] = []
    await store._runner.run(lambda tx: tx.db.set_trace_callback(seen.append))
    empty = [source(Lane("default", f"*+{n}", 1), waited=2.0, yields=True) for n in range(3)]
    await claim(store, *empty, worker=BOB)
    assert not any("l.waited <" in statement for statement in seen)
    await store.enqueue([job("a", region="*+1", priority=1)])
    assert names(await claim(store, *empty, worker=BOB)) == ["a"]
    assert sum("l.waited <" in statement for statement in seen) == 1


async def test_which_jobs_are_new_is_asked_only_if_not_all_are(store):
    seen: list[str] = []
    await store._runner.run(lambda tx: tx.db.set_trace_callback(seen.append))
    asked = load("created").splitlines()[-1].split("WHERE")[0]
    await store.enqueue(jobs(*(f"first-{number}" for number in range(120))))
    assert not [each for each in seen if asked in each]
    await store.enqueue(jobs(*(f"first-{number}" for number in range(110, 230))))
    assert [each for each in seen if asked in each]


@pytest.mark.parametrize("name", STATEMENTS)
def test_every_statement_is_valid_and_described(db, name):
    text = files("mulligan.stores.sqlite").joinpath("sql", f"{name}.sql").read_text("utf-8")
    header, statement = text.split(load(name)[:6])[0], load(name)
    assert not re.search(r"\?\d", statement), "the driver wants them plain or by name"
    numbered = {f"?{number}" for number in range(1, statement.count("?") + 1)}
    for parameter in numbered | set(re.findall(r":\w+", statement)):
        assert re.search(rf"{re.escape(parameter)}\b", header), "the header names each parameter"
    explain(db, name)


def explain(db, name):
    statement = load(name)
    named = dict.fromkeys(re.findall(r":(\w+)", statement))
    rows = db.execute(f"EXPLAIN QUERY PLAN {statement}", named or [None] * statement.count("?"))
    return "\n".join(row[3] for row in rows)


def test_notes_are_found_without_reading_the_others(db):
    assert explain(db, "note_list") == "SEARCH note USING PRIMARY KEY (key>?)"


# -- the file ----------------------------------------------------------------------------------


async def test_a_process_that_runs_an_older_release_is_told_to_restart(store, path):
    with sqlite3.connect(path) as newer:
        newer.execute("ALTER TABLE job RENAME COLUMN body TO content")
        newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(StoreError) as error:
        await store.enqueue(jobs("a"))
    said = str(error.value)
    assert "has now schema version 99" in said
    assert f"process {os.getpid()} on {socket.gethostname()} still runs a mulligan" in said
    assert f"knows version {len(_schema.migrations())}; restart this process" in said


async def test_an_older_file_is_brought_up_to_date_in_place(path, url, clock):
    old = sqlite3.connect(path, isolation_level=None)
    _schema.migrate(old, str(path), upto=1)
    old.execute(
        "INSERT INTO job (place, id, queue, task, region, priority, status, scope, lane_priority,"
        " due, sequence, created_at, body)"
        " VALUES (1, 'old', 'default', 'ask', 'default', 0, 'pending', 'default', 0, 1, 1, 1, '{}')"
    )
    old.execute("UPDATE meta SET value = 1 WHERE name = 'sequence'")
    old.close()
    async with handle(url, clock) as store:
        assert names(await claim(store)) == ["old"]
        foreign(path, "INSERT INTO inbox (task) VALUES ('ask')")
        assert len((await store.page(Selection(), 10)).jobs) == 2
        assert await pragma(store, "user_version") == len(_schema.migrations())


OLD_STATES = [
    ("pending", 0),
    ("pending", 1),
    ("pending", 2),
    ("processing", 0),
    ("done", 0),
    ("failed", 0),
    ("cancelled", 0),
]


async def test_tokens_of_an_older_file_are_raised_but_for_those_that_workers_hold(path, url, clock):
    old = sqlite3.connect(path, isolation_level=None)
    _schema.migrate(old, str(path), upto=2)
    for place, (name, status) in enumerate([("w", "pending"), ("r", "processing")], 1):
        old.execute(
            "INSERT INTO job (place, id, queue, task, region, priority, status, scope,"
            " lane_priority, due, sequence, created_at, token, worker, body) VALUES"
            " (?, ?, 'default', 'ask', 'default', 0, ?, 'default', 0, 1, ?, 1, 2, 'old', '{}')",
            (place, name, status, place),
        )
    old.close()
    async with handle(url, clock) as store:
        assert await store.commit([Done(Lease("r", 2))]) == ["written"]
        assert (await start(store)).token == first_token(1) + 3


async def test_jobs_of_an_older_file_stand_where_they_stood(path, url, clock):
    old = sqlite3.connect(path, isolation_level=None)
    _schema.migrate(old, str(path), upto=3)
    for place, (status, held) in enumerate(OLD_STATES, 1):
        old.execute(
            "INSERT INTO job (place, id, queue, task, region, priority, status, held, scope,"
            " lane_priority, due, sequence, created_at, token, worker, ended_at, unique_key,"
            " concurrency_key, awaits, body) VALUES"
            " (:place, 'j' || :place, 'default', 'ask', 'default', 0, :status, :held, 'default', 0,"
            " 1, :place, 1, :place * 4096, 'old', 1, 'u' || :place, 'k', :held = 2, '{}')",
            {"place": place, "status": status, "held": held},
        )
    old.execute("UPDATE meta SET value = ? WHERE name = 'sequence'", (len(OLD_STATES),))
    old.close()
    async with handle(url, clock) as store:
        found = [await store.get(f"j{place}") for place in range(1, len(OLD_STATES) + 1)]
        assert [(each.status, each.held, each.awaits) for each in found if each] == [
            (status, held == 1, int(held == 2)) for status, held in OLD_STATES
        ]
        again = await store.enqueue([job(f"n{n}", unique_key=f"u{n}") for n in range(1, 8)])
        assert [each.created for each in again] == [False] * 4 + [True] * 3
        stats = await store.stats()
        assert [(each.ready, each.delayed) for each in stats.lanes] == [(1 + 1 + 3, 0)]
        assert stats.gathering == {"default": 1}
        assert names(await claim(store, demand=9)) == ["j1", "n5", "n6", "n7"]


async def test_many_may_open_an_older_file_at_once(path, url, clock):
    old = sqlite3.connect(path, isolation_level=None)
    _schema.migrate(old, str(path), upto=1)
    old.close()
    stores = [SqliteStore(url, clock) for _ in range(8)]
    await asyncio.gather(*(store.open() for store in stores))
    await asyncio.gather(*(store.enqueue(jobs(f"j{i}")) for i, store in enumerate(stores)))
    assert len((await stores[0].page(Selection(), 10)).jobs) == 8
    for store in stores:
        await store.close()


async def test_a_file_of_a_newer_release_is_refused(path, url, clock):
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(StoreError, match=r"has schema version 99.*upgrade mulligan"):
        await SqliteStore(url, clock).open()


async def test_a_file_that_is_no_database_is_refused(path, url, clock):
    path.write_bytes(b"the quick brown fox jumps over the lazy dog" * 100)
    with pytest.raises(StoreError, match="is not a SQLite database"):
        await SqliteStore(url, clock).open()


async def test_a_damaged_file_is_named(path, url, clock):
    async with handle(url, clock) as store:
        await store.enqueue(jobs(*"abcdefgh"))
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="is damaged; restore it from a backup"):
        async with handle(url, clock) as store:
            await store.enqueue(jobs("i"))


async def test_a_missing_folder_is_named(tmp_path, clock):
    store = SqliteStore(f"sqlite:///{tmp_path}/nowhere/jobs.db", clock)
    with pytest.raises(StoreUnavailableError, match=r"create the folder .*nowhere"):
        await store.open()


async def test_an_old_library_is_refused(url, clock, monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    with pytest.raises(StoreError, match=r"strict tables need 3\.37\.0"):
        await SqliteStore(url, clock).open()


async def test_a_store_is_used_only_while_it_is_open(url, clock):
    store = SqliteStore(url, clock)
    with pytest.raises(StoreError, match=r"is not open; call open\(\) first"):
        await store.enqueue(jobs("a"))
    await store.open()
    await store.enqueue(jobs("a"))
    await store.close()
    with pytest.raises(StoreError, match="is not open"):
        await store.get("a")
    await store.open()
    assert await store.get("a") is not None
    await store.close()


async def test_a_full_disk_writes_nothing_and_the_store_goes_on(store):
    await store.enqueue(jobs("small"))
    pages = await pragma(store, "page_count")
    await pragma(store, f"max_page_count = {pages + 2}")
    large = [job(f"large {i}", body=body(notes="x" * 5_000)) for i in range(100)]
    with pytest.raises(StoreError, match="the disk is full, and nothing was written; make room"):
        await store.enqueue(large)
    [claimed] = (await claim(store, demand=10)).claims
    assert await store.commit([done(claimed)]) == ["written"]
    await pragma(store, "max_page_count = 1000000")
    assert all(each.created for each in await store.enqueue(large))


async def test_operations_that_wait_together_are_answered_each_on_its_own(store):
    too_many = jobs(*map(str, range(1001)))
    answers = await asyncio.gather(
        *(store.enqueue(jobs(f"j{i}")) for i in range(40)),
        store.enqueue(too_many),
        store.enqueue([job("j0"), job("last")]),
        return_exceptions=True,
    )
    assert answers[:40] == [[(f"j{i}", True)] for i in range(40)]
    assert isinstance(answers[40], InvalidError)
    assert answers[41] == [("j0", False), ("last", True)]


async def test_a_locked_file_is_waited_for_and_not_for_ever(store, db, monkeypatch):
    monkeypatch.setattr(_connection, "PATIENCE", 0.01)
    db.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError, match="has been locked by another"):
        await store.enqueue(jobs("a"))
    monkeypatch.setattr(_connection, "PATIENCE", 30.0)
    waiting = asyncio.create_task(store.enqueue(jobs("a")))
    db.execute("COMMIT")
    assert await waiting == [("a", True)]


async def test_what_is_past_its_time_leaves_the_file(store, clock):
    await store.note("a", b"1", 10)
    await store.count([Count("default", "default", "failed", 1)])
    clock.advance(61)
    await store.prune(0, 100)
    assert await rows(store, "SELECT count(*) FROM note UNION ALL SELECT count(*) FROM recent") == [
        (0,),
        (0,),
    ]


async def test_a_worker_that_was_killed_is_forgotten_a_day_after_its_jobs_were_reclaimed(
    store, clock
):
    await begin(store, job("a"), worker=ANN)
    clock.advance(86_400 - 1)
    await store.prune(0, 100)
    assert await rows(store, "SELECT id FROM worker") == [(ANN.id,)]
    clock.advance(2)
    await store.prune(0, 100)
    assert await rows(store, "SELECT id FROM worker") == [(ANN.id,)]
    await store.reclaim(10, BOB)
    await store.prune(0, 100)
    assert await rows(store, "SELECT id FROM worker") == [(BOB.id,)]


# -- processes ---------------------------------------------------------------------------------

WORK = """
import asyncio, sys
from mulligan.core.worker import Worker
from mulligan.stores.sqlite import SqliteStore
from tests.contract.making import claim, done, jobs

async def main(url, name):
    store = SqliteStore(url)
    await store.open()
    print("ready", flush=True)
    sys.stdin.readline()
    me = Worker(name)
    for batch in range(10):
        await store.enqueue(jobs(*(f"{name}-{batch}-{i}" for i in range(20))))
        claimed = await claim(store, demand=15, worker=me)
        verdicts = await store.commit([done(each) for each in claimed.claims])
        for each, verdict in zip(claimed.claims, verdicts):
            print(each.id, each.token, verdict)
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""

SLEEP = """
import asyncio, sys
from mulligan.core.worker import Worker
from mulligan.stores.sqlite import SqliteStore, _store
from tests.contract.making import claim, names

async def main(url, name):
    _store.LOOK_EVERY = 600.0  # only a bell can wake it
    store = SqliteStore(url)
    await store.open()
    me = Worker(name)
    await claim(store, worker=me)
    print("asleep", flush=True)
    await store.wait(me, 60.0)
    print(*names(await claim(store, worker=me)), flush=True)
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def run():
    started = []

    def start_process(script, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        started.append(process)
        return process

    yield start_process
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


def bells_folder(path):
    folder = Path(f"{path}-bells")
    folder.mkdir(exist_ok=True)
    return folder


def exists(path):
    return path.exists()


def bells(path):
    return {each.name for each in bells_folder(path).iterdir()}


async def heard(process):
    return (await asyncio.to_thread(process.stdout.readline)).strip()


async def ended(process):
    rest, _ = await asyncio.to_thread(process.communicate, "go\n")
    assert process.returncode == 0
    return rest


async def test_processes_share_a_file_and_never_a_job(run, url):
    processes = [run(WORK, url, f"w{i}") for i in range(3)]
    assert [await heard(process) for process in processes] == ["ready"] * 3
    output = "".join(await asyncio.gather(*(ended(process) for process in processes)))
    lines = [line.split() for line in output.splitlines()]
    assert len(lines) == 450
    assert len({name for name, *_ in lines}) == 450
    assert {(int(token) % 4096, verdict) for _, token, verdict in lines} == {(1, "written")}


async def test_a_sleeper_in_another_process_is_woken_by_its_bell(run, url, path):
    process = run(SLEEP, url, "sleeper")
    assert await heard(process) == "asleep"
    assert len(bells(path)) == 1
    async with handle(url, time.time) as store:
        await store.enqueue(jobs("a"))
        assert await heard(process) == "a"
    await ended(process)
    assert not exists(path.with_name("jobs.db-bells"))


async def test_a_sleeper_that_was_killed_does_not_keep_the_news_from_others(run, url, monkeypatch):
    monkeypatch.setattr("mulligan.stores.sqlite._store.LOOK_EVERY", 600.0)
    process = run(SLEEP, url, "killed")
    assert await heard(process) == "asleep"
    process.kill()
    await asyncio.to_thread(process.communicate)
    async with (
        handle(url, time.time) as sleeping,
        handle(url, time.time) as store,
    ):
        await claim(sleeping, worker=BOB)
        waiting = asyncio.create_task(sleeping.wait(BOB, 60.0))
        await store.enqueue(jobs("a"))
        await waiting
        assert names(await claim(sleeping, worker=BOB)) == ["a"]
        assert await rows(store, "SELECT worker FROM waiting") == [(BOB.id,)]


async def rows(store, statement):
    return await store._runner.run(lambda tx: tx.db.execute(statement).fetchall(), writes=False)


async def test_the_socket_of_a_dead_process_is_swept_away(store, path):
    folder = bells_folder(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stale:
        stale.bind(str(folder / "stale"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as alive:
        alive.bind(str(folder / "alive"))
        await claim(store)
    assert "stale" not in bells(path)
    assert "alive" in bells(path)


async def test_a_path_too_long_for_a_socket_has_its_bells_elsewhere(tmp_path, clock, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/tmp")  # noqa: S108 - as most have
    long = tmp_path / ("long" * 30)
    long.mkdir()
    async with handle(f"sqlite:///{long}/jobs.db", clock) as store:
        await claim(store)
        [(address,)] = await rows(store, "SELECT address FROM waiting")
        assert address.startswith("/tmp/mulligan-")  # noqa: S108
    assert not exists(Path(address).parent)


async def hear_at(store, address):
    statement = "UPDATE waiting SET address = ? RETURNING asleep"
    return await store._runner.run(lambda tx: tx.db.execute(statement, (address,)).fetchall())


async def ring_at(url, address):
    """Have a job wake a sleeper whose row says that it hears here."""
    async with handle(url, time.time) as sleeping, handle(url, time.time) as store:
        await claim(sleeping, worker=ANN)
        assert await hear_at(store, address) == [(1,)]
        await store.enqueue(jobs(secrets.token_hex()))
        assert len((await claim(sleeping, worker=ANN)).claims) == 1


async def test_a_row_that_names_an_ordinary_file_does_not_delete_it(url, path, tmp_path):
    for folder in (tmp_path, bells_folder(path)):
        each = folder / "letter"
        each.parent.mkdir(exist_ok=True)
        each.write_text("dear")
        await ring_at(url, str(each))
        assert each.read_text() == "dear"


async def test_a_row_that_names_a_link_neither_follows_nor_deletes_it(url, path, tmp_path):
    link = bells_folder(path) / "link"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
        stranger.bind(str(tmp_path / "stranger"))
        stranger.settimeout(0)
        link.symlink_to(tmp_path / "stranger")
        await ring_at(url, str(link))
        with pytest.raises(BlockingIOError):
            stranger.recv(100)
    await ring_at(url, str(link))
    assert link.is_symlink()
    assert exists(tmp_path / "stranger")


@pytest.mark.parametrize(
    "way", ["{outside}", "{bells}/../stranger", "{bells}/deeper/../../stranger"]
)
async def test_a_socket_outside_the_folder_is_neither_rung_nor_deleted(url, path, tmp_path, way):
    outside, deeper = tmp_path / "stranger", bells_folder(path) / "deeper"
    deeper.mkdir()
    address = way.format(outside=outside, bells=bells_folder(path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
        stranger.bind(str(outside))
        stranger.settimeout(0)
        await ring_at(url, address)
        with pytest.raises(BlockingIOError):
            stranger.recv(100)
    await ring_at(url, address)
    assert exists(outside)


@pytest.mark.parametrize("address", ["", "/", ".", "{bells}/a\0b", "{bells}/absent", b"bytes", 5])
async def test_an_address_that_is_no_path_of_a_bell_holds_up_nothing(url, path, address):
    if isinstance(address, str):
        address = address.format(bells=bells_folder(path))
    await ring_at(url, address)


async def test_bells_are_not_kept_behind_a_link(url, path, tmp_path, clock):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stale:
        stale.bind(str(elsewhere / "stale"))
    path.with_name("jobs.db-bells").symlink_to(elsewhere)
    async with handle(url, clock) as store:
        await claim(store)
        assert await rows(store, "SELECT address FROM waiting") == [(None,)]
        await hear_at(store, f"{path}-bells/stale")
        await store.enqueue(jobs("a"))
    assert [each.name for each in list_of(elsewhere)] == ["stale"]


async def test_bells_in_the_temporary_folder_are_not_kept_behind_a_link(
    tmp_path, clock, monkeypatch
):
    temporary, elsewhere = tmp_path / "t", tmp_path / "e"
    temporary.mkdir()
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(temporary))
    path = tmp_path / ("long" * 30) / "jobs.db"
    path.parent.mkdir()
    folder_of(str(path)).symlink_to(elsewhere)
    async with handle(f"sqlite:///{path}", clock) as store:
        await claim(store)
        assert await rows(store, "SELECT address FROM waiting") == [(None,)]
    assert list_of(elsewhere) == []


def list_of(folder):
    return list(folder.iterdir())


async def test_without_sockets_a_sleeper_looks_by_itself(url, clock, monkeypatch):
    monkeypatch.delattr("socket.AF_UNIX")
    async with handle(url, clock) as sleeping, handle(url, clock) as store:
        await claim(sleeping, worker=ANN)
        waiting = asyncio.create_task(sleeping.wait(ANN, 60.0))
        await store.enqueue(jobs("a"))
        await waiting


async def test_several_loops_may_share_one_store(url, clock):
    async with handle(url, clock) as store:
        await claim(store, worker=ANN)
        other = asyncio.create_task(
            asyncio.to_thread(asyncio.run, wait_and_claim(store, Worker("thread")))
        )
        waiting = asyncio.create_task(store.wait(ANN, 60.0))
        while await rows(store, "SELECT count(*) FROM waiting WHERE asleep") != [(2,)]:
            pass
        await store.enqueue(jobs("a", "b"))
        await waiting
        assert len(await other) == 1


async def wait_and_claim(store, worker):
    await claim(store, worker=worker)
    await store.wait(worker, 60.0)
    return names(await claim(store, worker=worker))


def test_two_threads_that_fork_at_once_take_turns(monkeypatch):
    held: Counter[tuple[str, int]] = Counter()
    came = threading.Event()
    turn = threading.Lock()

    class Turn:
        """The lock, which tells when somebody has to wait for it."""

        def acquire(self):
            if not turn.acquire(blocking=False):
                came.set()
                turn.acquire()

        def release(self):
            turn.release()

    class Runner:
        def before_fork(self):
            held["held", threading.get_ident()] += 1
            if not second.ident:  # the other comes when the first of two files is held
                second.start()
                came.wait()

        def after_fork(self):
            held["let go", threading.get_ident()] += 1

    def fork():
        _runner._before_fork()
        _runner._after_fork_in_parent()
        came.set()

    second = threading.Thread(target=fork)
    monkeypatch.setattr(_runner, "_fork", Turn(), raising=False)
    monkeypatch.setattr(_runner, "_FILES", [Runner(), Runner()])
    fork()
    second.join()
    assert list(held.values()) == [2, 2, 2, 2]


async def test_after_a_fork_each_side_has_a_connection_of_its_own(store):
    await store.enqueue(jobs("before"))
    await claim(store, Lane("other", "default", Priority.NORMAL))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            asyncio.set_event_loop(None)
            answer = asyncio.new_event_loop().run_until_complete(in_child(store))
            os.write(write, answer.encode())
        finally:
            os._exit(0)
    os.close(write)
    assert await store.enqueue(jobs("parent")) == [("parent", True)]
    with os.fdopen(read) as pipe:
        assert await asyncio.to_thread(pipe.read) == "before created"
    await asyncio.to_thread(os.waitpid, child, 0)
    assert sorted(each.id for each in (await store.page(Selection(), 10)).jobs) == [
        "before",
        "child",
        "parent",
    ]


async def in_child(store):
    seen = await store.get("before")
    [answer] = await store.enqueue(jobs("child"))
    await claim(store, Lane("other", "default", Priority.NORMAL), worker=Worker("child"))
    await store.close()
    return f"{seen.id} {'created' if answer.created else 'not created'}"


async def test_a_store_in_memory_is_not_shared_with_a_fork(clock, monkeypatch):
    async with handle("sqlite://", clock) as store:
        monkeypatch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(StoreError, match="is not shared with a forked process"):
            await store.facts()


# -- producers in other languages --------------------------------------------------------------


def foreign(path, statement, *parameters):
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute(statement, parameters)
    connection.close()


async def test_an_insert_into_the_inbox_is_a_job(store, path, clock):
    clock.now = 4_000_000_000.0
    foreign(path, "INSERT INTO inbox (task) VALUES ('ask')")
    claimed = await start(store)
    assert (claimed.task, claimed.queue, claimed.region, claimed.priority) == (
        "ask",
        "default",
        "*",
        0,
    )
    assert decode_call(claimed.body).args == []
    assert decode_policy(claimed.body).retry == Retry()


async def test_an_insert_into_the_inbox_may_say_everything(store, path):
    foreign(
        path,
        "INSERT INTO inbox (task, args, kwargs, queue, region, delay, priority, id, unique_key,"
        " retry) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        "ask",
        '["why?"]',
        '{"loud": true}',
        "questions",
        "EU",
        1.5,
        "urgent",
        "q-1",
        "why",
        '{"max_retries":7,"backoff":{"type":"delays","seconds":[1,2]},"scope":"region"}',
    )
    found = await store.get("q-1")
    assert found is not None
    assert found.token == first_token(found.sequence)
    assert found.lane == Lane("questions", "EU", Priority.URGENT)
    assert found.unique_key == "why"
    assert found.due == pytest.approx(found.created_at + 1.5)
    assert (await store.stats()).delayed["questions"].total == 1
    call = decode_call(found.body)
    assert (call.args, call.kwargs) == (["why?"], {"loud": True})
    retry = decode_policy(found.body).retry
    assert (retry.max_retries, retry.scope, retry.backoff.delay(2, 0)) == (7, "region", 2.0)


async def test_a_foreign_job_that_is_there_already_changes_nothing(store, path):
    await store.enqueue([job("a", unique_key="k")])
    foreign(path, "INSERT INTO inbox (task, id) VALUES ('other', 'a')")
    foreign(path, "INSERT INTO inbox (task, unique_key) VALUES ('other', 'k')")
    [stored] = (await store.page(Selection(), 10)).jobs
    assert stored.task == "ask"
    assert await rows(store, "SELECT * FROM refused") == []


@pytest.mark.parametrize(
    ("columns", "values", "reason"),
    [
        ("args", ["[]"], "task is missing"),
        ("task, args", ["ask", "[1,"], "args is not JSON"),
        ("task, args", ["ask", "{}"], "args is not a JSON array"),
        ("task, kwargs", ["ask", "nope"], "kwargs is not JSON"),
        ("task, kwargs", ["ask", "[]"], "kwargs is not a JSON object"),
        ("task, retry", ["ask", "{"], "retry is neither JSON nor the name of a preset"),
        ("task, retry", ["ask", '"often"'], 'retry "often" is not the name of a preset'),
        ("task, retry", ["ask", "3"], "retry is not a JSON object"),
        ("task, retry", ["ask", '{"max_retries":-1}'], "retry.max_retries -1 is not valid"),
        ("task, retry", ["ask", '{"scope":"moon"}'], "retry.scope moon is not valid"),
        ("task, retry", ["ask", '{"backoff":{"type":"none"}}'], "retry.backoff null is not valid"),
        (
            "task, retry",
            ["ask", '{"backoff":{"type":"exponential","jitter":"wild"}}'],
            "retry.backoff.jitter wild is not valid",
        ),
        (
            "task, retry",
            ["ask", '{"backoff":{"type":"delays","seconds":[1,"two"]}}'],
            "retry.backoff.seconds[1] two is not valid",
        ),
        (
            "task, priority",
            ["ask", "soon"],
            "priority is not one of normal (0), retry (1), urgent (2)",
        ),
        ("task, priority", ["ask", 3], "priority is not one of normal (0), retry (1), urgent (2)"),
        ("task, delay", ["ask", "soon"], "delay is not a number of seconds"),
        ("task, delay", ["ask", -1], "delay is not a number of seconds"),
        ("task, region", ["ask", "*-EU"], "region must not begin with *"),
        ("task", ["x" * 129], "task is not text of 1 to 128 characters"),
        ("task, queue", ["ask", "a\nb"], "queue is not text of 1 to 128 characters"),
        ("task, id", ["ask", ""], "id is not text of 1 to 128 characters"),
        ("task, unique_key", ["ask", 7], "unique_key is not text of 1 to 128 characters"),
        ("task, args", ["ask", f'["{"é" * 131_072}"]'], "the payload has more than 262144 bytes"),
        ("task, args", ["ask", "[" * 202 + "]" * 202], "an argument is nested more than 200"),
        (
            "task, kwargs",
            ["ask", '{"k":' * 202 + "{}" + "}" * 202],
            "an argument is nested more than 200",
        ),
    ],
)
async def test_what_cannot_be_a_job_is_set_aside_with_the_reason(
    store, path, columns, values, reason
):
    marks = ", ".join("?" * len(values))
    foreign(path, f"INSERT INTO inbox ({columns}) VALUES ({marks})", *values)  # noqa: S608
    foreign(path, "INSERT INTO inbox (task, id) VALUES ('ask', 'good')")
    assert [each.id for each in (await store.page(Selection(), 10)).jobs] == ["good"]
    [(said,)] = await rows(store, "SELECT reason FROM refused")
    assert said.startswith(reason)


async def test_an_argument_may_be_200_levels_deep_and_wide_besides(store, path):
    deep = f"[{'[' * 200 + ']' * 200}, {'[],' * 1000} 1]"
    foreign(path, "INSERT INTO inbox (task, id, args) VALUES ('ask', 'good', ?)", deep)
    assert await store.get("good") is not None


async def test_a_sleeper_soon_learns_of_a_foreign_job(url, path):
    async with handle(url, time.time) as store:
        await claim(store, worker=ANN)
        await claim(store, worker=BOB)
        waiting = asyncio.create_task(store.wait(ANN, 60.0))
        foreign(path, "INSERT INTO inbox (task, id) VALUES ('ask', 'a')")
        await waiting
        assert names(await claim(store, worker=ANN)) == ["a"]
        assert await rows(store, "SELECT worker FROM waiting WHERE rung") == []
        assert await rows(store, "SELECT worker FROM waiting WHERE asleep") == [(BOB.id,)]


async def test_of_two_sleepers_a_foreign_job_wakes_the_one_that_may_take_it_sooner(url, path):
    lane = Lane("default", "*", Priority.NORMAL)
    async with handle(url, time.time) as store:
        await claim(store, source(lane, waited=2.0, yields=True), worker=BOB)
        await claim(store, source(lane), worker=ANN)
        foreign(path, "INSERT INTO inbox (task, region) VALUES ('ask', '*')")
        assert await rows(store, "SELECT worker FROM waiting WHERE rung") == [(ANN.id,)]
        foreign(path, "INSERT INTO inbox (task, region) VALUES ('ask', '*')")
        assert len(await rows(store, "SELECT worker FROM waiting WHERE rung")) == 2


# -- a commit within the user's transaction ----------------------------------------------------


@pytest.fixture
async def running(store, db):
    """A claim, beside a table of the user's."""
    db.execute("CREATE TABLE balance (owner TEXT PRIMARY KEY, cents INTEGER)")
    [claimed] = await begin(store, job("a"))
    return claimed


def pay(connection, owner="ann"):
    connection.execute("INSERT INTO balance VALUES (?, 5)", (owner,))


def balances(db):
    return db.execute("SELECT owner, cents FROM balance").fetchall()


async def nothing_was_written(store, db):
    """Whether neither table shows anything of the work or its outcome, and the store goes on."""
    stored = await store.get("a")
    await store.enqueue(jobs("another"))
    return (stored.status, balances(db)) == ("processing", [])


async def test_the_work_and_the_outcome_are_written_together(store, db, running):
    [mail] = jobs("mail")
    assert await store.commit_within(done(running, b"7", mail), pay) == "written"
    assert balances(db) == [("ann", 5)]
    assert ((await store.get("a")).status, (await store.get("a")).result) == ("done", b"7")
    assert (await store.get("mail")).status == "pending"


async def test_others_see_nothing_before_both_are_there(store, db, path, running):
    def look(connection):
        pay(connection)
        other = sqlite3.connect(path)
        assert balances(other) == []
        assert other.execute("SELECT status FROM jobs").fetchall() == [("processing",)]
        other.close()

    assert await store.commit_within(done(running), look) == "written"
    assert balances(db) == [("ann", 5)]
    assert db.execute("SELECT status FROM jobs").fetchall() == [("done",)]


async def test_the_same_commit_again_does_not_do_the_work_again(store, db, running):
    await store.commit_within(done(running), pay)
    assert await store.commit_within(done(running), pay) == "already"
    assert balances(db) == [("ann", 5)]


async def test_who_has_lost_the_lease_does_no_work(store, db, clock, running):
    clock.advance(100)
    await store.reclaim(1, BOB)
    assert await store.commit_within(done(running), pay) == "stale"
    assert await nothing_was_written(store, db)


@pytest.mark.parametrize(
    "raised", [ValueError("no funds"), SystemExit(3), asyncio.CancelledError()]
)
async def test_what_the_work_raises_undoes_all_and_is_raised_as_it_is(store, db, running, raised):
    def fail(connection):
        pay(connection)
        raise raised

    with pytest.raises(type(raised)) as caught:
        await store.commit_within(done(running), fail)
    assert caught.value is raised
    assert caught.value.__context__ is None
    assert await nothing_was_written(store, db)


async def test_an_error_of_sqlite_in_the_work_is_the_users_own(store, db, running):
    def twice(connection):
        pay(connection)
        pay(connection)

    with pytest.raises(sqlite3.IntegrityError, match=r"UNIQUE constraint failed: balance\.owner"):
        await store.commit_within(done(running), twice)
    assert await nothing_was_written(store, db)


def commits(connection):
    pay(connection)
    connection.commit()


def commits_in_sql(connection):
    pay(connection)
    connection.execute("COMMIT")


def rolls_back(connection):
    connection.rollback()


def rolls_back_unheard(connection):
    pay(connection)
    with suppress(sqlite3.Error):
        connection.rollback()


def begins(connection):
    connection.execute("BEGIN")


def uses_with(connection):
    with connection:
        pay(connection)


def runs_a_script(connection):
    connection.executescript("INSERT INTO balance VALUES ('ann', 5)")


def closes(connection):
    pay(connection)
    connection.close()


def is_rolled_back_unheard(connection):
    pay(connection)
    with suppress(sqlite3.IntegrityError):
        connection.execute("INSERT OR ROLLBACK INTO balance VALUES ('ann', 6)")


async def is_asynchronous(connection):
    pay(connection)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (commits, "must not COMMIT by itself"),
        (commits_in_sql, "must not COMMIT by itself"),
        (begins, "must not BEGIN by itself"),
        (rolls_back, "must not ROLLBACK by itself"),
        (rolls_back_unheard, "must not ROLLBACK by itself"),
        (uses_with, "must not COMMIT by itself"),
        (runs_a_script, "must not COMMIT by itself"),
        (closes, "must not close the connection"),
        (is_rolled_back_unheard, "ended the transaction, so nothing was written"),
        (is_asynchronous, "must be a plain function"),
    ],
)
async def test_work_that_would_end_the_transaction_is_refused(store, db, running, work, message):
    with pytest.raises(InvalidError, match=message):
        await store.commit_within(done(running), work)
    assert await nothing_was_written(store, db)
    assert await store.commit_within(done(running), pay) == "written"
    assert balances(db) == [("ann", 5)]


async def test_work_may_undo_a_part_of_itself_and_read_rows_by_name(store, db, running):
    def careful(connection):
        connection.row_factory = sqlite3.Row
        pay(connection, "bob")
        connection.execute("SAVEPOINT part")
        pay(connection, "eve")
        connection.execute("ROLLBACK TO part")
        assert connection.execute("SELECT owner FROM balance").fetchone()["owner"] == "bob"

    assert await store.commit_within(done(running), careful) == "written"
    assert balances(db) == [("bob", 5)]
    assert isinstance((await rows(store, "SELECT 1"))[0], tuple)


async def test_work_is_done_once_whatever_is_asked_at_the_same_time(store, db, running):
    done_by = []

    def once(connection):
        done_by.append(connection)
        pay(connection)

    answers = await asyncio.gather(
        *(store.enqueue(jobs(f"j{i}")) for i in range(20)),
        store.commit_within(done(running), once),
        store.enqueue(jobs(*map(str, range(1001)))),
        *(store.enqueue(jobs(f"k{i}")) for i in range(20)),
        return_exceptions=True,
    )
    assert (answers[20], len(done_by)) == ("written", 1)
    assert isinstance(answers[21], InvalidError)
    assert balances(db) == [("ann", 5)]


async def test_work_is_done_in_a_store_without_a_thread_too(path, db, running, clock):
    store = SqliteStore(f"sqlite:///{path}", clock, inline=True)
    await store.open()
    assert await store.commit_within(done(running), pay) == "written"
    await store.close()
    assert balances(db) == [("ann", 5)]
