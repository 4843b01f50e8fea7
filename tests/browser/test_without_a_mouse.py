"""The dashboard by keyboard, on a small screen, in light and dark, read aloud."""

import pytest
from playwright.sync_api import expect

from tests.cli.command_line import claim, fail, new_job

PAGES = (
    *("", "queues", "queues/mail", "tasks", "tasks/send", "jobs", "jobs/a"),
    *("dead", "delayed", "workers"),
)
# Tables without a caption or a header for each column, fields without a label.
UNNAMED = """[
  ...[...document.querySelectorAll("main table")].filter((table) => !table.caption?.textContent ||
    table.querySelectorAll("th[scope=col]").length !== table.tBodies[0].rows[0].cells.length),
  ...[...document.querySelectorAll("main :is(input, select)")].filter((field) =>
    !field.ariaLabel && !field.closest("label")?.textContent),
].map((element) => element.outerHTML)"""
LONG = "an error message of very many words " * 20


async def fill(store):
    names = [new_job(name, region="US") for name in ("a", "b", "a-name-without-a-break-" * 5)]
    await store.enqueue(names)
    await store.enqueue([new_job("later", delay=7200)])
    await fail(store, await claim(store, 2, region="US"), LONG)


@pytest.fixture(scope="module")
def site(serve, chromium):
    site = serve()
    site.on_store(fill)
    return site


def focused(page, what):
    return page.page.evaluate(f"document.activeElement.{what}")


def press_until(page, key, name):
    """Press the key until what has the focus is called so."""
    for _ in range(60):
        page.page.keyboard.press(key)
        called = "document.activeElement.ariaLabel || document.activeElement.textContent"
        if page.page.evaluate(called).strip() == name:
            return
    raise AssertionError(f"{name!r} cannot be reached by {key}")


def test_a_walk_by_keyboard_alone_replays_a_dead_letter(site, page):
    page.open(site)
    press = page.page.keyboard.press
    press("Tab")
    assert focused(page, "id") == "skip"
    press("Enter")
    assert focused(page, "id") == "main"
    press("Shift+Tab")
    press_until(page, "Shift+Tab", "Dead letters")
    press("Enter")
    expect(page.heading).to_have_text("Dead letters")
    expect(page.heading).to_be_focused()
    press_until(page, "Tab", "Choose all that are shown")
    press("Space")
    expect(page.rows().get_by_role("checkbox")).to_be_checked()
    press_until(page, "Tab", "Replay")
    press("Enter")
    dialog = page.page.get_by_role("dialog", name="Replay 2 jobs?")
    for _ in range(4):
        press("Tab")
        outside = page.page.locator("main :focus, header :focus")
        expect(outside).to_have_count(0)
    press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.button("Replay")).to_be_focused()
    press("Enter")
    press_until(page, "Tab", "Replay 2")
    press("Enter")
    page.says("2 jobs replayed.")
    assert site.get("/api/count", status="failed")["count"] == 0


def test_what_has_the_focus_keeps_it_while_the_page_changes(site, page):
    page.open(site, "queues")
    button = page.button("Pause queue mail")
    button.focus()
    site.post("/api/jobs", {"task": "send", "queue": "mail"})
    fresh = site.get("/api/queues")["queues"]["mail"]["fresh"]
    expect(page.rows().locator("td.number").first).to_have_text(str(fresh))
    expect(button).to_be_focused()


def test_the_focus_can_be_seen(site, page):
    page.open(site)
    for _ in range(6):
        page.page.keyboard.press("Tab")
        style = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.page.evaluate(style) == "solid"


def test_pages_fit_a_small_screen(site, phone):
    for path in PAGES:
        phone.open(site, path)
        assert phone.is_narrow_enough(), path


def test_tables_and_fields_say_what_they_are(site, page):
    for path in PAGES:
        page.open(site, path)
        assert page.page.evaluate(UNNAMED) == [], path
        assert page.page.locator("h1").count() == 1


def test_light_and_dark_follow_the_system_until_one_is_chosen(site, page):
    page.open(site)
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.page.evaluate(ground)
    page.page.emulate_media(color_scheme="dark")
    dark = page.page.evaluate(ground)
    assert light != dark
    page.button("Theme: auto").click()
    assert page.page.evaluate(ground) == light
    page.page.reload()
    expect(page.button("Theme: light")).to_be_visible()
    assert page.page.evaluate(ground) == light
    page.button("Theme: light").click()
    page.page.emulate_media(color_scheme="light")
    assert page.page.evaluate(ground) == dark
