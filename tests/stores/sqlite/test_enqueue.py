"""What an enqueue asks of the file."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from mulligan.core.fields import NEW_JOB, OPTIONS, names_of
from mulligan.stores.sqlite.enqueue import are_alike
from mulligan.stores.sqlite.wal import PAGE_HEADER, wal_path
from tests.contract.builders import job, jobs
from tests.stores.sqlite.kit import SQL, foreign, rows, traced

# Another value of each field, but for those in which jobs that are alike may differ.
OTHERS = {
    "queue": "other",
    "task": "other",
    "region": "other",
    "priority": 2,
    "delay": 1.0,
    "unique_key": "k",
    "limits": '{"k":1}',
    "fairness_key": "f",
    "expires": 1.0,
    "unique_in": "other",
    "awaits": 1,
    "gather": "other",
    "gather_index": 1,
    "keep": 60,
    "debounce_max": 60.0,
    "unique_for": 60.0,
    "return_exceptions": True,
}


async def test_which_jobs_are_new_is_asked_only_if_not_all_are(store):
    seen = await traced(store)
    asked = SQL["enqueue"]["created"].split("WHERE")[0]
    await store.enqueue(jobs(*(f"first-{number}" for number in range(120))))
    assert not [each for each in seen if asked in each]
    await store.enqueue(jobs(*(f"first-{number}" for number in range(110, 230))))
    assert [each for each in seen if asked in each]


def test_jobs_are_alike_that_differ_in_id_and_body_alone():
    assert are_alike([job("a"), job("b", body=b"{}")])
    of_debounced = {"debounces"}  # says nothing of others
    assert {*OTHERS} == {*names_of(NEW_JOB)} - {"id", "body"} - of_debounced


@pytest.mark.parametrize("name", OTHERS)
def test_jobs_that_differ_in_anything_else_are_not_alike(name):
    other = replace(job("b"), **{name: OTHERS[name]})
    assert not are_alike([job("a"), other])
    assert are_alike([other, other]) == (name not in OPTIONS)


async def test_a_job_is_written_to_its_table_the_index_of_ids_and_its_lane_alone(store, path):
    def pages():
        return Path(wal_path(str(path))).stat().st_size // (PAGE_HEADER + 4096)

    await store.enqueue(jobs("a"))
    before = pages()
    await store.enqueue(jobs("b"))
    assert pages() - before == 3


async def test_a_job_of_another_program_comes_after_those_that_were_enqueued(store, path):
    await store.enqueue(jobs("a"))
    foreign(path, "INSERT INTO inbox (task, id) VALUES ('ask', 'b')")
    await store.enqueue(jobs("c"))
    assert await rows(store, "SELECT number, id FROM job") == [(1, "a"), (2, "b"), (3, "c")]


async def test_no_job_has_the_number_of_one_that_is_gone(store, clock):
    await store.enqueue(jobs("a"))
    await store.cancel(["a"], "no more")
    clock.advance(1)
    assert await store.prune(0, 10) == 1
    await store.enqueue(jobs("b"))
    assert await rows(store, "SELECT number, id FROM job") == [(2, "b")]


async def test_a_debounced_job_that_is_put_off_takes_a_number_of_its_own(store):
    debounced = job("a", unique_key="k", debounce_max=60.0, delay=5.0)
    await store.enqueue([debounced])
    await store.enqueue([replace(debounced, id="b")])
    await store.enqueue(jobs("c"))
    found = await rows(store, "SELECT number, sequence, id FROM job")
    assert found == [(1, 2, "a"), (3, 3, "c")]
