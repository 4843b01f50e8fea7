"""The page of a gather: how far it has come, what failed inside it, and a button that mends it."""

import pytest
from playwright.sync_api import expect

from mulligan.app.chain import part_of
from mulligan.app.gather import gathered
from tests.browser.apps import charge, read, summarise


@pytest.fixture(scope="module")
def site(serve, chromium):
    site = serve(app=True)
    site.start_worker("US")
    return site


def test_a_chain_that_failed_in_a_gather_is_shown_and_replayed(site, page, tmp_path):
    mended = tmp_path / "mended"
    calls = [read.call("one"), (charge | read).call("C-1", mended=str(mended))]
    _, jobs = gathered("pages", calls, [part_of(summarise)], named=True)
    site.on_store(lambda store: store.enqueue(jobs))

    page.open(site, "jobs/pages.2")
    panel = page.page.get_by_role("region", name="Gather")
    expect(panel).to_contain_text("2 of 2 ended")
    expect(panel).to_contain_text("1 done, 1 failed, 0 cancelled, 0 open")
    expect(panel.get_by_role("row").last).to_contain_text("no such customer: C-1")
    mended.touch()
    page.button("Replay 1 failed").click()
    page.agree("Replay 1 job?", "Replay 1")
    expect(page.page.locator(".heading .badge")).to_have_text("done")
    expect(panel).to_contain_text("2 done, 0 failed")
    result = page.page.get_by_role("region", name="Result").locator("pre")
    expect(result).to_contain_text("ONE; CHARGED C-1")


def test_a_gather_is_cancelled_as_one_after_saying_what_ends(site, page):
    calls = [read.using(delay=3600).call(f"page {n}") for n in range(9)]
    _, jobs = gathered("later", calls, [part_of(summarise)], named=True)
    site.on_store(lambda store: store.enqueue(jobs))
    page.open(site, "jobs/later.2")
    page.button("Cancel the whole gather").click()
    dialog = page.page.get_by_role("dialog", name="Cancel gather later.2?")
    expect(dialog).to_contain_text("the gathering job later.2, and what would come after it")
    expect(dialog).to_contain_text("9 members not ended yet")
    page.agree("Cancel gather later.2?", "Cancel the gather")
    page.says("10 jobs cancelled.")
    panel = page.page.get_by_role("region", name="Gather")
    expect(panel).to_contain_text("0 done, 0 failed, 9 cancelled, 0 open")
    expect(page.button("Cancel the whole gather")).to_have_count(0)


def test_jobs_of_one_flow_stand_together_in_the_list(site, page):
    calls = [read.using(delay=3600).call(f"page {n}") for n in range(9)]
    _, jobs = gathered("many", calls, [part_of(summarise)], named=True)
    alone = read.using(id="alone", delay=3600).call("alone").job
    site.on_store(lambda store: store.enqueue([*jobs[:5], alone, *jobs[5:]]))
    page.open(site, "jobs?status=pending&task=read")
    flow = page.page.locator("tr.title").filter(has_text="Flow many")
    expect(flow).to_contain_text("9 jobs on this page: 9 pending")
    expect(page.rows()).to_contain_text(["Flow many", *["many.1."] * 3, "alone"])
    page.button("Show all 9").click()
    expect(page.rows()).to_have_count(1 + 9 + 1)
    page.button("Enqueued").click()
    expect(page.page.locator("tr.title")).to_have_count(0)
    expect(page.rows()).to_have_count(9 + 1)


def test_a_checkbox_covers_no_text_on_a_phone(site, phone):
    phone.open(site, "jobs")
    row = phone.rows().filter(has=phone.page.get_by_role("checkbox")).first
    box, text = (
        row.get_by_role("checkbox").bounding_box(),
        row.locator("td:nth-child(2) > div").bounding_box(),
    )
    assert text["x"] + text["width"] <= box["x"]
