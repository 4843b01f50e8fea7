"""The fields of a job in rows and statements."""

import pytest

from mulligan.core.job import Claim, Job
from mulligan.core.lane import Lane
from mulligan.core.worker import Worker
from mulligan.stores.sqlite import fields
from tests.contract.builders import ANN, begin, job
from tests.stores.sqlite.kit import explain


def test_a_claim_has_each_value_under_its_own_name():
    row = (*fields.WALKED, *fields.CLAIMED)
    [claim] = fields.claims_of(
        Lane("queue", "scope", "lane_priority"),  # type: ignore[arg-type]
        [row],
        Worker("worker", region="worker_region"),
        "started_at",  # type: ignore[arg-type]
    )
    assert claim == Claim(**{name: name for name in Claim.__struct_fields__})  # type: ignore[arg-type]


def test_a_row_of_a_new_job_has_a_value_for_each_column():
    new = job("a", delay=1.0)
    row = dict(zip(fields.PLAIN_COLUMNS, fields.plain_row(new, 7, 11.0, 10.0), strict=True))
    assert row["number"] == row["sequence"] == 7
    assert (row["id"], row["queue"], row["scope"], row["lane_priority"]) == ("a", *new.lane)
    assert (row["due"], row["delayed"], row["created_at"]) == (11.0, True, 10.0)
    assert (row["body"], row["token"]) == (new.body, 7 * 4096)


def test_what_alike_jobs_share_fills_the_rest_of_their_columns():
    new = job("a")
    shared = fields.shared_row(new, 11.0, 10.0, 4096)
    assert len(shared) == fields.ALIKE_LIST.count("?")


async def test_alike_jobs_are_stored_as_others_are(store):
    many = [job(f"a{number}", delay=1.0) for number in range(60)]
    await store.enqueue(many)
    await store.enqueue(
        [*(job(f"b{number}", delay=1.0) for number in range(59)), job("b", delay=2.0)]
    )
    for number in range(59):
        alike, other = await store.get(f"a{number}"), await store.get(f"b{number}")
        differs = {"id", "sequence", "token"}
        for name in {*Job.__struct_fields__} - differs:
            assert getattr(alike, name) == getattr(other, name), name
        assert alike.token == alike.sequence * 4096


async def test_what_is_reclaimed_says_what_the_claim_said_but_for_its_token(store, clock):
    [claimed] = await begin(store, job("a"), worker=ANN)
    clock.advance(100)
    [reclaimed] = await store.reclaim(1, Worker("other"))
    assert reclaimed.token == claimed.token + 1
    for name in {*Claim.__struct_fields__} - {"token"}:
        assert getattr(reclaimed, name) == getattr(claimed, name), name


@pytest.mark.parametrize(
    ("room", "name"),
    [("row_writer", "insert_new"), ("row_writer", "insert_adopted"), ("row_writer", "add_attempt")],
)
def test_what_is_inserted_has_a_column(db, room, name):
    explain(db, room, name)
