"""examples/django, started as its users start it, in a browser and by ASGI."""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import browser
from tests.browser.watched_page import watched
from tests.databases import Unavailable, plugin
from tests.django.project import postgres_database
from tests.store_kit import require
from tests.web.started import ADDRESS, LONGEST_WAIT, Started, started

FOLDER = Path(__file__).parents[2] / "examples/django"
MANAGE = ("python", "manage.py")
WEB = (*MANAGE, "runserver", "--noreload", "0")
ASGI = ("uvicorn", "shop.asgi:application", "--port", "0")
WORKER = (*MANAGE, "mulligan", "worker")
NAME, PASSWORD = "ada", "of a test"


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request, tmp_path: Path) -> Iterator[str]:
    """What SHOP_DATABASE is, with tables and somebody who may sign in."""
    require(request.param)
    with ExitStack() as stack:
        place = str(tmp_path / "shop.sqlite3")
        if request.param == "postgres":
            place = stack.enter_context(postgres_database(plugin.server_url("postgres")))
        run(place, "migrate")
        user = ("--noinput", "--username", NAME, "--email", "ada@example.com")
        run(place, "createsuperuser", *user, DJANGO_SUPERUSER_PASSWORD=PASSWORD)
        yield place


def run(shop: str, *command: str, **environment: str) -> str:
    """Run a command of Django's; what it says."""
    with started((*MANAGE, *command), FOLDER, SHOP_DATABASE=shop, **environment) as it:
        said, _ = it.process.communicate(timeout=LONGEST_WAIT)
        assert it.process.returncode == 0, said
        return str(said)


def order(page: Page, item: str, card: str) -> None:
    page.get_by_label("Item").fill(item)
    page.get_by_label("Card").select_option(card)
    page.get_by_role("button", name="Order").click()


def until_shown(page: Page, text: str) -> None:
    """Load the page until it shows the text, as people do."""
    while page.get_by_text(text).count() == 0:
        page.reload()


