"""Whatever the description allows is answered as it says, and nothing makes the server fail."""

from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import one_of

from mulligan.server.openapi import describe
from mulligan.server.routes import ROUTES
from tests.server.process import client_of, server

# An event stream has no end that a check could wait for.
ROWS = [row for row in ROUTES if row.path != "/api/events"]
PROMISES = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)


@cache
def description():
    """The API as schemathesis reads it; importing it is paid for by who runs these tests."""
    import schemathesis  # noqa: PLC0415 - as above

    return schemathesis.openapi.from_dict(describe(ROWS))


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A server over a store with jobs in every state."""
    url = f"sqlite:///{tmp_path_factory.mktemp('store')}/jobs.db"
    with server("--store", url) as (found, _), client_of(found) as client:

        def post(path, body):
            answer = client.post(path, json=body)
            assert answer.status_code == 200, answer.text
            return answer.json()

        post("/api/jobs", [{"task": "t", "id": str(n), "args": [n]} for n in range(6)])
        worker = post("/worker/join", {})["worker"]
        claimed = post("/worker/claim", {"worker": worker, "limit": 4})["jobs"]
        done, dead, again, _ = [{"id": job["id"], "token": job["token"]} for job in claimed]
        post("/worker/ack", {"worker": worker, "jobs": [done | {"result": [1]}]})
        failed = {"reason": "no", "non_retryable": True}
        lost = [dead | failed, again | failed | {"non_retryable": False}]
        post("/worker/nack", {"worker": worker, "jobs": lost})
        yield found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.method} {row.path}")
def test_every_route_keeps_its_promises(row, address):
    from schemathesis import GenerationMode  # noqa: PLC0415 - as above
    from schemathesis.checks import CHECKS  # noqa: PLC0415 - as above

    operation = description()[row.path][row.method]
    checks = [CHECKS.get_one(name) for name in PROMISES]
    # What the description does not allow is tried too, where there is something to get wrong.
    says = operation.definition.raw
    modes = list(GenerationMode) if says["parameters"] or row.body else [GenerationMode.POSITIVE]

    @settings(max_examples=10, suppress_health_check=list(HealthCheck))
    @given(case=one_of([operation.as_strategy(generation_mode=mode) for mode in modes]))
    def check(case):
        case.call_and_validate(base_url=address, checks=checks)

    check()
