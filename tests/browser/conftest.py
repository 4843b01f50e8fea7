"""A browser, and servers and workers as processes for it to look at."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chromium import browser
from tests.browser.site import Site
from tests.browser.watched_page import Watched, watched
from tests.databases import Unavailable

# Generous, for busy machines: nothing waits so long when it works.
expect.set_options(timeout=60_000)
# The first test may have to install the browser.
INSTALLING_SECONDS = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder time for that."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(INSTALLING_SECONDS))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The browser of a module. Where it cannot be had the tests are skipped, and fail in CI.

    Not of the session: while Playwright runs no other event loop can, and other tests need one.
    """
    try:
        with browser() as started:
            yield started
    except Unavailable as error:
        if os.environ.get("CI"):
            pytest.fail(f"the dashboard was not tested: {error}")
        pytest.skip(f"browser: {error}")


@pytest.fixture(scope="module")
def serve(tmp_path_factory) -> Iterator[Callable[..., Site]]:
    """Starts servers over new stores; everything ends with the module."""
    with ExitStack() as stack:

        def make(*arguments: str, app: bool = False) -> Site:
            folder = tmp_path_factory.mktemp("site")
            return stack.enter_context(Site(f"sqlite:///{folder}/jobs.db", *arguments, app=app))

        yield make


@pytest.fixture
def page(chromium) -> Iterator[Watched]:
    """A page in a new profile; nothing may go wrong in it unnoticed."""
    with watched(chromium) as page:
        yield page


@pytest.fixture
def phone(chromium) -> Iterator[Watched]:
    """The same on a small screen."""
    with watched(chromium, viewport={"width": 360, "height": 740}) as page:
        yield page
