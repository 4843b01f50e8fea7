"""The dashboard as people use it: a server, two workers, one browser."""

import json
import re
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from mulligan.core.record import Record, Recording
from tests.cli.command_line import claim, new_job


@pytest.fixture(scope="module")
def site(serve, chromium):
    site = serve(app=True)
    site.start_worker("US")
    site.start_worker("EU")
    return site


def test_a_job_is_enqueued_and_its_retry_moves_from_us_to_eu(site, page):
    page.open(site, "enqueue")
    form = page.page.get_by_role("form", name="Enqueue a job")
    form.get_by_label("question").fill("What is a mulligan?")
    form.get_by_role("spinbutton", name="seconds: float").fill("1.5")
    form.get_by_label("fails_in").fill("US")
    form.get_by_role("combobox", name="Region").fill("US")
    expect(page.page.locator("#link")).to_have_text("live")
    page.button("Enqueue").click()
    link = page.page.get_by_role("status").get_by_role("link")
    job = link.inner_text()

    page.page.get_by_role("link", name="Overview").click()
    eu = page.page.get_by_role("article", name="Region EU")
    expect(eu.locator(".running")).to_contain_text(f"{job}retry 1from US")

    eu.get_by_role("link", name=job).click()
    expect(page.heading).to_have_text("ask")
    expect(page.page.locator(".heading .id")).to_have_text(job)
    expect(page.page.locator(".heading .badge")).to_have_text("done")
    expect(page.page.locator(".explanation")).to_contain_text("Done")
    expect(page.page.locator(".timeline text.region")).to_have_text(["US", "EU"])
    bars = page.page.locator(".timeline rect")
    assert [bar.get_attribute("data-kind") for bar in bars.all()] == ["failed", "done"]
    expect(page.rows()).to_have_count(1)
    expect(page.rows()).to_contain_text("the service in US did not answer within 1.5 s")
    result = page.page.get_by_role("region", name="Result").locator("pre").inner_text()
    assert json.loads(result) == site.get(f"/api/jobs/{job}")["result"]


def test_a_refused_job_is_refused_in_the_words_of_the_server(site, page):
    page.expects_refusals = True
    page.open(site, "enqueue")
    page.page.get_by_role("combobox", name="Task").select_option("charge")
    page.page.get_by_role("combobox", name="Region").fill("*nowhere")
    page.page.get_by_label("customer").fill("C-1")
    page.button("Enqueue").click()
    region = page.page.locator("label", has=page.page.get_by_role("combobox", name="Region"))
    expect(region.get_by_role("alert")).to_contain_text("'*nowhere' must not begin with '*'")
    expect(page.page.locator("[aria-invalid]")).to_be_focused()
    page.page.get_by_role("combobox", name="Region").fill("US")
    page.page.get_by_label("Delay").fill("3600")
    page.button("Enqueue").click()
    page.says("is enqueued.")
    expect(page.page.locator("[aria-invalid]")).to_have_count(0)


def test_dead_letters_are_chosen_by_their_error_and_replayed(site, page, tmp_path):
    mended = tmp_path / "mended"
    jobs = [
        {"task": "charge", "kwargs": {"customer": f"C-{number}", "mended": str(mended)}}
        | {"region": "US", "id": f"charge-{number}"}
        for number in range(3)
    ]
    site.post("/api/jobs", jobs)
    page.open(site)
    expect(page.tile("Dead letters")).to_have_text("3")
    page.page.get_by_role("link", name="by error").click()
    expect(page.rows()).to_have_count(1)
    expect(page.rows()).to_contain_text("Fail: no such customer: C-#")
    page.rows().get_by_role("checkbox").check()
    expect(page.page.locator(".selection")).to_contain_text("3 jobs in 1 group")

    page.button("Purge").click()
    page.agree("Purge 3 jobs?", "Keep as it is")
    assert site.get("/api/count", status="failed")["count"] == 3

    mended.touch()
    page.button("Replay").click()
    page.agree("Replay 3 jobs?", "Replay 3")
    page.says("3 jobs replayed.")
    expect(page.page.locator(".empty")).to_have_text("No job has failed for good.")
    page.open(site, "jobs/charge-1")
    expect(page.page.locator(".heading .badge")).to_have_text("done")
    expect(page.page.get_by_role("region", name="About")).to_contain_text("replayed1")


