"""Work of the caller's own in one transaction with the outcome of a job."""

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from mulligan.core.errors import InvalidError, StoreError, StoreUnavailableError
from mulligan.core.lane import Lane
from mulligan.stores.postgres import statements
from tests.contract.builders import ANN, BOB, FRESH, again, begin, claim, done, job, jobs, names
from tests.stores.postgres.kit import connected, opened, schema_of


@pytest.fixture
def ledger(url) -> Iterator[str]:
    """A table of the user's own, beside the store's."""
    with connected(url) as connection:
        connection.execute("CREATE TABLE ledger (entry text NOT NULL)")
        yield f'"{schema_of(url)}".ledger'


def entries(url: str) -> list[str]:
    with connected(url) as connection:
        return [entry for [entry] in connection.execute("SELECT entry FROM ledger").fetchall()]


def writes(ledger: str, entry: str = "paid", *more: str):
    """Work that writes an entry, and whatever else is said."""

    async def work(connection: psycopg.AsyncConnection) -> None:
        await connection.execute(f"INSERT INTO {ledger} VALUES (%s)".encode(), (entry,))  # noqa: S608
        for statement in more:
            await connection.execute(statement.encode())

    return work


async def test_work_and_outcome_are_written_together(store, url, ledger):
    await store.enqueue([job("all", queue="gathered", awaits=1)])
    [first] = await begin(store, job("a", gather="all"))
    outcome = done(first, b"1", job("next"))
    assert await store.commit_within(outcome, writes(ledger)) == "written"
    assert entries(url) == ["paid"]
    stored = await store.get("a")
    assert stored is not None
    assert (stored.status, stored.result) == ("done", b"1")
    both = await claim(store, FRESH, Lane("gathered", "default", 0), demand=5)
    assert names(both) == ["all", "next"]


async def test_neither_is_seen_before_both_are_written(store, url, ledger):
    [first] = await begin(store, job("a"))

    async def work(connection: psycopg.AsyncConnection) -> None:
        await writes(ledger)(connection)
        assert entries(url) == []
        await store.enqueue(jobs("beside"))  # the store is there for the work too

    assert await store.commit_within(done(first), work) == "written"
    assert await store.get("beside") is not None


async def test_an_outcome_that_is_written_already_has_no_work_done(store, url, ledger):
    [first] = await begin(store, job("a"))
    assert await store.commit_within(done(first), writes(ledger)) == "written"
    assert await store.commit_within(done(first), writes(ledger)) == "already"
    assert entries(url) == ["paid"]


async def test_a_stale_lease_has_no_work_done(store, url, ledger):
    [first] = await begin(store, job("a"))
    await store.cancel(["a"], "enough")
    assert await store.commit_within(done(first), writes(ledger)) == "stale"
    assert entries(url) == []


async def test_a_lease_that_is_lost_during_the_work_undoes_it(store, url, ledger):
    [first] = await begin(store, job("a"))

    async def work(connection: psycopg.AsyncConnection) -> None:
        await writes(ledger)(connection)
        await store.leave(ANN)
        assert len(await store.reclaim(1, BOB)) == 1

    assert await store.commit_within(done(first, b"1", job("next")), work) == "stale"
    assert entries(url) == []
    assert await store.get("next") is None


@pytest.mark.parametrize(
    "error", [KeyError("mine"), psycopg.errors.UniqueViolation("mine"), psycopg.Rollback()]
)
async def test_what_the_work_raises_undoes_it_and_is_raised_unchanged(store, url, ledger, error):
    [first] = await begin(store, job("a"))

    async def work(connection: psycopg.AsyncConnection) -> None:
        await writes(ledger)(connection)
        raise error

    with pytest.raises(type(error)) as raised:
        await store.commit_within(done(first), work)
    assert raised.value is error
    assert entries(url) == []
    assert await store.commit([again(first)]) == ["written"], "the lease is still held"


async def test_work_that_is_cancelled_is_undone(store, url, ledger):
    [first] = await begin(store, job("a"))
    started = asyncio.Event()

    async def work(connection: psycopg.AsyncConnection) -> None:
        await writes(ledger)(connection)
        started.set()
        await asyncio.Event().wait()

    working = asyncio.create_task(store.commit_within(done(first), work))
    await started.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert entries(url) == []
    assert await store.commit_within(done(first), writes(ledger)) == "written"


async def test_work_may_not_end_the_transaction(store, url, ledger):
    [first] = await begin(store, job("a"))
    for ending in ("ROLLBACK", "COMMIT", "COMMIT; BEGIN"):
        with pytest.raises(InvalidError, match=r"job 'a' ended the transaction.*leave COMMIT"):
            await store.commit_within(done(first), writes(ledger, ending, ending))
    with pytest.raises(psycopg.ProgrammingError, match="forbidden"):
        await store.commit_within(done(first), lambda connection: connection.commit())
    assert await store.commit_within(done(first), writes(ledger, "last")) == "written"
    assert entries(url) == ["COMMIT", "COMMIT; BEGIN", "last"]


async def test_work_that_goes_on_after_a_failed_statement_writes_nothing(store, url, ledger):
    [first] = await begin(store, job("a"))

    async def work(connection: psycopg.AsyncConnection) -> None:
        await writes(ledger)(connection)
        with pytest.raises(psycopg.errors.DivisionByZero):
            await connection.execute("SELECT 1 / 0")

    with pytest.raises(StoreError, match="current transaction is aborted"):
        await store.commit_within(done(first), work)
    assert entries(url) == []


async def test_work_may_have_savepoints_and_rows_of_its_own(store, url, ledger):
    [first] = await begin(store, job("a"))

    async def work(connection: psycopg.AsyncConnection) -> None:
        connection.row_factory = dict_row  # type: ignore[assignment]
        await writes(ledger)(connection)
        async with connection.transaction(force_rollback=True):
            await writes(ledger, "undone")(connection)

    assert await store.commit_within(done(first), work) == "written"
    assert entries(url) == ["paid"]


async def test_a_process_that_is_stopped_before_it_ends_the_transaction_holds_nobody_up(
    store, url, ledger, monkeypatch
):
    """All that its outcome had locked is free before long, and what it did is undone."""
    monkeypatch.setattr(statements, "HURRY", 100)
    end = psycopg.AsyncTransaction.__aexit__

    async def stopped(transaction: psycopg.AsyncTransaction, *of: Any) -> bool:
        await store.enqueue([job("b", limits='{"k":1}')])
        assert await store.cancel(["a"], "enough") == [True]
        assert names(await claim(store, worker=BOB)) == ["b"]
        return await end(transaction, *of)

    async with opened(url) as other:
        [first] = await begin(other, job("a", limits='{"k":1}'))
        with monkeypatch.context() as patched:
            patched.setattr(psycopg.AsyncTransaction, "__aexit__", stopped)
            with pytest.raises(
                StoreUnavailableError, match=r"idle-in-transaction|closed the connection"
            ):
                await other.commit_within(done(first), writes(ledger))
        assert await other.commit_within(done(first), writes(ledger)) == "stale"
    assert entries(url) == []
