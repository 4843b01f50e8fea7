"""How the log of a SQLite file is copied into it: by a thread, beside the work."""

import shutil
import sqlite3
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from mulligan.stores.sqlite import SqliteStore, wal
from mulligan.stores.sqlite.wal import Checkpointer
from tests.contract.builders import job

LONGEST_WAIT = 60


class Thread:
    """What the thread does: it may be stopped after it has copied, or be made to fail."""

    def __init__(self):
        self.copied = 0
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.failure = None

    def connect(self, path, **options):
        self.db = sqlite3.connect(path, **options)
        return self

    def execute(self, statement):
        if self.failure is not None:
            raise self.failure
        row = self.db.execute(statement).fetchone()
        self.copied += 1
        assert self.may_go_on.wait(LONGEST_WAIT)
        return SimpleNamespace(fetchone=lambda: row)

    def close(self):
        self.db.close()


@pytest.fixture
def thread(monkeypatch):
    made = Thread()
    monkeypatch.setattr(wal, "connect", made.connect)
    return made


@pytest.fixture(autouse=True)
def sizes(monkeypatch):
    monkeypatch.setattr(wal, "STEP", 20)
    monkeypatch.setattr(wal, "LITTLE", 10)
    monkeypatch.setattr(wal, "LONGEST", 100)
    monkeypatch.setattr(wal, "FEW", 1)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.db"


@pytest.fixture
def db(path):
    made = sqlite3.connect(path, isolation_level=None)
    made.execute("PRAGMA journal_mode = WAL")
    made.execute("PRAGMA wal_autocheckpoint = 0")
    made.execute("CREATE TABLE page (text TEXT)")
    yield made
    made.close()


@pytest.fixture
def checkpointer(db, path, thread):
    made = Checkpointer(str(path), db)
    yield made
    thread.may_go_on.set()
    made.close()


def write(db, pages):
    """Make the log longer by so many pages, and a few."""
    db.execute("INSERT INTO page VALUES (?)", ("x" * 4096 * pages,))


def look(checkpointer):
    """Look, and have the thread finish what it is asked for."""
    checkpointer.look()
    assert checkpointer._idle.wait(LONGEST_WAIT)


@contextmanager
def reading(path):
    """Read from the log as it is, so that it cannot be reset."""
    reader = sqlite3.connect(path)
    rows = reader.execute("SELECT 1 FROM sqlite_schema")
    yield
    rows.close()
    reader.close()


def is_reset(db, path):
    """Whether the next to write finds that all of the log has been copied."""
    log = path.with_name(f"{path.name}-wal")
    header = log.read_bytes()[:32]
    write(db, 1)
    return log.read_bytes()[:32] != header


def test_a_log_is_copied_once_for_every_step_that_it_grows(db, path, checkpointer, thread):
    look(checkpointer)
    assert thread.copied == 0, "too short"
    with reading(path):
        for steps in range(1, 4):
            write(db, 20)
            look(checkpointer)
            look(checkpointer)
            assert thread.copied == steps


def test_a_log_is_looked_at_only_after_a_few_changes(db, path, checkpointer, thread, monkeypatch):
    monkeypatch.setattr(wal, "FEW", 4)
    for copied in (0, 0, 0, 1):
        write(db, 20)
        look(checkpointer)
        assert thread.copied == copied


def test_a_log_that_was_reset_is_short_again(db, path, checkpointer, thread):
    write(db, 60)
    look(checkpointer)
    assert is_reset(db, path)
    look(checkpointer)
    assert thread.copied == 1
    write(db, 20)
    look(checkpointer)
    assert thread.copied == 2


@pytest.mark.parametrize("more", [1, 12])
def test_who_writes_does_the_rest_if_the_thread_left_little(db, path, checkpointer, thread, more):
    write(db, 20)
    with reading(path):
        look(checkpointer)
        write(db, more)
    look(checkpointer)
    assert is_reset(db, path) == (more < 10)
    assert thread.copied == 1


def test_who_makes_the_log_too_long_waits_for_the_thread_and_does_the_rest(
    db, path, checkpointer, thread, monkeypatch
):
    wait = checkpointer._idle.wait

    def waits(seconds):
        thread.may_go_on.set()
        return wait(seconds)

    monkeypatch.setattr(checkpointer._idle, "wait", waits)
    thread.may_go_on.clear()
    write(db, 20)
    checkpointer.look()
    write(db, 20)
    checkpointer.look()
    assert not thread.may_go_on.is_set(), "nobody waits for the thread while there is room"
    write(db, 100)
    checkpointer.look()
    assert thread.may_go_on.is_set()
    assert is_reset(db, path)


def test_where_no_thread_can_be_had_who_writes_does_it_all(db, path, checkpointer, monkeypatch):
    def start(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    write(db, 20)
    look(checkpointer)
    assert is_reset(db, path)


def test_a_file_that_cannot_be_opened_once_more_keeps_nobody_from_writing(
    db, path, checkpointer, monkeypatch
):
    def refuse(*_, **__):
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(wal, "connect", refuse)
    write(db, 20)
    look(checkpointer)
    write(db, 100)
    look(checkpointer)
    assert is_reset(db, path)


def test_a_checkpoint_that_fails_is_tried_again_a_step_later(db, checkpointer, thread):
    thread.failure = sqlite3.OperationalError("disk I/O error")
    write(db, 20)
    look(checkpointer)
    thread.failure = None
    write(db, 30)
    look(checkpointer)
    assert thread.copied == 1


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("option", ["", "?durability=normal"])
async def test_what_a_store_writes_reaches_its_file_without_a_commit_for_it(
    tmp_path, inline, option
):
    path = tmp_path / "jobs.db"
    store = SqliteStore(f"sqlite:///{path}{option}", inline=inline)
    await store.open()
    await store.enqueue([job(str(number)) for number in range(1000)])
    give_up = time.monotonic() + LONGEST_WAIT
    while jobs_in(path, tmp_path / "alone.db") < 1000:
        assert time.monotonic() < give_up
    await store.close()


def jobs_in(path, alone):
    """How many jobs the file holds without its log."""
    shutil.copy(path, alone)
    db = sqlite3.connect(alone)
    try:
        [[number]] = db.execute("SELECT count(*) FROM job")
    except sqlite3.DatabaseError:  # copied while it was written
        number = 0
    db.close()
    return number
