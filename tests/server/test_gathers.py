"""Gathers over HTTP: many jobs as one."""

from mulligan import Failure, Mulligan
from mulligan.app.chain import part_of
from mulligan.app.gather import gathered
from mulligan.core.decide import decide
from mulligan.core.outcome import Failed, Succeeded
from tests.cli.command_line import claim
from tests.server.conftest import good, refused

app = Mulligan("memory://")


@app.task
def fetch(url: str) -> str:
    return url


@app.task
def report(pages: list[str | Failure]) -> int:
    return len(pages)


async def begun(store, *, return_exceptions: bool) -> None:
    """A gather of three, of which one is done and one has failed."""
    calls = [fetch.call(url) for url in ("one", "two", "three")]
    parts = [part_of(report)]
    _, jobs = gathered("day", calls, parts, return_exceptions=return_exceptions)
    await store.enqueue(jobs)
    one, two = await claim(store, 2, "default")
    facts = await store.facts()
    failed = Failed("ValueError", "no route", non_retryable=True)
    await store.commit(
        [decide(one, Succeeded(b'"1"'), facts, 0.5), decide(two, failed, facts, 0.5)]
    )


async def test_a_gather_is_shown_by_its_job_and_by_a_member(client, store):
    await begun(store, return_exceptions=True)
    shown = await good(client.get("/api/gathers/day.2"))
    assert shown == await good(client.get("/api/gathers/day.1.2"))
    assert shown == {
        "id": "day.2",
        "task": "report",
        "status": "pending",
        "return_exceptions": True,
        "members": 3,
        "done": 1,
        "failed": 1,
        "cancelled": 0,
        "open": 1,
        "failures": [
            {
                "index": 1,
                "job": "day.1.1",
                "type": "ValueError",
                "reason": "no route",
                "attempts": 1,
            }
        ],
    }
    job = await good(client.get("/api/jobs/day.2"))
    assert (job["members_failed"], job["members_cancelled"], job["awaits"]) == (1, 0, 1)


async def test_what_failed_in_it_is_replayed_as_one(client, store):
    await begun(store, return_exceptions=False)
    answer = await good(client.post("/api/gathers/day.2/replay", json={}))
    assert (answer["changed"], answer["gather"]["failed"], answer["gather"]["open"]) == (1, 0, 2)
    again = await good(client.post("/api/gathers/day.2/replay", json={}))
    assert again["changed"] == 0


async def test_it_is_cancelled_as_one(client, store):
    await begun(store, return_exceptions=True)
    answer = await good(client.post("/api/gathers/day.2/cancel", json={"reason": "enough"}))
    assert (answer["changed"], answer["gather"]["status"]) == (2, "cancelled")
    for shown in (answer["gather"], await good(client.get("/api/gathers/day.2"))):
        counts = [shown[name] for name in ("done", "failed", "cancelled", "open")]
        assert counts == [1, 1, 1, 0]
    assert (await store.get("day.1.2")).cancel_reason == "enough"


async def test_a_job_that_gathers_nothing_is_refused(client, store):
    await store.enqueue([fetch.using(id="alone").call("x").job])
    await refused(client.get("/api/gathers/alone"), 422, "gathers no others")
    await refused(client.get("/api/gathers/nobody"), 404, "nobody")


async def test_who_may_only_read_changes_nothing(serve, store):
    await begun(store, return_exceptions=True)
    reader = serve(read_only=True)
    await good(reader.get("/api/gathers/day.2"))
    await refused(reader.post("/api/gathers/day.2/cancel", json={}), 403, "read-only")