def look(page: Page, name: str) -> None:
    """Keep a picture of the page, if a folder for them is named."""
    if folder := os.environ.get("MULLIGAN_PICTURES"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


@pytest.mark.timeout(600)
def test_the_shop_in_a_browser(shop):
    with (
        started(WORKER, FOLDER, SHOP_DATABASE=shop) as worker,
        started(WEB, FOLDER, SHOP_DATABASE=shop) as web,
    ):
        address = web.says(ADDRESS)
        worker.says(re.compile("ready"))
        try:
            with browser() as chromium, watched(chromium) as seen:
                seen.expects_refusals = True  # the admin has no icon, and no events are streamed
                in_the_browser(seen.page, address)
        except Unavailable as error:
            if os.environ.get("CI"):
                pytest.fail(f"the shop was not tested: {error}")
            pytest.skip(f"browser: {error}")
        assert worker.stop() == 0


def in_the_browser(page: Page, address: str) -> None:
    """Orders, a failure, its traceback in the admin, another card, a replay."""
    page.goto(address)
    for item, card in (("a tee", "good"), ("a ball", "slow"), ("a club", "declined")):
        order(page, item, card)
    until_shown(page, "a tee, card good: paid, receipt sent")
    until_shown(page, "a ball, card slow: paid, receipt sent")
    look(page, "shop")

    page.get_by_role("link", name="Admin").click()
    page.get_by_label("Username").fill(NAME)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.goto(f"{address}/admin/mulligan/job/?status=failed")
    until_shown(page, "CardDeclinedError")
    look(page, "admin-failures")
    page.locator("#result_list th a").click()
    expect(page.locator("pre.traceback")).to_contain_text("raise CardDeclinedError")
    look(page, "admin-failure")

    page.goto(f"{address}/admin/shop/order/")
    page.get_by_role("link", name="a club").click()
    page.get_by_label("Card").fill("good")
    page.get_by_role("button", name="Save", exact=True).click()
    page.goto(f"{address}/admin/mulligan/job/?status=failed")
    page.get_by_role("checkbox").check()
    page.get_by_label("Action").select_option("replay")
    page.get_by_role("button", name="Go").click()
    expect(page.locator(".messagelist")).to_have_text(re.compile("1 job was replayed"))
    page.goto(address)
    until_shown(page, "a club, card good: paid, receipt sent")
    page.goto(f"{address}/admin/mulligan/job/")
    expect(page.locator("#result_list tbody tr")).to_have_count(7)  # with a tick to come
    look(page, "admin-jobs")

    schedules(page, address)
    page.goto(f"{address}/jobs/")
    expect(page.locator("h1")).to_have_text("Overview")
    expect(page.locator("#link")).to_have_text("polling every 2 s")
    look(page, "dashboard")
    page.goto(f"{address}/jobs/#/jobs")
    expect(page.locator("tbody tr")).to_have_count(8)  # with a run between the ticks


def schedules(page: Page, address: str) -> None:
    """The one that a task declares, paused and run; another added, edited and removed."""
    rows = page.locator("#result_list tbody tr")
    page.goto(f"{address}/admin/mulligan/schedule/")
    expect(rows).to_have_count(1)
    page.get_by_role("link", name="shop.tasks.forget_declined").click()
    expect(page.locator("#ticks li")).to_have_count(5)
    page.get_by_role("button", name="Run now").click()
    expect(page.locator(".messagelist")).to_have_text(re.compile("1 schedule was run"))
    look(page, "admin-schedule-declared")

    page.goto(f"{address}/admin/mulligan/schedule/")
    page.get_by_role("link", name="Add schedule").click()
    page.get_by_label("Name:").fill("first-receipt")
    page.get_by_label("Task:").select_option("shop.tasks.receipt")
    page.get_by_label("Arguments:", exact=True).fill("[1]")
    page.get_by_label("Cron:").fill("0 9 * * 1-5")
    page.get_by_label("Timezone:").fill("Europe/Berlin")
    page.get_by_role("button", name="Show its ticks").click()
    expect(page.locator("#ticks li")).to_have_count(5)
    look(page, "admin-schedule-new")
    page.get_by_role("button", name="Save").click()
    expect(rows).to_have_count(2)
    page.get_by_role("checkbox", name="Choose first-receipt").check()
    page.get_by_label("Action").select_option("pause")
    page.get_by_role("button", name="Go").click()
    expect(rows.first).to_contain_text("paused")
    look(page, "admin-schedules")

    page.get_by_role("link", name="first-receipt").click()
    page.get_by_role("button", name="Resume").click()
    page.get_by_label("Cron:").fill("30 8 * * *")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".messagelist")).to_have_text(re.compile("1 schedule was changed"))
    expect(page.locator("#ticks li").first).to_contain_text(":30:00")
    look(page, "admin-schedule")
    page.get_by_role("link", name="Remove").click()
    page.get_by_role("button", name="Yes, remove it").click()
    expect(rows).to_have_count(1)


def test_the_dashboard_by_asgi(shop):
    with (
        started(ASGI, FOLDER, SHOP_DATABASE=shop) as web,
        httpx.Client(
            base_url=web.says(ADDRESS), timeout=LONGEST_WAIT, follow_redirects=True
        ) as client,
    ):
        sign_in(client)
        job = {"task": "shop.tasks.charge", "args": [1], "id": "ключ/1", "delay": 3600}
        assert client.post("/jobs/api/jobs", json=job).json()["id"] == "ключ/1"
        shown = client.get(f"/jobs/api/jobs/{quote('ключ/1', safe='')}")
        assert shown.json()["status"] == "pending"
        assert "dashboard/main.js" in client.get("/jobs/").text
        assert ended(web)
    assert "ключ/1" in run(shop, "mulligan", "jobs", "--json")


def sign_in(client: httpx.Client) -> None:
    """As a browser does, by the form of the admin."""
    form = client.get("/jobs/").text
    [token] = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', form)
    given = {"username": NAME, "password": PASSWORD, "csrfmiddlewaretoken": token}
    answer = client.post("/admin/login/?next=/jobs/", data=given, headers={"referer": "/"})
    assert "dashboard/main.js" in answer.text


def ended(web: Started) -> bool:
    """Whether the web server ends when it is told to."""
    return web.stop() in (0, -15)
