"""Workers over HTTP live by the same rules as workers in process."""

import asyncio
import threading
import time

import pytest

from mulligan import Adaptive, Delays, Retry
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import RetryFirst
from mulligan.core.job import NewJob, encode
from mulligan.core.known_tasks import KNOWS, LIVE_WITHIN, read_registrations
from mulligan.core.lane import Lane
from mulligan.core.outcome import Snoozed
from mulligan.core.record import Record, Recording
from mulligan.core.settings import Settings
from mulligan.core.worker import Worker
from mulligan.engine.known_tasks import KnownTasks
from mulligan.server import joins, sessions
from mulligan.server.service import SMALL
from mulligan.server.tokens import Tokens, digest
from tests.cli.command_line import claim as claim_in_process
from tests.cli.command_line import fail
from tests.server.apps import app
from tests.server.conftest import good, refused
from tests.server.process import LONGEST_WAIT


def job(name, retry=None, queue="mail", **body):
    """A job whose first retry is due after 5 s, and that has one retry."""
    policy = retry or Retry(1, Delays((5.0,)))
    whole = {"task": "send", "args": [name], "kwargs": {"n": 1}, "retry": policy, **body}
    return NewJob(name, queue, whole["task"], encode(whole), "default")


async def join(client, **more):
    asked = {"queues": ["mail"], **more}
    return (await good(client.post("/worker/join", json=asked)))["worker"]


# Which worker was given each lease.
HOLDERS: dict[tuple[str, int], str] = {}


async def claim(client, worker, limit=10, wait=0.0):
    asked = {"worker": worker, "limit": limit, "wait": wait}
    jobs = (await good(client.post("/worker/claim", json=asked)))["jobs"]
    HOLDERS.update({(job["id"], job["token"]): worker for job in jobs})
    return jobs


async def take(client, worker):
    """Claim all there is: the lease of each job, by its id."""
    jobs = await claim(client, worker)
    return {job["id"]: {"id": job["id"], "token": job["token"]} for job in jobs}


async def say(client, verb, *jobs):
    return (await good(client.post(f"/worker/{verb}", json=said(*jobs))))["jobs"]


def said(*jobs):
    """What the worker of these jobs sends about them."""
    return {"worker": HOLDERS[jobs[0]["id"], jobs[0]["token"]], "jobs": jobs}


@pytest.fixture
def asleep(store, monkeypatch):
    """Set when a claim has found nothing and waits."""
    sleeps = asyncio.Event()
    wait = store.wait

    async def waiting(worker, seconds):
        sleeps.set()
        await wait(worker, seconds)

    monkeypatch.setattr(store, "wait", waiting)
    return sleeps


async def test_a_worker_joins_claims_acks_and_leaves(client, store):
    await store.enqueue([job("a")])
    asked = {"queues": ["mail"], "region": "EU", "name": "mailer", "concurrency": 3}
    joined = await good(client.post("/worker/join", json=asked))
    worker = joined["worker"]
    assert worker.startswith("mailer-")
    assert (joined["lease"], joined["beat"]) == (15.0, 5.0)
    (view,) = (await store.stats()).workers
    assert (view.worker.region, view.worker.queues, view.worker.concurrency) == ("EU", ("mail",), 3)
    assert await claim(client, worker) == []  # the job is for another region
    here = await join(client)
    (claimed,) = await claim(client, here)
    lease = {"id": "a", "token": (await store.get("a")).token}
    assert claimed == lease | {
        "task": "send",
        "args": ["a"],
        "kwargs": {"n": 1},
        "timeout": None,
        "queue": "mail",
        "region": "default",
        "attempt": 1,
        "replay": 0,
        "lane": "fresh",
    }
    (answer,) = await say(client, "ack", lease | {"result": {"sent": True}})
    assert answer == lease | {"verdict": "written", "outcome": "done"}
    assert (await store.get("a")).value() == {"sent": True}
    for each in (worker, here):
        assert await good(client.post("/worker/leave", json={"worker": each})) == {"worker": each}
    assert (await store.stats()).workers == []


async def test_verdicts_are_given_item_by_item(client, store):
    await store.enqueue([job("a"), job("b")])
    worker = await join(client)
    held = await take(client, worker)
    await store.cancel(["b"], "withdrawn")
    items = [held["a"], held["b"], {"id": "nowhere", "token": 1}]
    first = await say(client, "ack", *items)
    assert [each["verdict"] for each in first] == ["written", "stale", "stale"]
    again = await say(client, "ack", *items)
    assert [each["verdict"] for each in again] == ["already", "stale", "stale"]
    await client.service.reporter.report()
    assert (await store.facts()).health_of("mail", "default").succeeded == 1


