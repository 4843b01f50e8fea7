"""Limits and fairness keys over HTTP: seen, changed, spent and paused."""

import pytest

from mulligan import Delays, Retry
from mulligan.core.facts import QueueSettings
from mulligan.core.job import NewJob, encode
from mulligan.core.limits import Limit, costs_text
from mulligan.server.attempts import LONGEST_PAUSE
from tests.server.conftest import good, refused
from tests.server.test_workers import join, say, take


def job(name, limits=None, **fields):
    """A job that names these limits."""
    body = {"task": "send", "args": [name], "kwargs": {}, "retry": Retry(1, Delays((5.0,)))}
    return NewJob(
        name, "mail", "send", encode(body), "default", limits=costs_text(limits or {}), **fields
    )


@pytest.fixture
async def limited(store):
    """The store with a limit, a bucket of tokens and a family."""
    await store.set_limit("openai", Limit(rate=60, per=60), declared=True)
    await store.set_limit("tokens", Limit(rate=100, per=10, burst=100), declared=True)
    await store.set_limit("tenant:*", Limit(concurrency=1), declared=True)
    return store


async def test_limits_are_listed_and_looked_at(client, limited, clock):
    await limited.enqueue([job(f"j{n}", {"tenant:acme": 1}) for n in range(3)])
    await take(client, await join(client))
    whole = await good(client.get("/api/limits"))
    assert [each["name"] for each in whole["limits"]] == [
        *("openai", "tenant:*", "tenant:acme", "tokens")
    ]
    one = await good(client.get("/api/limits/tenant:acme"))
    assert (one["running"], one["waiting"], one["in_force"]["concurrency"]) == (1, 2, 1)
    assert whole["now"] == pytest.approx(clock())
    await refused(client.get("/api/limits/opnai"), 404, "no limit 'opnai' is stored; there are:")


async def test_a_limit_is_set_reset_paused_and_resumed(client, limited):
    view = await good(client.post("/api/limits/openai", json={"rate": 30, "concurrency": 2}))
    assert view["in_force"] == {"concurrency": 2, "rate": 30, "per": 60.0}
    view = await good(client.post("/api/limits/openai", json={"concurrency": None}))
    assert "concurrency" not in view["in_force"]
    view = (await good(client.post("/api/limits/openai/reset", json={})))["limit"]
    assert view["in_force"]["rate"] == 60
    view = await good(client.post("/api/limits/openai/pause", json={"seconds": 20}))
    assert view["paused_until"] == pytest.approx((await limited.facts()).now + 20)
    view = await good(client.post("/api/limits/openai/resume", json={}))
    assert view["paused_until"] is None


@pytest.mark.parametrize(
    ("status", "path", "body", "words"),
    [
        (422, "openai", {}, "nothing is to change"),
        (422, "openai", {"rate": 0}, "rate"),
        (422, "openai", {"rate": None}, "a limit needs concurrency=, rate=, or both"),
        (422, "a*b", {"rate": 1}, "'*' only as its last character"),
        (422, "openai/pause", {"seconds": 0}, "seconds"),
        (422, "tenant:*/pause", {"seconds": 5}, "is a family"),
        (404, "opnai/pause", {"seconds": 5}, "no limit 'opnai'"),
        (404, "opnai/resume", {}, "no limit 'opnai'"),
        (404, "opnai/reset", {}, "no limit 'opnai'"),
    ],
)
async def test_what_cannot_be_is_refused(  # noqa: PLR0917 - a table
    client, limited, status, path, body, words
):
    before = await limited.limits(10)
    await refused(client.post(f"/api/limits/{path}", json=body), status, words)
    assert await limited.limits(10) == before


async def test_weights_are_set(client, store):
    await store.configure("mail", QueueSettings(weights=(("big", 2.0),)))
    answer = await good(client.post("/api/queues/mail/weights", json={"weights": {"acme": 3}}))
    assert answer == {"queue": "mail", "weights": {"acme": 3.0, "big": 2.0}}
    answer = await good(client.post("/api/queues/mail/weights", json={"weights": {"big": 1}}))
    assert answer["weights"] == {"acme": 3.0}
    post = client.post("/api/queues/mail/weights", json={"weights": {"acme": 0}})
    await refused(post, 422, ">= 0.001")
    assert (await store.facts()).queue("mail").weights == (("acme", 3.0),)


