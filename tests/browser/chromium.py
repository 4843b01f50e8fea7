"""Debian's Chromium, installed where it is missing, driven by Playwright."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

from tests.databases import _debian

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

EXECUTABLE = "/usr/bin/chromium"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def installed() -> str:
    """The path of Chromium; raises Unavailable where it cannot be had."""
    if not Path(EXECUTABLE).exists() and shutil.which("chromium") is None:
        _debian.install("chromium")
    return shutil.which("chromium") or EXECUTABLE


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser with a profile of its own, which knows nothing."""
    path = installed()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield started
        finally:
            started.close()
