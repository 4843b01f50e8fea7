"""Takes pictures of the built site, from its files: `python -m tests.browser.documentation FOLDER`.

Run `make docs` first.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tests.browser.chromium import browser

if TYPE_CHECKING:
    from playwright.sync_api import ViewportSize

SITE = Path(__file__).parents[2] / "site"
WIDE: ViewportSize = {"width": 1280, "height": 860}
NARROW: ViewportSize = {"width": 390, "height": 844}
PICTURES: dict[str, tuple[str, ViewportSize, Literal["light", "dark"]]] = {
    "front": ("index.html", WIDE, "light"),
    "tutorial": ("tutorial/index.html", WIDE, "light"),
    "howto": ("howto/rate-limit-an-api.html", WIDE, "light"),
    "life": ("concepts/life-of-a-job.html", WIDE, "light"),
    "life-dark": ("concepts/life-of-a-job.html", WIDE, "dark"),
    "api": ("reference/api.html", WIDE, "light"),
    "http-api": ("reference/http-api.html", WIDE, "light"),
    "commands": ("reference/commands.html", WIDE, "light"),
    "front-dark": ("index.html", WIDE, "dark"),
    "fairness-dark": ("concepts/fairness.html", WIDE, "dark"),
    "front-phone": ("index.html", NARROW, "light"),
    "tutorial-phone": ("tutorial/index.html", NARROW, "dark"),
}


def main() -> None:
    """Open each page as a reader would who has the folder and no network."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with browser() as chromium:
        for name, (page, size, scheme) in PICTURES.items():
            context = chromium.new_context(viewport=size, color_scheme=scheme, offline=True)
            opened = context.new_page()
            opened.goto((SITE / page).as_uri())
            opened.screenshot(path=folder / f"{name}.png")
            context.close()


if __name__ == "__main__":
    main()
