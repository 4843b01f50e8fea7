"""Renews what commands print on pages of the documentation: `make transcripts`.

A block of console below `<!-- ran -->` is typed in an empty folder, where the Python of the page
stands as shop.py. What it prints is put there; a test fails if a page says otherwise. Let such a
page show what is the same on every machine.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
RAN = re.compile(r"(?<=^<!-- ran -->\n```console\n)(.*?)(?=^```$)", re.DOTALL | re.MULTILINE)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
WIDTH = "110"


def pages() -> list[Path]:
    """Those that have such blocks."""
    return [page for page in sorted(ROOT.glob("docs/**/*.md")) if RAN.search(page.read_text())]


def renewed(page: Path) -> str:
    """The page with what its commands print now."""
    text = page.read_text()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "shop.py").write_text("\n".join(PYTHON.findall(text)))
        return RAN.sub(lambda found: typed(found[1], Path(folder)), text)


def typed(block: str, folder: Path) -> str:
    """The commands of a block, each with what it prints."""
    lines = [line for line in block.splitlines() if line.startswith("$ ")]
    return "".join(f"{line}\n{printed(line.removeprefix('$ '), folder)}" for line in lines)


def printed(command: str, folder: Path) -> str:
    """What a command of mulligan's prints in the folder."""
    program, *arguments = shlex.split(command)
    if program != "mulligan":
        raise ValueError(f"{command!r} is no command of mulligan's")
    done = subprocess.run(
        [sys.executable, "-m", "mulligan", *arguments],
        cwd=folder,
        env={**os.environ, "COLUMNS": WIDTH, "TZ": "UTC", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def main() -> None:
    """Renew every page."""
    for page in pages():
        page.write_text(renewed(page))


if __name__ == "__main__":
    main()
