"""The site of docs/ opens from its files, without a network, and its search finds pages."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

import pytest
from playwright.sync_api import expect

from tests.browser.chromium import browser

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.prove


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    assert find_spec("sphinx"), "Sphinx is not installed; run: make docs"
    built = tmp_path_factory.mktemp("site")
    command = [sys.executable, "docs/build.py", "-q", "-E", "-W", "--keep-going", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", built / "read", "docs", built / "html"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return built / "html"


def test_no_page_loads_anything_from_elsewhere(site):
    pages = [page for page in site.rglob("*.html") if "_static" not in page.parts]
    assert len(pages) > 80
    loads = re.compile(r'<(?:script|img|source|iframe)[^>]*\ssrc="([^"]*)"|<link\s[^>]*>')
    for page in pages:
        for found in loads.finditer(page.read_text()):
            target = found[1] or "".join(re.findall(r'href="([^"]*)"', found[0]))
            assert not target.startswith(("http:", "https:", "//")), f"{page.name}: {found[0]}"
            if not target.startswith(("data:", "#")):
                path = unquote(re.split(r"[?#]", target)[0])
                assert (page.parent / path).exists(), f"{page.name}: {found[0]}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*['\"]?(?:https?:)?//", sheet.read_text()), sheet


def test_a_reader_without_a_network_finds_a_page_by_its_words(site):
    with browser() as chromium:
        context = chromium.new_context(offline=True)
        page = context.new_page()
        wanted: list[str] = []
        page.on("request", lambda request: wanted.append(request.url))
        page.goto((site / "index.html").as_uri())
        page.keyboard.press("Control+k")
        page.keyboard.type("breaker")
        found = page.get_by_role("link", name="Regions").first
        expect(found).to_be_visible()
        found.click()
        expect(page.get_by_role("heading", name="The breaker").first).to_be_visible()
        assert all(url.startswith(("file:", "data:", "blob:")) for url in wanted), wanted


def test_a_search_shows_pages_for_users_before_decisions(site):
    with browser() as chromium:
        page = chromium.new_context(offline=True).new_page()
        page.goto((site / "index.html").as_uri())
        page.keyboard.press("Control+k")
        page.keyboard.type("dead letter")
        found = page.locator("#search-results li > a")
        expect(found.filter(has_text=re.compile(r"^\d+\. ")).first).to_be_visible()
        titles = found.all_inner_texts()
    decided = [bool(re.match(r"\d+\. ", title)) for title in titles]
    assert decided.index(True) > 10, titles


def test_the_reference_is_made_from_the_code(site):
    api = (site / "reference/api.html").read_text()
    assert 'id="mulligan.Mulligan.enqueue_many"' in api
    assert "mulligan dead replay" in (site / "reference/commands.html").read_text()
    assert "/api/jobs/{job}" in (site / "reference/http-api.html").read_text()
    assert "keep_done" in (site / "reference/settings.html").read_text()
