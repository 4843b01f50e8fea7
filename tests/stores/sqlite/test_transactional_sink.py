"""A commit within the user's transaction."""

import asyncio
import sqlite3
from contextlib import suppress

import pytest

from mulligan.core.errors import InvalidError
from mulligan.stores.sqlite import SqliteStore
from tests.contract.builders import BOB, begin, done, job, jobs
from tests.stores.sqlite.kit import rows


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
