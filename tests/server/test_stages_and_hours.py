"""A chain by any of its jobs, and when what was put off falls due."""

from mulligan.core.counts import Count
from mulligan.core.decide import decide
from mulligan.core.outcome import Succeeded
from mulligan.engine.chores import MinuteKeeper
from mulligan.server import jobs_api
from tests.browser.apps import report
from tests.cli.command_line import claim, new_job
from tests.server.conftest import good, refused


async def test_a_chain_is_shown_by_any_of_its_jobs(client, store):
    await store.enqueue([report.using(id="r").call("x").job])
    (first,) = await claim(store, 1, "reports")
    await store.commit([decide(first, Succeeded(b'["p", "q"]'), await store.facts(), 0.5)])
    shown = await good(client.get("/api/jobs/r/stages"))
    assert [(each["name"], each["members"]) for each in shown["stages"]] == [
        ("collect", 1),
        ("each(read)", 2),
        ("summarise", 1),
    ]
    first, spread, last = (each["jobs"] for each in shown["stages"])
    assert [job["status"] for job in first] == ["done"]
    assert [job["id"] for job in spread] == ["r~1.2.0", "r~1.2.1"]
    assert shown == await good(client.get("/api/jobs/r~1.2.1/stages"))
    assert last[0]["awaits"] == 2
    assert [(job["args"], job["kwargs"]) for job in (*first, *spread, *last)] == [
        (["x"], {}),
        (["p"], {}),
        (["q"], {}),
        ([[]], {}),
    ]


async def test_a_job_that_stands_alone_has_no_stages(client, store):
    await store.enqueue([new_job("alone")])
    assert await good(client.get("/api/jobs/alone/stages")) == {"stages": []}
    await refused(client.get("/api/jobs/nothing/stages"), 404, "nothing")


async def test_what_was_put_off_is_counted_by_the_hour_in_which_it_falls_due(client, store):
    delays = (0, 1, 3599, 3600, 86_399, 86_400, 900_000)
    jobs = [new_job(f"j{delay}", delay=delay) for delay in delays]
    await store.enqueue([*jobs, new_job("other", queue="post", delay=7200)])
    shown = await good(client.get("/api/delayed/hours", params={"queue": "mail"}))
    assert (shown["hours"][0], shown["hours"][1], shown["hours"][23]) == (2, 1, 1)
    assert (sum(shown["hours"]), shown["later"], shown["complete"]) == (4, 2, True)
    assert (await good(client.get("/api/delayed/hours")))["hours"][2] == 1


async def test_hours_of_more_jobs_than_are_looked_at_say_so(client, store, monkeypatch):
    monkeypatch.setattr(jobs_api, "BATCH_LIMIT", 1)
    await store.enqueue([new_job(f"j{number}", delay=60) for number in range(6)])
    shown = await good(client.get("/api/delayed/hours"))
    assert (shown["hours"][0], shown["looked_at"], shown["complete"]) == (5, 5, False)


async def test_the_last_hour_is_told_by_the_minute_and_by_task(client, store, clock):
    await MinuteKeeper(store).note()
    names = {"runtime.succeeded.0.5/ask": 3.0, "fresh-wait.1": 3.0}
    await store.count([Count("mail", "US", name, value) for name, value in names.items()])
    clock.advance(60)
    await MinuteKeeper(store).note()
    names = {"runtime.failed.2/ask": 1.0, "failure.Late/ask": 1.0, "runtime.succeeded.1/other": 1.0}
    await store.count([Count("mail", "US", name, value) for name, value in names.items()])
    clock.advance(20)

    shown = (await good(client.get("/api/hour")))["minutes"]
    assert [(each["succeeded"], each["failed"]) for each in shown] == [(3, 0), (1, 1)]
    assert [round(each["seconds"]) for each in shown] == [60, 20]
    assert shown[0]["wait"]["p50"] == 0.75
    shown = (await good(client.get("/api/hour", params={"task": "ask"})))["minutes"]
    assert [(each["succeeded"], each["failed"]) for each in shown] == [(3, 0), (0, 1)]
    shown = (await good(client.get("/api/hour", params={"queue": "post"})))["minutes"]
    assert [(each["succeeded"], each["failed"]) for each in shown] == [(0, 0), (0, 0)]
    tasks = (await good(client.get("/api/hour/tasks")))["tasks"]
    assert [(each["task"], each["failures"]) for each in tasks] == [
        ("ask", {"Late": 1}),
        ("other", {}),
    ]
    await refused(client.get("/api/hour?hours=2"), 422, "hours")