def test_jobs_are_sorted_chosen_and_purged_in_bulk(site, page):
    for word in ("b", "c", "a"):
        site.post("/api/jobs", {"task": "read", "args": [word], "id": word})
        page.open(site, f"jobs/{word}")
        expect(page.page.locator(".heading .badge")).to_have_text("done")
    page.open(site, "jobs?task=read&status=done")
    expect(page.rows()).to_have_count(3)
    expect(page.rows().filter(has_text='"c"').locator("td.number").nth(1)).to_have_text(
        re.compile(r"m?s$")
    )
    page.button("Enqueued").click()
    header = page.page.get_by_role("columnheader", name="Enqueued")
    expect(header).to_have_attribute("aria-sort", "ascending")
    shown = page.rows().locator(".id")
    expect(shown).to_have_text(["b", "c", "a"])
    page.button("Enqueued").click()
    expect(shown).to_have_text(["a", "c", "b"])
    page.button("Enqueued").click()
    expect(header).to_have_attribute("aria-sort", "none")

    page.page.get_by_label("Choose all that are shown").check()
    page.page.get_by_label("Choose c").uncheck()
    expect(page.page.locator(".selection")).to_contain_text("2 jobs chosen")
    site.post("/api/jobs/purge", {"ids": ["a"]})
    page.button("Purge 2").click()
    page.agree("Purge 2 jobs?", "Purge 2")
    page.says("1 job purged; 1 could not be.")
    page.says("a: it is not stored")
    expect(shown).to_have_text(["c"])


def test_a_queue_is_paused_and_says_why_its_jobs_wait(site, page):
    page.open(site, "queues/questions")
    page.button("Pause queue questions").click()
    expect(page.page.locator(".heading .badge")).to_have_text("paused")
    job = site.post("/api/jobs", {"task": "ask", "args": ["?"], "region": "EU"})["id"]
    page.open(site, f"jobs/{job}")
    expect(page.page.locator(".explanation")).to_contain_text("queue questions is paused")

    page.open(site, "queues")
    page.button("Resume queue questions").click()
    expect(page.button("Pause queue questions")).to_be_visible()
    expect(page.rows().filter(has_text="questions").locator(".badge").first).to_have_text("serving")
    page.open(site, f"jobs/{job}")
    expect(page.page.locator(".heading .badge")).to_have_text("done")


def test_a_waiting_job_is_cancelled_after_one_more_question(site, page):
    job = site.post("/api/jobs", {"task": "ask", "args": ["?"], "delay": 3600})["id"]
    page.open(site, f"jobs/{job}")
    expect(page.page.locator(".explanation")).to_contain_text("it is due in")
    page.button("Cancel").click()
    page.agree("Cancel 1 job?", "Cancel 1")
    expect(page.page.locator(".heading .badge")).to_have_text("cancelled")
    expect(page.button("Cancel")).to_have_count(0)
    expect(page.page.get_by_role("region", name="Attempts")).to_contain_text("It never started.")


def test_what_was_put_off_is_drawn_by_the_hour(site, page):
    delays = [1800, 1800, 5400, 100_000]
    site.post("/api/jobs", [{"task": "read", "args": ["p"], "delay": each} for each in delays])
    page.open(site, "delayed")
    titles = page.page.locator(".histogram title").all_text_contents()
    assert "due in 1 to 2 h: 1 job" in titles
    assert "due in more than 24 h: 1 job" in titles
    row = page.rows().filter(has_text="reports")
    delayed = site.get("/api/delayed")["delayed"]["reports"]
    numbers = [str(delayed[name]) for name in ("total", "ready_now", "ready_in_hour")]
    expect(row.locator("td.number")).to_have_text(numbers)


def test_the_stages_of_a_chain_lead_to_each_other(site, page):
    from tests.browser.apps import report  # noqa: PLC0415 - it reads where its store is

    site.on_store(lambda store: store.enqueue([report.using(id="r", region="EU").call("x").job]))
    page.open(site, "jobs/r")
    stages = page.page.locator(".chain > li")
    expect(stages).to_have_count(3)
    expect(stages.nth(1)).to_contain_text("each(read) 3 jobs")
    page.page.get_by_role("link", name=re.compile(r"^r(~\d+)?\.3$")).click()
    expect(page.page.locator(".heading .id")).to_have_text(re.compile(r"^r(~\d+)?\.3$"))
    expect(page.page.locator(".heading .badge")).to_have_text("done")


