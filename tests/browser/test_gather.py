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
