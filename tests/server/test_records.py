"""What jobs record, over HTTP: shown, followed live, and recorded by workers in any language."""

import json

import pytest

from mulligan.core.record import Record, Recording, line_value, progress_value
from mulligan.core.settings import LINE_LIMIT
from mulligan.server.events import LISTENERS, JobHubs
from mulligan.server.problems import Refusal
from tests.cli.command_line import claim as claim_in_process
from tests.contract.builders import dead
from tests.server.conftest import good, refused
from tests.server.test_workers import job, join, take


async def running(store, name="a"):
    """A job that a worker in process runs."""
    await store.enqueue([job(name)])
    [claim] = await claim_in_process(store, 1)
    return claim


def recording(claim, *records):
    return Recording(claim.lease, records)


async def test_records_are_shown_without_secrets_and_long_results(client, store, clock):
    claim = await running(store)
    await store.record(
        [
            recording(
                claim,
                Record("step", 1, b'{"password":"hunter2","order":7}', "charge"),
                Record("step", 2, b'"' + b"x" * 2000 + b'"', "download"),
                Record("log", 3, b'"password=hunter2 was used"'),
                Record("progress", 4, b'{"done":4,"of":10,"note":"resizing"}'),
                Record("checkpoint", 5, b'{"row":4}'),
            )
        ]
    )
    now = clock()
    assert await good(client.get("/api/jobs/a/records")) == {
        "steps": [
            {
                "name": "charge",
                "at": now,
                "size": 32,
                "result": {"password": "***", "order": 7},
            },
            {"name": "download", "at": now, "size": 2002},
        ],
        "progress": {"done": 4, "of": 10, "note": "resizing", "at": now},
        "log": [{"at": now, "text": "password=*** was used"}],
        "checkpoint": {"at": now, "size": 9, "value": {"row": 4}},
    }


async def test_long_lines_and_notes_are_shown_whole(client, store):
    claim = await running(store)
    text = "x" * LINE_LIMIT
    said = (Record("log", 1, line_value(text)), Record("progress", 2, progress_value(1, 2, text)))
    await store.record([recording(claim, *said)])
    shown = await good(client.get("/api/jobs/a/records"))
    assert ([line["text"] for line in shown["log"]], shown["progress"]["note"]) == ([text], text)


async def test_a_job_without_records_and_an_unknown_one(client, store):
    await running(store)
    assert await good(client.get("/api/jobs/a/records")) == {
        "steps": [],
        "progress": None,
        "log": [],
        "checkpoint": None,
    }
    await refused(client.get("/api/jobs/nobody/records"), 404)
    await refused(client.get("/api/jobs/nobody/events"), 404)


async def test_who_follows_a_job_gets_what_it_records(client, store):
    claim = await running(store)
    service = client.service
    hub = service.job_hubs.of("a")
    hub._every = 0.001
    listener = hub.join()
    stream = hub.stream(listener)
    name, document = read(await anext(stream))
    assert (name, document["status"], document["progress"]) == ("snapshot", "processing", None)
    await store.record([recording(claim, Record("progress", 1, b'{"done":1,"of":2}'))])
    name, document = read(await anext(stream))
    assert (name, document["progress"]["done"]) == ("change", 1)
    assert "steps" not in document
    hub.leave(listener)


def read(event):
    name, data, *_ = event.decode().split("\n")
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


async def test_too_many_followers_are_refused_and_those_who_left_are_not_counted():
    async def look(_job):
        return {"now": 0.0}

    hubs = JobHubs(look)
    joined = [(hub := hubs.of(f"j{number}"), hub.join()) for number in range(LISTENERS)]
    with pytest.raises(Refusal, match="follow jobs already"):
        hubs.of("one more")
    hub, listener = joined[0]
    hub.leave(listener)
    hubs.of("one more").join()
    hubs.stop()