async def test_a_nack_is_decided_by_the_policy_that_the_job_carries(client, store, clock):
    await store.enqueue([job("a")])
    worker = await join(client)
    held = await take(client, worker)
    failure = held["a"] | {"reason": "HTTP 503", "type": "Busy", "code": "503"}
    failure |= {"traceback": "Busy: HTTP 503, token=c0ffee\n    at ask (ask.js:1:2)\n"}
    (answer,) = await say(client, "nack", failure)
    assert (answer["outcome"], answer["delay"], answer["reason"]) == ("retry", 5.0, "HTTP 503")
    clock.advance(5)
    (second,) = await claim(client, worker)
    assert (second["attempt"], second["lane"]) == (2, "global-retry")
    assert second["token"] > failure["token"]
    (answer,) = await say(client, "nack", failure | {"token": second["token"]})
    assert answer["outcome"] == "failed"
    first, last = await store.history("a")
    assert (first.type, first.code, first.delay, first.worker) == ("Busy", "503", 5.0, worker)
    assert last.delay is None
    assert last.traceback == "Busy: HTTP 503, token=***\n    at ask (ask.js:1:2)\n"
    shown = (await client.get("/api/jobs/a/history")).json()["attempts"]
    assert [each["traceback"] for each in shown] == [first.traceback, last.traceback]


async def test_a_worker_in_another_language_names_the_classes_that_a_policy_may_name(client, store):
    busy = Retry(1, Delays((5.0,)), on="Busy", never="Gone")
    await store.enqueue([job(name, busy) for name in ("a", "b", "c", "d")])
    held = await take(client, await join(client))
    answers = await say(
        client,
        "nack",
        held["a"] | {"reason": "x", "type": "Busy"},
        held["b"] | {"reason": "x", "type": "Http503", "classes": ["Busy", "HttpError"]},
        held["c"] | {"reason": "x", "type": "Http404", "classes": ["HttpError"]},
        held["d"] | {"reason": "x", "type": "Http410", "classes": ["Busy", "Gone"]},
    )
    assert [each["outcome"] for each in answers] == ["retry", "retry", "failed", "failed"]


@pytest.mark.parametrize("field", ["type", "code", "classes"])
async def test_names_in_a_nack_have_no_control_characters(client, store, field):
    await store.enqueue([job("a")])
    held = await take(client, await join(client))
    named = "x\x1b]0;owned\x07"
    failure = held["a"] | {"reason": "no", field: [named] if field == "classes" else named}
    await refused(client.post("/worker/nack", json=said(failure)), 422)


async def test_a_nack_may_name_its_delay_or_be_non_retryable(client, store):
    await store.enqueue([job("a"), job("b")])
    worker = await join(client)
    held = await take(client, worker)
    answers = await say(
        client,
        "nack",
        held["a"] | {"reason": "later", "delay": 77},
        held["b"] | {"reason": "never", "non_retryable": True},
    )
    assert [each["outcome"] for each in answers] == ["retry", "failed"]
    assert answers[0]["delay"] == 77.0


async def test_adaptive_delays_grow_with_the_fresh_work_that_waits(client, store):
    await store.enqueue([job("a", Retry(3, Adaptive(base=2, per=10)))])
    worker = await join(client)
    held = await take(client, worker)
    await store.enqueue([job(f"j{n}") for n in range(10)])
    (answer,) = await say(client, "nack", held["a"] | {"reason": "busy"})
    assert answer["delay"] == 4.0


async def test_snoozed_and_returned_jobs_use_no_attempt(client, store, clock):
    await store.enqueue([job("a"), job("b")])
    worker = await join(client)
    held = await take(client, worker)
    (later,) = await say(client, "snooze", held["a"] | {"delay": 60})
    assert (later["outcome"], later["delay"]) == ("later", 60.0)
    (returned,) = await say(client, "return", held["b"])
    assert returned["outcome"] == "returned"
    (again,) = await claim(client, worker)
    assert (again["id"], again["attempt"]) == ("b", 1)
    clock.advance(60)
    (slept,) = await claim(client, worker)
    assert (slept["id"], slept["attempt"]) == ("a", 1)


