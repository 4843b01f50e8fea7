"""Jobs that plain code enqueues one by one, on its own thread and without a coroutine."""

import sqlite3

import pytest

from mulligan import Mulligan
from mulligan.core.errors import InvalidError, StoreError, StoreUnavailableError
from mulligan.core.signature import SIGNATURE
from mulligan.stores.sqlite import connection, wal


def rows(path, statement):
    other = sqlite3.connect(path)
    found = other.execute(statement).fetchall()
    other.close()
    return found


@pytest.fixture
def app(url):
    made = Mulligan(url)
    yield made
    made.close()


@pytest.fixture
def ask(app):
    @app.task
    def ask(number: int) -> int:
        return number

    return ask


def test_the_job_that_was_there_before_is_named(ask, path):
    assert ask.using(id="mine").enqueue(1).created
    again = ask.using(id="mine").enqueue(2)
    assert (again.id, again.created) == ("mine", False)
    assert rows(path, "SELECT count(*) FROM job") == [(1,)]


def test_a_job_is_answered_only_when_the_disk_has_it(ask, path, monkeypatch):
    ask.enqueue(0)
    synced = []
    monkeypatch.setattr(
        wal, "sync_file", lambda _: synced.append(len(rows(path, "SELECT 1 FROM job")))
    )
    ask.enqueue(1)
    assert synced == [2]


def test_a_disk_that_fails_is_told_to_who_enqueues(ask, monkeypatch):
    ask.enqueue(0)

    def fail(_: int) -> None:
        raise OSError(5, "I/O error")

    monkeypatch.setattr(wal, "sync_file", fail)
    with pytest.raises(StoreError, match="the disk failed"):
        ask.enqueue(1)


def test_a_locked_file_is_waited_for(ask, path, monkeypatch):
    ask.enqueue(0)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(connection, "LOCK_TIMEOUT", 0.01)
    with pytest.raises(StoreUnavailableError, match="has been locked by another"):
        ask.enqueue(1)
    monkeypatch.setattr(connection, "LOCK_TIMEOUT", 30.0)
    monkeypatch.setattr("time.sleep", lambda _: other.execute("COMMIT"))
    assert ask.enqueue(2).created
    other.close()
    assert rows(path, "SELECT count(*) FROM job") == [(2,)]


def test_what_one_write_refuses_leaves_nothing_and_hinders_nobody(ask, app, path):
    ask.enqueue(0)
    store = app.access._opened()
    with pytest.raises(InvalidError, match="over the limit"):
        store.enqueue_here([ask.call(number).job for number in range(1001)])
    assert ask.enqueue(1).created
    assert rows(path, "SELECT count(*) FROM job") == [(2,)]


def test_a_checkpoint_that_fails_does_not_enqueue_the_job_again(ask, path, monkeypatch):
    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    ask.enqueue(0)
    monkeypatch.setattr(wal, "FEW", 0)
    monkeypatch.setattr(wal, "LONGEST", 1)
    monkeypatch.setattr(wal, "checkpoint", fail)
    assert ask.enqueue(1).created
    assert rows(path, "SELECT count(*) FROM job") == [(2,)]


def test_a_job_is_signed_if_the_app_signs(url, path):
    app = Mulligan(url, signing_keys=["k" * 32])

    @app.task
    def pay() -> None: ...

    pay.enqueue()
    app.close()
    [(body,)] = rows(path, "SELECT body FROM job")
    assert SIGNATURE.search(body)