async def test_replay_over_http_keeps_records_unless_from_start(client, store):
    for number, asked in enumerate(({}, {"from_start": True})):
        claim = await running(store, f"j{number}")
        await store.record([recording(claim, Record("step", 1, b"1", "x"))])
        await store.commit([dead(claim)])
        body = {"ids": [f"j{number}"], **asked}
        assert (await good(client.post("/api/jobs/replay", json=body)))["changed"] == 1
        left = (await good(client.get(f"/api/jobs/j{number}/records")))["steps"]
        assert len(left) == (0 if asked else 1)
        await store.cancel([f"j{number}"], "over")


# -- workers in any language ---------------------------------------------------------------


async def test_a_worker_records_steps_and_the_next_attempt_is_given_them(client, store, clock):
    await store.enqueue([job("a")])
    worker = await join(client)
    lease = (await take(client, worker))["a"]
    said = lease | {
        "number": 1,
        "steps": [{"name": "charge", "result": {"id": 7}}],
        "progress": {"done": 1, "of": 3, "note": "charged"},
        "log": ["one", "two"],
        "checkpoint": [1],
    }
    for _ in range(2):  # a request may be sent again
        (answer,) = (
            await good(client.post("/worker/record", json={"worker": worker, "jobs": [said]}))
        )["jobs"]
        assert answer == lease | {"verdict": "recorded"}
    shown = await good(client.get("/api/jobs/a/records"))
    assert [line["text"] for line in shown["log"]] == ["one", "two"]
    assert shown["progress"]["note"] == "charged"
    failed = {"worker": worker, "jobs": [lease | {"reason": "busy"}]}
    await good(client.post("/worker/nack", json=failed))
    (answer,) = (
        await good(client.post("/worker/record", json={"worker": worker, "jobs": [said]}))
    )["jobs"]
    assert answer["verdict"] == "stale"
    clock.advance(5)
    second = (await take(client, worker))["a"]
    assert await good(
        client.post("/worker/records", json=second | {"worker": worker})
    ) == second | {
        "steps": [{"name": "charge", "result": {"id": 7}}],
        "checkpoint": [1],
    }
    await refused(client.post("/worker/records", json=lease | {"worker": worker}), 409)


async def test_no_worker_records_for_another(client, store):
    await store.enqueue([job("a")])
    worker, other = await join(client), await join(client)
    lease = (await take(client, worker))["a"]
    said = {"worker": other, "jobs": [lease | {"number": 1, "log": ["mine"]}]}
    (answer,) = (await good(client.post("/worker/record", json=said)))["jobs"]
    assert answer["verdict"] == "stale"
    assert await store.records("a") == []


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"steps": [{"name": "x", "result": "y" * 300_000}]}, "more than the 262144 allowed"),
        ({"progress": {"done": 1, "of": 0}}, "must be above 0"),
        ({"steps": [{"name": f"s{n}", "result": 1} for n in range(1001)]}, ""),
        ({"number": 0}, ""),
        ({"steps": [{"name": "a\nb", "result": 1}]}, ""),
    ],
)
async def test_what_cannot_be_recorded_is_refused_and_nothing_is_written(
    client, store, said, words
):
    await store.enqueue([job("a")])
    worker = await join(client)
    lease = (await take(client, worker))["a"]
    body = {"worker": worker, "jobs": [lease | {"number": 1, "log": ["x"]} | said]}
    await refused(client.post("/worker/record", json=body), 422, words)
    assert await store.records("a") == []


async def test_more_steps_than_a_job_may_have_are_refused(client, store):
    await store.enqueue([job("a")])
    worker = await join(client)
    lease = (await take(client, worker))["a"]

    def body(number, names):
        steps = [{"name": name, "result": 1} for name in names]
        return {"worker": worker, "jobs": [lease | {"number": number, "steps": steps}]}

    first = body(1, [f"s{n}" for n in range(1000)])
    await good(client.post("/worker/record", json=first))
    await good(client.post("/worker/record", json=body(2, ["s7"])))
    await refused(client.post("/worker/record", json=body(3, ["new"])), 422, "at most 1000")