async def test_a_commit_may_go_to_another_server_than_the_claim(client, serve, store):
    await store.enqueue([job("a"), job("b")])
    worker = await join(client)
    other = serve()
    held = await take(other, worker)  # the store told it who the worker is
    (answer,) = await say(client, "nack", held["a"] | {"reason": "x"})
    assert (answer["outcome"], answer["delay"]) == ("retry", 5.0)
    assert (await say(serve(), "ack", held["b"]))[0]["outcome"] == "done"
    (attempt,) = await store.history("a")
    assert attempt.worker == worker


async def known(store):
    """The tasks that live workers have said they run."""
    now = (await store.facts()).now
    found = read_registrations(await store.notes(KNOWS))
    return {task for each in found if each.is_live(now) for task in each.tasks}


async def test_what_a_worker_says_it_runs_is_known_while_it_lives(
    client, store, clock, monkeypatch
):
    worker = await join(client, tasks=["send", "résumé"])
    assert await known(store) == {"send", "résumé"}
    clock.advance(LIVE_WITHIN)
    assert await known(store) == set()
    monkeypatch.setattr(sessions, "REGISTER_EVERY", 0.0)
    await good(client.post("/worker/heartbeat", json={"worker": worker}))
    assert await known(store) == {"send", "résumé"}
    await good(client.post("/worker/leave", json={"worker": worker}))
    assert await known(store) == set()


async def test_another_server_knows_too_what_a_worker_runs(client, serve, store, clock):
    worker = await join(client, tasks=["send"])
    clock.advance(LIVE_WITHIN)
    await good(serve().post("/worker/heartbeat", json={"worker": worker}))
    assert await known(store) == {"send"}


async def test_a_worker_in_process_leaves_to_others_what_only_they_run(client, store):
    await join(client, tasks=["send"])
    mine = Worker("mine", queues=("mail",))
    tasks = KnownTasks(store, mine, {}, monotonic=time.monotonic, longest=10.0)
    await store.enqueue([job("a"), job("b", task="other")])
    claims = await claim_in_process(store, 2)
    left = {each.task: await tasks.left_to_others(each) for each in claims}
    assert isinstance(left["send"], Snoozed)
    assert left["other"] is None


async def test_a_worker_that_nobody_knows_is_told_to_join(client):
    for path in ("claim", "heartbeat", "leave"):
        asked = client.post(f"/worker/{path}", json={"worker": "ghost"})
        await refused(asked, 404, "'ghost'", "join again")


async def test_a_heartbeat_keeps_leases_and_tells_which_are_lost(client, store, clock):
    await store.enqueue([job("a"), job("b")])
    worker = await join(client)
    held = await take(client, worker)
    holding = [held["a"], held["b"]]
    for _ in range(3):
        clock.advance(10)
        heard = await good(
            client.post("/worker/heartbeat", json={"worker": worker, "holding": holding})
        )
        assert heard == {"lost": [], "returned": []}
    assert await store.reclaim(10, Worker("reaper")) == []
    await store.cancel(["a"], "withdrawn")
    heard = await good(
        client.post("/worker/heartbeat", json={"worker": worker, "holding": holding})
    )
    assert heard["lost"] == [held["a"]]


