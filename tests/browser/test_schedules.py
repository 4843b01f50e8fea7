"""Schedules and long jobs in the dashboard: what runs by itself, and what is seen while it runs."""

import os
from pathlib import Path

import pytest
from playwright.sync_api import expect


@pytest.fixture(scope="module")
def site(serve, chromium):
    site = serve(app=True)
    site.start_worker("US")
    return site


def picture(page, name: str) -> None:
    """Keep a picture for people, where it is asked for."""
    folder = os.environ.get("MULLIGAN_TEST_PICTURES")
    if folder:
        page.page.screenshot(path=Path(folder, f"{name}.png"), full_page=True)


def test_a_schedule_is_made_with_its_ticks_in_sight_then_edited_paused_and_run(site, page):
    page.open(site, "schedules")
    page.page.get_by_role("link", name="New schedule").click()
    form = page.page.get_by_role("form", name="Schedule")
    form.get_by_label("Name", exact=True).fill("acme-report")
    form.get_by_role("textbox", name="Cron").fill("0 9 * * 1-5")
    form.get_by_role("textbox", name="Time zone").fill("Europe/Berlin")
    ticks = form.get_by_role("group", name="Next five ticks").get_by_role("listitem")
    expect(ticks).to_have_count(5)
    assert site.get("/api/schedules")["schedules"] == []
    form.locator("[name=task]").fill("read")
    form.get_by_role("textbox", name="Positional arguments").fill('["first"]')
    picture(page, "schedule-new")
    page.button("Store").click()
    page.says("Schedule acme-report is stored.")
    expect(page.heading).to_have_text("acme-report")

    form.get_by_role("textbox", name="Positional arguments").fill('["second"]')
    form.locator("[name=kind]").select_option("every")
    form.locator("[name=every]").fill("86400")
    page.button("Save").click()
    page.says("Schedule acme-report is stored.")
    expect(page.page.get_by_role("region", name="State")).to_contain_text("next tick")
    [stored] = site.get("/api/schedules")["schedules"]
    assert (stored["every"], stored["cron"], stored["args"]) == (86400, None, ["second"])
    picture(page, "schedule-edited")

    page.button("Run now acme-report").click()
    page.says("is enqueued.")
    page.button("Pause acme-report").click()
    page.says("Schedule acme-report is paused; its next tick is withdrawn.")
    page.open(site, "schedules")
    expect(page.rows()).to_contain_text("paused")
    picture(page, "schedules-paused")
    page.button("Resume acme-report").click()
    page.says("Schedule acme-report ticks again.")
    expect(page.rows()).to_contain_text("active")
    page.open(site, "jobs?task=read&status=done")
    expect(page.rows()).to_have_count(1)
    expect(page.rows()).to_contain_text("acme-report@now-")


def test_a_cron_that_cannot_be_read_and_an_unknown_zone_are_refused_with_the_remedy(site, page):
    page.expects_refusals = True
    page.open(site, "schedules/")
    form = page.page.get_by_role("form", name="Schedule")
    form.get_by_label("Name", exact=True).fill("never")
    form.locator("[name=task]").fill("read")
    form.get_by_role("textbox", name="Positional arguments").fill('["page"]')
    form.get_by_role("textbox", name="Cron").fill("every day")
    ticks = form.get_by_role("group", name="Next five ticks")
    expect(ticks.get_by_role("alert")).to_contain_text("write five fields such as")
    page.button("Store").click()
    refused = form.get_by_role("alert")
    expect(refused.filter(has_text="cron 'every day' cannot be read")).to_have_count(2)
    form.get_by_role("textbox", name="Cron").fill("0 9 * * *")
    form.get_by_role("textbox", name="Time zone").fill("Europe/Atlantis")
    expect(ticks.get_by_role("alert")).to_contain_text("use a name such as Europe/Berlin")
    page.button("Store").click()
    expect(refused.filter(has_text="'Europe/Atlantis' is not known")).to_have_count(2)
    picture(page, "schedule-refused")
    assert "never" not in [each["name"] for each in site.get("/api/schedules")["schedules"]]


def test_progress_steps_and_log_of_a_job_arrive_while_it_runs_without_a_reload(site, page):
    call = {"task": "import_rows", "kwargs": {"rows": 60, "seconds": 0.1}, "id": "import"}
    site.post("/api/jobs", {**call, "region": "US"})
    page.open(site, "jobs/import")
    page.page.evaluate("window.before = true")
    bar = page.page.get_by_role("progressbar", name="Progress of the job")
    expect(bar).to_be_visible()
    log = page.page.get_by_label("Log of the job, newest first")
    expect(log).to_contain_text("importing row 0 of orders.csv")
    picture(page, "job-live")
    expect(log).to_contain_text("importing row 50 of orders.csv")
    expect(page.page.locator(".heading .badge")).to_have_text("done")
    expect(bar).to_have_attribute("aria-valuenow", "100")
    expect(page.page.get_by_role("region", name="Steps").locator("tbody tr")).to_have_count(2)
    assert page.page.evaluate("window.before") is True
    assert "hunter2" not in page.page.content()
    picture(page, "job-done")
