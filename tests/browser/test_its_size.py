"""The dashboard over no jobs at all, and over a hundred thousand."""

import re
import sqlite3
from contextlib import closing

import pytest
from playwright.sync_api import expect

JOBS = 100_000
FILL = """
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
    INSERT INTO inbox (task, queue, region, id)
    SELECT 'send', 'mail', 'US', printf('j-%06d', i) FROM n
"""
PAGES = ("", "queues", "tasks", "jobs", "dead", "delayed", "workers", "enqueue")


@pytest.fixture(scope="module")
def empty(serve, chromium):
    return serve()


@pytest.fixture(scope="module")
def full(serve, chromium):
    site = serve()
    with closing(sqlite3.connect(site.store.removeprefix("sqlite:///"))) as connection:
        connection.execute(FILL, (JOBS - 1,))
        connection.commit()
    return site


def test_pages_of_an_empty_store_say_that_there_is_nothing(empty, phone):
    for path in PAGES:
        phone.open(empty, path)
        expect(phone.page.locator(".empty, .tile").first).to_be_visible()
        assert phone.is_narrow_enough(), path
        text = phone.page.locator("body").inner_text()
        assert not re.search("undefined|NaN|null", text), text


def test_without_an_app_a_job_is_enqueued_as_json(empty, page):
    page.open(empty, "enqueue")
    page.page.get_by_role("textbox", name="Task").fill("send")
    positional = page.page.get_by_label("Positional arguments")
    positional.fill("[1,")
    page.button("Enqueue").click()
    expect(page.page.get_by_role("alert")).to_contain_text("args must be JSON")
    expect(positional).to_be_focused()
    positional.fill('[1, "two"]')
    page.button("Enqueue").click()
    page.page.get_by_role("status").get_by_role("link").click()
    expect(page.heading).to_have_text("send")
    expect(page.page.get_by_role("region", name="Payload")).to_contain_text('"two"')


def test_a_hundred_thousand_jobs_are_counted_to_the_unit_and_shown_in_pages(full, page):
    assert full.get("/api/overview")["regions"]["US"]["queue_size"] == JOBS
    page.open(full)
    expect(page.tile("Waiting")).to_have_text("100,000")
    us = page.page.get_by_role("article", name="Region US")
    expect(us.locator(".bar-value").first).to_have_text("100,000")
    page.page.get_by_role("link", name="mail").click()
    expect(page.page.locator(".lane .bar-value")).to_have_text("100,000")

    page.page.get_by_role("link", name="pending").click()
    expect(page.rows()).to_have_count(50)
    expect(page.rows().first).to_contain_text("j-099999")
    page.page.get_by_role("link", name="Next 50").click()
    expect(page.rows().first).to_contain_text("j-099949")
    expect(page.rows()).to_have_count(50)
    page.page.go_back()
    expect(page.rows().first).to_contain_text("j-099999")

    page.button("Cancel all that match").click()
    dialog = page.page.get_by_role("dialog", name="Cancel 10,000 jobs?")
    expect(dialog).to_contain_text("More match: these are the first 10,000")
    page.agree("Cancel 10,000 jobs?", "Keep as it is")
    assert full.get("/api/queues")["queues"]["mail"]["fresh"] == JOBS

    search = page.page.get_by_role("search")
    search.get_by_role("combobox", name="Status").select_option("failed")
    page.button("Find").click()
    expect(page.page.locator(".empty")).to_have_text("No job matches.")
    search.get_by_label("Job id").fill("j-000007")
    page.button("Find").click()
    expect(page.page.locator(".heading .id")).to_have_text("j-000007")
    expect(page.page.locator(".explanation")).to_contain_text("no live worker serves queue mail")