@pytest.mark.parametrize("path", ["/api/jobs", "/api/jobs/a", "/api/jobs/a/records"])
async def test_a_heartbeat_is_answered_while_secrets_are_hidden(client, store, monkeypatch, path):
    await store.enqueue([job("a", args=("x" * SMALL,))])
    (held,) = await claim_in_process(store, 1)
    lines = [Record("log", number, encode("x" * 1000)) for number in range(1 + SMALL // 1000)]
    await store.record([Recording(held.lease, tuple(lines))])
    worker = await join(client)
    hiding, may_end = threading.Event(), threading.Event()
    text = client.service.redaction.text

    def slow(shown):
        hiding.set()
        assert may_end.wait(LONGEST_WAIT)
        return text(shown)

    monkeypatch.setattr(client.service.redaction, "text", slow)
    reading = asyncio.ensure_future(client.get(path))
    await asyncio.to_thread(hiding.wait, LONGEST_WAIT)
    await good(client.post("/worker/heartbeat", json={"worker": worker, "holding": []}))
    may_end.set()
    await good(reading)


async def test_what_a_worker_does_not_know_of_after_a_lease_is_returned(client, store, clock):
    await store.enqueue([job("a")])
    worker = await join(client)
    held = await take(client, worker)
    for _ in range(2):
        clock.advance(8)
        heard = await good(client.post("/worker/heartbeat", json={"worker": worker}))
        assert heard == {"lost": [], "returned": []}  # it does not say what it holds
    asked = {"worker": worker, "holding": []}
    heard = await good(client.post("/worker/heartbeat", json=asked))
    assert heard["returned"] == [held["a"]]
    assert (await claim(client, worker))[0]["attempt"] == 1


async def test_a_worker_that_stops_beating_loses_its_jobs(client, store, clock):
    await store.enqueue([job("a")])
    worker = await join(client, lease=3)
    held = await take(client, worker)
    clock.advance(4)
    (lost,) = await store.reclaim(10, Worker("reaper"))
    assert lost.worker == worker
    (answer,) = await say(client, "ack", held["a"])
    assert answer["verdict"] == "stale"


async def test_a_claim_waits_for_the_first_job(client, store, asleep):
    worker = await join(client)
    waiting = asyncio.ensure_future(claim(client, worker, wait=30))
    await asleep.wait()
    await store.enqueue([job("a")])
    assert [each["id"] for each in await waiting] == ["a"]


async def test_a_claim_that_finds_nothing_in_time_is_answered_empty(client):
    worker = await join(client)
    assert await claim(client, worker, wait=0.01) == []


async def test_a_stopping_server_lets_go_of_those_who_wait(client, store, asleep):
    worker = await join(client)
    waiting = asyncio.ensure_future(claim(client, worker, wait=30))
    await asleep.wait()
    client.service.stop()
    assert await waiting == []


async def test_what_was_claimed_for_a_client_that_is_gone_is_returned(client, store, asleep):
    worker = await join(client)
    session = await client.service.sessions.of(worker, b"")
    gone, claiming = asyncio.Event(), store.claim
    waiting = asyncio.ensure_future(client.service.sessions.claim(session, 1, 30, gone.wait))
    await asleep.wait()

    async def claim_and_lose(plan, by):
        claimed = await claiming(plan, by)
        if claimed.claims:
            gone.set()
            await asyncio.sleep(0)
        return claimed

    store.claim = claim_and_lose
    await store.enqueue([job("a")])
    assert not await waiting
    assert (await store.get("a")).status == "pending"


async def test_nothing_more_is_claimed_for_a_client_that_is_gone(client, store, asleep):
    worker = await join(client)
    session = await client.service.sessions.of(worker, b"")
    gone = asyncio.Event()
    waiting = asyncio.ensure_future(client.service.sessions.claim(session, 1, 30, gone.wait))
    await asleep.wait()
    gone.set()
    assert not await waiting
    await store.enqueue([job("a")])
    assert (await store.get("a")).started_at is None
    assert worker not in store.state.sleepers


async def test_a_worker_that_was_given_less_than_it_asked_for_keeps_nobody_asleep(client, store):
    """What comes next wakes another: the one that went away is not waiting any more."""
    worker = await join(client)
    await store.enqueue([job("a")])
    assert len(await claim(client, worker, limit=10)) == 1
    assert worker not in store.state.sleepers


async def test_claims_keep_to_the_policy_that_is_stored_with_the_queue(client, store, clock):
    await store.configure("mail", QueueSettings(RetryFirst(), grace=0))
    await store.enqueue([job(name) for name in ("a", "b", "c", "d")])
    worker = await join(client)
    for each in await claim(client, worker, 2):
        await say(client, "nack", {"id": each["id"], "token": each["token"], "reason": "x"})
    clock.advance(5)
    assert [each["id"] for each in await claim(client, worker, 3)] == ["a", "b", "c"]


async def test_a_pause_holds_at_once(client, store):
    await store.enqueue([job("a")])
    worker = await join(client)
    await good(client.post("/api/queues/mail/pause"))
    assert await claim(client, worker) == []


async def test_balanced_shares_hold_over_claims_of_one(client, store, clock):
    await store.enqueue([job(f"r{n}", Retry(9, Delays((0.0,)))) for n in range(4)])
    await fail(store, await claim_in_process(store, 4), non_retryable=False)
    await store.enqueue([job(f"f{n}") for n in range(4)])
    clock.advance(5)
    worker = await join(client)
    kinds = [(await claim(client, worker, 1))[0]["id"][0] for _ in range(8)]
    assert kinds.count("r") == 4
    assert max(len(run) for run in "".join(kinds).replace("rf", "r f").split()) <= 2


async def test_attempts_count_for_the_health_of_the_region(client, store):
    await store.enqueue([job("a"), job("b")])
    worker = await join(client)
    held = await take(client, worker)
    await say(client, "ack", held["a"])
    await say(client, "nack", held["b"] | {"reason": "x"})
    await client.service.reporter.report()
    health = (await store.facts()).health_of("mail", "default")
    assert (health.succeeded, health.failed) == (1, 1)


async def test_a_job_whose_arguments_cannot_be_read_fails_as_in_process(client, store):
    await store.enqueue([NewJob("a", "mail", "send", b'{"args": 5, "kwargs": ')])
    worker = await join(client)
    assert await claim(client, worker) == []
    assert (await store.get("a")).status == "failed"


async def test_a_refused_result_is_a_failed_attempt_and_is_not_stored(serve, store):
    client = serve(app=app)
    for name in ("good", "bad", "odd"):
        asked = {"task": "ask", "args": ["why?"], "id": name}
        await good(client.post("/api/jobs", json=asked))
    worker = await join(client, queues=["questions"])
    held = await take(client, worker)
    answers = await say(
        client,
        "ack",
        held["good"] | {"result": {"category": "fine"}},
        held["bad"] | {"result": {"category": "Error"}},
        held["odd"] | {"result": 5},
    )
    assert [each["outcome"] for each in answers] == ["done", "retry", "retry"]
    assert answers[1]["reason"] == "the result was refused"
    assert (await store.get("bad")).result is None
    assert (await store.history("bad"))[0].refused == '{"category":"Error"}'
    assert (await store.history("odd"))[0].message.startswith("the result could not be checked")


@pytest.mark.parametrize(
    "mark", [{"gated": True}, {"sink": {"task": "deliver", "queue": "default"}}]
)
async def test_without_the_app_a_gated_result_is_refused_and_nothing_written(
    client, serve, store, mark
):
    await store.enqueue([job("a"), job("b", **mark)])
    worker = await join(client)
    held = await take(client, worker)
    asked = said(held["a"], held["b"])
    problem = await refused(client.post("/worker/ack", json=asked), 409, "mulligan serve APP")
    assert problem["jobs"] == ["b"]
    assert (await store.get("a")).status == "processing"
    other = serve(app=app)  # an app, but not the one that declares the task
    await refused(other.post("/worker/ack", json=asked), 409, "task 'send'")
    (answer,) = await say(client, "nack", held["b"] | {"reason": "x"})
    assert answer["outcome"] == "retry"


async def test_a_result_over_the_limit_fails_the_job_for_good(serve, store):
    client = serve(settings=Settings(result_limit=100))
    await store.enqueue([job("a")])
    worker = await join(client)
    held = await take(client, worker)
    (answer,) = await say(client, "ack", held["a"] | {"result": "x" * 100})
    assert answer["outcome"] == "failed"
    assert "more than the 100 allowed" in answer["reason"]


@pytest.mark.parametrize(
    ("path", "asked", "words"),
    [
        ("join", {"region": "*"}, "must not begin with '*'"),
        ("join", {"queues": []}, "length >= 1"),
        ("join", {"lease": 0}, ">= 1"),
        ("join", {"name": "a b"}, "regex"),
        ("claim", {"worker": "w", "limit": 1001}, "<= 1000"),
        ("claim", {"worker": "w", "wait": 31}, "<= 30"),
        ("ack", {"jobs": [{"id": "a", "token": 1}]}, "`worker`"),
        ("ack", {"worker": "w", "jobs": []}, "length >= 1"),
        ("ack", {"worker": "w", "jobs": [{"id": "a", "token": 1}] * 1001}, "length <= 1000"),
        ("ack", {"worker": "w", "jobs": [{"id": "a"}]}, "`token`"),
        ("nack", {"worker": "w", "jobs": [{"id": "a", "token": 1}]}, "`reason`"),
        (
            "nack",
            {"worker": "w", "jobs": [{"id": "a", "token": 1, "reason": "x", "delay": -1}]},
            ">= 0",
        ),
    ],
)
async def test_what_breaks_a_rule_is_refused_with_the_rule(client, path, asked, words):
    await refused(client.post(f"/worker/{path}", json=asked), 422, words)


async def test_no_worker_speaks_for_another(serve, store, tmp_path):
    """Not with its own token for the other's id, nor with its own id for the other's lease."""
    keys = {name: name * 32 for name in "ab"}
    roles = {digest(key): frozenset({"worker"}) for key in keys.values()}
    one, two = (
        serve(tokens=Tokens(roles), headers={"Authorization": f"Bearer {key}"})
        for key in keys.values()
    )
    await store.enqueue([job("a")])
    mine, theirs = await join(one), await join(two)
    held = (await take(one, mine))["a"]
    for path, asked in (
        ("heartbeat", {"worker": mine, "holding": []}),
        ("claim", {"worker": mine}),
        ("leave", {"worker": mine}),
        ("ack", {"worker": mine, "jobs": [held]}),
        ("nack", {"worker": mine, "jobs": [held | {"reason": "x"}]}),
        ("snooze", {"worker": mine, "jobs": [held | {"delay": 1}]}),
        ("return", {"worker": mine, "jobs": [held]}),
    ):
        await refused(two.post(f"/worker/{path}", json=asked), 404, "with this token")
    for client in (two, serve(tokens=Tokens(roles), headers=dict(two.headers))):
        asked = {"worker": theirs, "jobs": [held]}
        (answer,) = (await good(client.post("/worker/ack", json=asked)))["jobs"]
        assert answer["verdict"] == "stale"
        coming = held | {"token": held["token"] + 1}
        asked = {"worker": theirs, "jobs": [coming]}
        (answer,) = (await good(client.post("/worker/ack", json=asked)))["jobs"]
        assert answer["verdict"] == "stale"
    (answer,) = await say(one, "ack", held)
    assert answer["outcome"] == "done"


@pytest.mark.parametrize(
    ("what", "asked"),
    [
        ("workers", {}),
        ("queues", {"queues": ["b", "c"]}),
        ("regions", {"region": "three"}),
        ("tasks", {"tasks": ["b", "c"]}),
    ],
)
async def test_a_token_has_so_many_workers_and_names(serve, monkeypatch, what, asked):
    keys = {name: name * 32 for name in "ab"}
    tokens = Tokens({digest(key): frozenset({"worker"}) for key in keys.values()})
    one, other = (
        serve(tokens=tokens, headers={"Authorization": f"Bearer {key}"}) for key in keys.values()
    )
    again = serve(tokens=tokens, headers=dict(one.headers))
    monkeypatch.setattr(joins, f"MOST_{what.upper()}", 2)
    common = {"queues": ["a"], "region": "one", "tasks": ["a"]}
    await join(one, **common)
    last = await join(again, **common | {"region": "two"})  # by another server
    joining = again.post("/worker/join", json=common | {"region": "two"} | asked)
    await refused(joining, 429, f"3 {'live ' * (what == 'workers')}{what}, more than 2")
    await join(other, **common | asked)
    await good(again.post("/worker/leave", json={"worker": last}))
    await join(again, **common)


async def test_nobody_speaks_for_a_worker_in_process(client, store):
    await store.enqueue([job("a")])
    (claimed,) = await claim_in_process(store, 1)
    lease = {"id": claimed.id, "token": claimed.token}
    for path, more in (("heartbeat", {}), ("claim", {}), ("leave", {}), ("ack", {"jobs": [lease]})):
        asked = client.post(f"/worker/{path}", json={"worker": claimed.worker, **more})
        await refused(asked, 404, "join again")
    mine = await join(client)
    asked = {"worker": mine, "jobs": [lease]}
    (answer,) = (await good(client.post("/worker/ack", json=asked)))["jobs"]
    assert answer["verdict"] == "stale"
    assert (await store.get("a")).status == "processing"


async def test_the_stage_after_an_acked_one_is_enqueued_in_the_same_step(serve, store):
    client = serve(app=app)
    chain = app.tasks["ask"] | app.tasks["deliver"]
    await store.enqueue([chain.call("why?").job])
    worker = await join(client, queues=["questions"])
    (first,) = await claim(client, worker)
    lease = {"id": first["id"], "token": first["token"]}
    await say(client, "ack", lease | {"result": {"category": "fine"}})
    following = await store.get(f"{first['id']}.2")
    assert (following.task, following.lane) == ("deliver", Lane("default", "*", 0))