def test_without_the_event_stream_the_page_asks_every_two_seconds(site, page):
    page.page.route("**/api/events", lambda route: route.fulfill(status=503, json={}))
    page.expects_refusals = True
    page.open(site)
    expect(page.page.locator("#link")).to_have_text("polling every 2 s")
    before = int(page.tile("Delayed").inner_text())
    site.post("/api/jobs", {"task": "read", "args": ["p"], "delay": 3600})
    expect(page.tile("Delayed")).to_have_text(str(before + 1))


def test_the_last_minute_is_that_of_the_api(site, page):
    site.post("/api/jobs", {"task": "collect", "args": ["x"], "region": "EU", "id": "counted"})
    page.open(site, "jobs/counted")
    expect(page.page.locator(".heading .badge")).to_have_text("done")
    page.open(site, "queues/reports")
    row = page.page.get_by_role("region", name="The last minute").locator("tbody tr")
    expect(row.locator("td").first).to_have_text("EU")
    recent = site.get("/api/overview")["recent"]["reports"]["EU"]
    expect(row.locator("td").nth(1)).to_have_text(str(recent["started"]))
    expect(row.locator("td").nth(2)).to_have_text("100 %")


def test_workers_are_shown_with_what_they_run(site, page):
    page.open(site, "workers")
    for worker in site.get("/api/workers")["workers"]:
        row = page.rows().filter(has_text=worker["id"])
        slots = f"0 of {worker['concurrency']}"
        expect(row.get_by_text(slots)).to_have_count(1 if worker["queues"] else 0)


def test_a_failed_job_shows_its_traceback_with_library_frames_folded(site, page):
    job = site.post("/api/jobs", {"task": "parse", "args": ["{"], "region": "US"})["id"]
    page.open(site, f"jobs/{job}")
    expect(page.heading).to_have_text("parse")
    expect(page.page.locator(".heading .badge")).to_have_text("failed")
    panel = page.page.get_by_role("region", name="Traceback")
    own = panel.locator(".own .frame")
    expect(own).to_contain_text("tests/browser/apps.py")
    expect(own.locator("code")).to_have_text("return json.loads(text)")
    library = panel.locator(".frame.library")
    expect(library.first).to_be_hidden()
    panel.get_by_text(re.compile(r"^\d frames of Python$")).click()
    expect(library.first).to_be_visible()
    panel.get_by_role("button", name="Copy the traceback").click()
    expect(panel.get_by_role("button", name="Copy the traceback")).to_have_text("Copied")
    panel.locator(".failed > summary").click()
    expect(own).to_be_hidden()


def test_a_task_has_a_page_with_its_last_hour(site, page):
    for word in ("{", "[", "[]"):
        site.post("/api/jobs", {"task": "parse", "args": [word], "region": "US", "id": f"p{word}"})
        page.open(site, f"jobs/{quote(f'p{word}')}")
        expect(page.page.locator(".heading .badge")).to_have_text(re.compile("done|failed"))
    page.open(site, "tasks")
    row = page.rows().filter(has_text="parse")
    expect(row).to_contain_text("JSONDecodeError")
    row.get_by_role("link", name="parse").click()
    expect(page.heading).to_have_text("parse")
    expect(page.page.locator(".heading .id")).to_have_text("(text: str)")
    expect(page.tile("Succeeded")).to_have_text("1")
    types = page.page.get_by_role("region", name="Failures by type")
    expect(types.locator(".bar-name")).to_have_text("json.decoder.JSONDecodeError")
    expect(page.page.get_by_role("region", name="Last dead letters")).to_contain_text('"["')
    [counted] = [each for each in site.get("/api/hour/tasks")["tasks"] if each["task"] == "parse"]
    expect(page.tile("Failed")).to_have_text(str(counted["failed"]))
    page.page.get_by_role("link", name="Enqueue").last.click()
    expect(page.page.get_by_role("combobox", name="Task")).to_have_value("parse")


def test_a_worker_shows_its_process_and_is_drained_from_its_page(site, page):
    site.start_worker("ASIA")
    page.open(site, "workers")
    row = page.rows().filter(has_text="ASIA")
    row.get_by_role("link").first.click()
    about = page.page.get_by_role("region", name="About")
    worker = about.locator(".id").inner_text()
    expect(about).to_contain_text("tests.browser.apps:app")
    told = site.get(f"/api/workers/{worker}")["about"]
    expect(about).to_contain_text(f"process{told['pid']}")
    page.button("Drain").click()
    page.agree(f"Drain worker {worker}?", "Drain")
    page.says("is told to drain")
    page.expects_refusals = True
    expect(page.page.get_by_role("alert")).to_contain_text("it may have left")


