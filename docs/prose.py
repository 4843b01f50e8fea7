"""Looks for what good writers avoid, by proselint: `python docs/prose.py`, as `make docs` does.

It sees pages without their code, tables and links, each line where it is.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "CONTRIBUTING.md", "docs/**/*.md")
# how characters look, how dates are written, and notes in quoted code
LEFT_OUT = ("typography", "dates_times", "annotations")
CODE = re.compile(
    r"^(?P<fence> *`{3,}|:{3,}).*?^(?P=fence)$|^ {4,}[^ ].*?$|^\|.*?$|^#+ .*?$|`[^`]*`|<!--.*?-->",
    re.DOTALL | re.MULTILINE,
)


def prose(page: str) -> str:
    """The page without what is no prose; each removal leaves its line breaks."""
    text = CODE.sub(lambda code: mark(code[0]), page)
    return re.sub(r"\]\([^)]*\)", "]", text)


def mark(code: str) -> str:
    """What stands for a piece of code: nothing for a block, a different word for each other."""
    return (
        "\n" * code.count("\n")
        if "\n" in code or code[0] != "`"
        else f"code{chr(ord('a') + len(code) % 26)}"
    )


def main() -> None:
    """Lint every page; exit with 1 and one line for each finding."""
    with tempfile.TemporaryDirectory() as folder:
        pages = [page for each in PAGES for page in sorted(ROOT.glob(each))]
        for page in pages:
            copy = Path(folder) / page.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(prose(page.read_text()))
        command = [str(Path(sys.executable).with_name("proselint")), "check"]
        done = subprocess.run(  # noqa: S603 - our own words
            [*command, *(str(page.relative_to(ROOT)) for page in pages)],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    text = done.stdout.replace(f"{folder}/", "")
    found = re.findall(r"^[^ :]+:\d+:\d+: (\w+).*$", text, re.MULTILINE)
    lines = re.findall(r"^[^ :]+:\d+:\d+: .*$", text, re.MULTILINE)
    said = [line for line, check in zip(lines, found, strict=True) if check not in LEFT_OUT]
    if done.stderr or said:
        sys.exit("\n".join([*said, done.stderr]))


if __name__ == "__main__":
    main()
