"""The dashboard within the example applications, below a path, behind a login and a proxy."""

import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import expect

from tests.web.started import example, proxy

MOUNTED = ["fastapi", "starlette", "flask", "gunicorn"]
BEHIND_A_PROXY = {"fastapi": ("--root-path", "/site"), "starlette": ("--root-path", "/site")}


@pytest.fixture(scope="module", params=[*MOUNTED, "fastapi behind a proxy"])
def address(request, tmp_path_factory) -> Iterator[str]:
    """An example application with a worker, perhaps below a prefix that a proxy takes away."""
    name, _, proxied = request.param.partition(" ")
    store = f"sqlite:///{tmp_path_factory.mktemp('mounted')}/jobs.db"
    with ExitStack() as stack:
        options = BEHIND_A_PROXY[name] if proxied else ()
        served, _ = stack.enter_context(example(name, store, *options))
        yield stack.enter_context(proxy(served, "/site")) if proxied else served


def sign_in(page, address: str, user: str) -> None:
    page.page.goto(f"{address}/mulligan/")
    page.page.get_by_role("link", name=user).click()
    expect(page.heading).to_have_text("Overview")


def test_a_page_of_the_application_shows_what_becomes_of_its_job(address, page):
    page.expects_refusals = True  # an icon that the example does not have
    page.page.goto(f"{address}/")
    page.button("Make the report").click()
    expect(page.page.locator("#said")).to_have_text("total 1100 EUR")


def test_the_dashboard_is_behind_the_login_and_leads_everywhere(address, page):
    page.expects_refusals = True
    sign_in(page, address, "alice")
    polls = "polling every 2 s"
    expect(page.page.locator("#link")).to_have_text(re.compile(f"^(live|{polls})$"))
    page.page.get_by_role("link", name="Enqueue").click()
    page.page.get_by_label("month").fill("7")
    page.button("Enqueue").click()
    page.says("is enqueued")
    page.page.get_by_role("link", name="Jobs", exact=True).click()
    page.page.locator("tbody tr a").first.click()
    expect(page.page.locator("main")).to_contain_text("report")
    page.page.get_by_role("link", name="Queues").click()
    page.button("Pause queue default").click()
    page.button("Resume queue default").click()
    expect(page.button("Pause queue default")).to_be_visible()
    page.page.get_by_role("link", name="API").click()
    expect(page.heading).to_have_text("mulligan API")
    assert page.page.url.startswith(f"{address}/mulligan/api/docs")


def test_who_may_only_read_has_nothing_to_press(address, page):
    page.expects_refusals = True
    sign_in(page, address, "rita")
    page.page.get_by_role("link", name="Queues").click()
    expect(page.page.get_by_role("contentinfo")).to_contain_text("read-only")
    expect(page.button("Pause queue default")).to_have_count(0)
    expect(page.page.get_by_role("link", name="Enqueue")).to_have_count(0)