def test_the_form_fits_the_types_of_a_task_and_a_refusal_is_shown_at_its_field(site, page):
    page.expects_refusals = True
    page.open(site, "enqueue?task=ship")
    parcel = page.page.get_by_role("textbox", name="parcel: Parcel")
    expect(parcel).to_have_attribute("placeholder", '{"street": …}')
    page.page.get_by_role("combobox", name="size").select_option("large")
    parcel.fill('{"grams": 5}')
    page.button("Enqueue").click()
    wrong = page.page.locator("label", has=parcel).get_by_role("alert")
    expect(wrong).to_contain_text("missing required field `street`")
    parcel.fill('{"street": "Elm"}')
    page.button("Enqueue").click()
    page.page.get_by_role("status").get_by_role("link").click()
    result = page.page.get_by_role("region", name="Result")
    expect(result).to_contain_text("large to Elm")


def test_the_log_stands_above_the_newest_twenty_steps(site, page):
    async def record(store):
        await store.enqueue([new_job("steps", queue="elsewhere")])
        [held] = await claim(store, 1, "elsewhere")
        steps = [Record("step", n, b"%d" % n, f"page-{n}") for n in range(1, 46)]
        await store.record([Recording(held.lease, (*steps, Record("log", 46, b'"half way"')))])

    site.on_store(record)
    page.open(site, "jobs/steps")
    titles = page.page.locator(".panel > h2").all_inner_texts()
    assert titles.index("Log") < titles.index("Steps")
    steps = page.page.get_by_role("region", name="Steps")
    expect(steps.locator("tbody tr")).to_have_count(20)
    expect(steps.locator("tbody tr").first).to_contain_text("page-45")
    page.button("Show 20 older").click()
    page.button("Show 5 older").click()
    expect(steps.locator("tbody tr")).to_have_count(45)
    expect(steps.locator("tbody tr").last).to_contain_text("page-1")


def test_words_of_the_last_minute_are_explained(site, page):
    page.open(site, "queues/questions")
    site.post("/api/jobs", {"task": "ask", "kwargs": {"question": "And now?"}})
    minute = page.page.get_by_role("region", name="The last minute")
    minute.get_by_text("What the columns mean").click()
    for word in ("Back after", "Time saved", "Reclaimed"):
        expect(minute.get_by_role("term").filter(has_text=word)).to_be_visible()


def test_a_figure_leads_to_its_list(site, page):
    page.open(site)
    page.tile("Dead letters").get_by_role("link").click()
    expect(page.heading).to_have_text("Dead letters")
    page.page.go_back()
    page.tile("Running").get_by_role("link").click()
    expect(page.page.get_by_role("combobox", name="Status")).to_have_value("processing")


def test_a_server_that_is_away_is_said_loudly_and_what_is_old_is_dimmed(serve, page):
    page.expects_refusals = True
    site = serve()
    page.open(site)
    expect(page.page.locator("#link")).to_have_text("live")
    expect(page.page.locator("#away")).to_be_hidden()
    site.stop()
    alert = page.page.get_by_role("alert")
    expect(alert).to_contain_text("The server does not answer. All figures below are from")
    expect(page.page.locator("body")).to_have_class("stale")
    expect(page.tile("Waiting")).to_have_text("0")


def test_work_for_any_region_that_workers_serve_and_delayed_work_that_is_due(site, page):
    site.post("/api/queues/reports/pause", {})
    for delay in (0.0, 0.01):
        site.post("/api/jobs", {"task": "read", "args": ["a page"], "delay": delay})
    page.open(site)
    anywhere = page.page.get_by_role("article", name="Region *")
    expect(anywhere.locator(".bar-value").first).to_have_text("2")
    expect(anywhere.locator(".badge")).to_have_text("live")
    expect(anywhere.locator(".running")).to_have_count(0)
    page.open(site, "delayed")
    expect(page.page.locator("figcaption")).to_contain_text("Due now: 1; in the next 24 hours:")
    site.post("/api/queues/reports/resume", {})
