"""Servers that only show, servers that ask for a token, and problems in the server's words."""

import pytest
from playwright.sync_api import expect

from tests.cli.command_line import claim, fail, new_job

READ, OPERATE = "r" * 32, "o" * 32
# What asks for nothing to be changed.
PRESSED = "main button:not(.sort), main input[type=checkbox]"
HARMLESS = {"Refresh", "Find", "Copy"}
PAGES = ("", "queues", "queues/mail", "jobs?status=failed", "jobs/dead", "dead", "enqueue")


async def fill(store):
    await store.enqueue([new_job("dead"), new_job("waiting")])
    await fail(store, await claim(store, 1))


@pytest.fixture(scope="module")
def only_shown(serve, chromium):
    site = serve("--read-only")
    site.on_store(fill)
    return site


@pytest.fixture(scope="module")
def guarded(serve, chromium, tmp_path_factory):
    tokens = tmp_path_factory.mktemp("tokens") / "tokens"
    tokens.write_text(f"read {READ}\noperate {OPERATE}\n")
    tokens.chmod(0o600)
    site = serve("--token-file", str(tokens))
    site.on_store(fill)
    return site


def test_a_server_that_only_shows_has_nothing_to_press(only_shown, page):
    for path in PAGES:
        page.open(only_shown, path)
        expect(page.page.locator("#foot")).to_contain_text("read-only")
        pressed = page.page.locator(PRESSED).all_inner_texts()
        assert [word for word in pressed if word not in HARMLESS] == [], path
        expect(page.page.locator("nav").get_by_text("Enqueue")).to_have_count(0)


def give(page, token):
    dialog = page.page.get_by_role("dialog")
    dialog.get_by_label("Token").fill(token)
    dialog.get_by_role("button", name="Use this token").click()


def test_a_token_is_asked_for_once_and_kept_for_this_tab(guarded, page):
    page.expects_refusals = True
    page.page.goto(f"{guarded.address}/#/queues")
    expect(page.page.get_by_role("dialog")).to_contain_text("Authorization: Bearer TOKEN")
    give(page, "x" * 32)
    expect(page.page.get_by_role("dialog")).to_contain_text("not in the token file")
    give(page, OPERATE)
    page.button("Pause queue mail").click()
    expect(page.button("Resume queue mail")).to_be_visible()
    page.button("Resume queue mail").click()
    page.page.reload()
    expect(page.button("Pause queue mail")).to_be_visible()
    expect(page.page.locator("#link")).to_have_text("live")
    assert page.page.evaluate("[localStorage.length, document.cookie]") == [1, ""]
    page.button("Forget token").click()
    expect(page.page.get_by_role("dialog")).to_be_visible()


def test_with_a_token_that_may_only_read_there_is_nothing_to_press(guarded, page):
    page.expects_refusals = True
    page.page.goto(f"{guarded.address}/#/queues")
    give(page, READ)
    expect(page.page.get_by_role("contentinfo")).to_contain_text("read-only")
    expect(page.rows()).to_have_count(1)
    expect(page.button("Pause queue mail")).to_have_count(0)


def test_who_gives_no_token_is_not_asked_again_and_again(guarded, page):
    page.expects_refusals = True
    page.page.goto(f"{guarded.address}/#/dead")
    page.button("Not now").click()
    expect(page.page.get_by_role("alert")).to_contain_text("Authorization: Bearer TOKEN")
    expect(page.page.get_by_role("dialog")).to_have_count(0)
    page.button("Try again").click()
    give(page, READ)
    expect(page.rows()).to_have_count(1)


def test_a_job_that_is_not_there_is_said_in_the_servers_words(only_shown, page):
    page.expects_refusals = True
    page.open(only_shown, "jobs/nothing")
    expect(page.page.get_by_role("alert")).to_contain_text("no job 'nothing' is stored")


def test_an_address_that_no_page_has_is_said(only_shown, page):
    page.open(only_shown, "nowhere")
    expect(page.heading).to_have_text("Nothing here")