async def test_keys_are_seen_by_those_who_may_read(client, store):
    await store.configure("mail", QueueSettings(weights=(("big", 3.0),)))
    await store.enqueue([job(f"a{n}", fairness_key="acme") for n in range(2)])
    await store.enqueue([job("b", fairness_key="big")])
    seen = (await good(client.get("/api/queues/mail/keys")))["keys"]
    assert [(each["key"], each["waiting"], each["share"]) for each in seen] == [
        ("acme", 2, 0.25),
        ("big", 1, 0.75),
    ]


async def test_what_a_worker_has_spent_is_charged_once(client, limited):
    await limited.enqueue([job("a", {"tokens": 10})])
    leases = await take(client, await join(client))
    ended = leases["a"] | {"result": 1, "spent": {"tokens": 70}}
    assert (await say(client, "ack", ended))[0]["outcome"] == "done"
    assert (await say(client, "ack", ended))[0]["verdict"] == "already"
    assert (await good(client.get("/api/limits/tokens")))["used"] == 80


async def test_what_is_spent_of_a_limit_that_nobody_has_set_is_refused(client, limited):
    await limited.enqueue([job("a", {"tokens": 10})])
    worker = await join(client)
    leases = await take(client, worker)
    bad = {"worker": worker, "jobs": [leases["a"] | {"spent": {"token": 70}}]}
    await refused(client.post("/worker/ack", json=bad), 422, "limit 'token' is not declared")
    await limited.set_limit("token", Limit(rate=100), declared=False)
    assert (await good(client.post("/worker/ack", json=bad)))["jobs"][0]["outcome"] == "done"
    assert (await good(client.get("/api/limits/token")))["used"] == 70


async def test_one_that_was_told_to_come_back_later_pauses_the_limit(client, limited):
    await limited.enqueue([job("a", {"openai": 1}), job("b", {"openai": 1})])
    worker = await join(client, concurrency=1)
    leases = await take(client, worker)
    told = leases["a"] | {"reason": "429", "delay": 20, "pause": ["openai"]}
    assert (await say(client, "nack", told))[0]["outcome"] == "retry"
    view = await good(client.get("/api/limits/openai"))
    assert view["paused_until"] == pytest.approx((await limited.facts()).now + 20)


async def test_a_worker_pauses_limits_of_its_own_jobs_alone(client, limited):
    await limited.enqueue([job("a", {"openai": 1})])
    worker = await join(client)
    leases = await take(client, worker)
    told = leases["a"] | {"reason": "429", "delay": 20, "pause": ["openai", "tokens"]}
    asked = client.post("/worker/nack", json={"worker": worker, "jobs": [told]})
    await refused(asked, 422, "limit 'tokens' is not one of the job's limits (openai)")
    assert (await good(client.get("/api/limits/tokens")))["paused_until"] is None
    assert (await limited.get("a")).status == "processing"


@pytest.mark.parametrize("told", [{"pause": ["openai"]}, {}])
async def test_a_worker_pauses_no_limit_for_longer_than_operators_allow(client, limited, told):
    await limited.set_limit(
        "openai", Limit(rate=100, pause_on_retry_after=not told), declared=False
    )
    await limited.enqueue([job("a", {"openai": 1})])
    leases = await take(client, await join(client))
    ended = leases["a"] | {"reason": "429", "delay": 1_000_000, **told}
    assert (await say(client, "nack", ended))[0]["delay"] == 1_000_000
    view = await good(client.get("/api/limits/openai"))
    longest = (await limited.facts()).now + LONGEST_PAUSE
    assert view["paused_until"] == pytest.approx(longest)


async def test_a_pause_without_a_delay_is_refused_and_nothing_is_written(client, limited):
    await limited.enqueue([job("a", {"openai": 1})])
    worker = await join(client)
    leases = await take(client, worker)
    told = {"worker": worker, "jobs": [leases["a"] | {"reason": "429", "pause": ["openai"]}]}
    await refused(client.post("/worker/nack", json=told), 422, "pause openai needs a delay")
    family = leases["a"] | {"reason": "429", "delay": 5, "pause": ["tenant:*"]}
    told = {"worker": worker, "jobs": [family]}
    await refused(client.post("/worker/nack", json=told), 422, "is a family; pause its names")
    bad = {"worker": worker, "jobs": [leases["a"] | {"spent": {"tokens": 0}}]}
    await refused(client.post("/worker/ack", json=bad), 422, "spent")
    pattern = {"worker": worker, "jobs": [leases["a"] | {"spent": {"tenant:*": 1}}]}
    await refused(client.post("/worker/ack", json=pattern), 422, "is a pattern")
    assert (await limited.get("a")).status == "processing"
