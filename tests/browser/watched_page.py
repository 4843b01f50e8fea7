"""A page that notes everything that goes wrong in it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from playwright.sync_api import Browser, ConsoleMessage, Dialog, Locator, Page

    from tests.browser.site import Site

# Reports what the Content-Security-Policy has stopped.
REPORTING = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI}`));
"""
REFUSED = "Failed to load resource"


class Watched:
    """A page of the dashboard, as a reader goes about it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.wrong: list[str] = []
        self.expects_refusals = False
        page.add_init_script(REPORTING)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("dialog", self._dialog)

    def open(self, site: Site, path: str = "") -> Watched:
        """Go to a page of the site's dashboard, and wait until it is there."""
        self.page.goto(f"{site.address}/#/{path}")
        expect(self.page.locator("main")).to_have_attribute("data-page", f"#/{path}")
        expect(self.heading).to_be_visible()
        return self

    @property
    def heading(self) -> Locator:
        """The title of the page."""
        return self.page.locator("h1")

    def button(self, name: str | re.Pattern[str]) -> Locator:
        """A button by what it says."""
        return self.page.get_by_role("button", name=name, exact=isinstance(name, str))

    def agree(self, title: str, action: str) -> None:
        """Answer the dialog of this title with this action."""
        dialog = self.page.get_by_role("dialog", name=title)
        expect(dialog).to_be_visible()
        dialog.get_by_role("button", name=action, exact=True).click()
        expect(dialog).to_have_count(0)

    def says(self, text: str | re.Pattern[str]) -> None:
        """A notice says so, aloud for who cannot see it."""
        expect(self.page.locator("#notices")).to_contain_text(text)

    def tile(self, label: str) -> Locator:
        """The number of a tile."""
        return self.page.locator(".tile").filter(has_text=label).locator("strong")

    def rows(self) -> Locator:
        """The rows of the tables."""
        return self.page.locator("tbody tr")

    def is_narrow_enough(self) -> bool:
        """Whether nothing has to be scrolled sideways."""
        return bool(
            self.page.evaluate(
                "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
            )
        )

    def _console(self, message: ConsoleMessage) -> None:
        refusal = message.text.startswith(REFUSED) and self.expects_refusals
        if message.type in ("error", "warning") and not refusal:
            self.wrong.append(f"{message.type}: {message.text}")

    def _dialog(self, dialog: Dialog) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()


@contextmanager
def watched(browser: Browser, **options: Any) -> Iterator[Watched]:
    """A page in a new profile; fails in the end if anything went wrong in it."""
    context = browser.new_context(**options)
    try:
        page = Watched(context.new_page())
        yield page
        assert page.wrong == []
    finally:
        context.close()
