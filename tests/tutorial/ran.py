"""Renews what commands print on pages of the documentation: `make transcripts`.

Every block of console on a page is typed, in order, in an empty folder, where the Python of the
page stands as shop.py, or in the file that its first line names. Lines that the page shows are
put there as they are printed now, with … for what it leaves out; a command that shows nothing yet
gets all of it. `<!-- typed: COMMAND -->` is typed where the reader does not see it. A test fails if
a page says otherwise.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
import venv
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.store_kit import fresh_url
from tests.tutorial.reader import ROOT, Reader
from tests.tutorial.transcript import PART, renewed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TUTORIAL = ROOT / "docs/tutorial/index.md"
# what pages call a server
SERVERS = {"postgresql://localhost/jobs": "postgres", "redis://localhost:6379/0": "redis"}
# the pip of these tests, working on the newcomer's environment: one less to install
PIP = f"{sys.executable} -m pip --python .venv -q --disable-pip-version-check"


class Newcomer(Reader):
    """Starts with nothing but a wheel, in an environment of their own."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        venv.create(folder / ".venv")
        super().__init__(folder, folder / ".venv/bin")
        self.wheel = wheel

    def types(self, line: str, prints: tuple[str, ...] = ()) -> str:
        if line.startswith(("mkdir ", "cd ", "python3 -m venv", ". .venv")):
            return ""  # all is made, every command runs in the folder, and PATH begins with .venv
        line = line.replace("'mulligan[", f"'{self.wheel}[")
        return super().types(re.sub(r"^pip install ", f"{PIP} install --no-compile ", line), prints)


class Installed(Reader):
    """Has everything that a page would have them install, and our examples."""

    def types(self, line: str, prints: tuple[str, ...] = ()) -> str:
        return "" if line.startswith("pip install ") else super().types(line, prints)


def pages() -> list[Path]:
    """Those that show what commands print, but for the tutorial, which needs more."""
    found = [page for page in sorted(ROOT.glob("docs/**/*.md")) if consoles(page)]
    return [page for page in found if page != TUTORIAL]


def consoles(page: Path) -> str:
    """What the page has its reader type."""
    parts = PART.finditer(page.read_text())
    return "".join(
        part["text"] or part["hidden"] for part in parts if part["kind"] in {"console", None}
    )


@asynccontextmanager
async def reader(page: Path, folder: Path) -> AsyncIterator[Reader]:
    """Somebody with the servers that the page names."""
    typed = consoles(page)
    async with AsyncExitStack() as stack:
        places = {
            named: await stack.enter_async_context(fresh_url(store, folder))
            for named, store in SERVERS.items()
            if named in typed
        }
        folder.joinpath("examples").symlink_to(ROOT / "examples")
        yield stack.enter_context(Installed(folder, places=places))


async def renew(page: Path, folder: Path) -> str:
    """The page with what its commands print now."""
    text = page.read_text()  # noqa: ASYNC240 - nothing else runs meanwhile
    async with reader(page, folder) as someone:
        return renewed(text, someone.does)


def renew_tutorial(folder: Path, wheel: Path) -> tuple[str, list[str]]:
    """The tutorial with what its commands print now, and those that ended badly."""
    with Newcomer(folder, wheel) as someone:
        return renewed(TUTORIAL.read_text(), someone.does), someone.failed


def main() -> None:
    """Renew every page, or those that are named."""
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or [TUTORIAL, *pages()]
    for page in chosen:
        with tempfile.TemporaryDirectory() as folder:
            if page == TUTORIAL:
                text, _ = renew_tutorial(Path(folder), built(Path(folder)))
            else:
                text = asyncio.run(renew(page, Path(folder)))
        page.write_text(text)


def built(folder: Path) -> Path:
    """What `pip install mulligan` would bring, of these sources."""
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        str(folder / "dist"),
    ]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next((folder / "dist").glob("*.whl"))


if __name__ == "__main__":
    main()
