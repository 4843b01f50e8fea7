"""What an enqueue asks of the file."""

import pytest
from msgspec.structs import replace

from mulligan.core.fields import NEW_JOB, OPTIONS, names_of
from mulligan.stores.sqlite.enqueue import are_alike
from tests.contract.making import job, jobs
from tests.stores.sqlite.kit import SQL, traced

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
    assert {*OTHERS} == {*names_of(NEW_JOB)} - {"id", "body"}


@pytest.mark.parametrize("name", OTHERS)
def test_jobs_that_differ_in_anything_else_are_not_alike(name):
    other = replace(job("b"), **{name: OTHERS[name]})
    assert not are_alike([job("a"), other])
    assert are_alike([other, other]) == (name not in OPTIONS)
