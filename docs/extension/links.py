"""Links of a page to files that are not on the site lead to the repository."""

import os
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://github.com/mulligan-queue/mulligan"
# files beside docs/ that are pages of the site
PAGES = {
    "CHANGELOG.md": "docs/project/changes.md",
    "CONTRIBUTING.md": "docs/project/contributing.md",
    "README.md": "docs/index.md",
    "SECURITY.md": "docs/project/report-a-weakness.md",
}


def lead(text: str, page: Path, shown_as: Path) -> str:
    """The text of `page`, a path from the root, with its links as they are on `shown_as`."""

    def led(found: re.Match[str]) -> str:
        target, anchor = found[1], found[2] or ""
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        path = os.path.normpath(page.parent / target)
        path = PAGES.get(path, path)
        if path.startswith("docs" + os.sep):
            return f"]({os.path.relpath(path, shown_as.parent)}{anchor})"
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"]({REPOSITORY}/{kind}/main/{path}{anchor})"

    return re.sub(r"\]\(([^)#\s]+)(#[^)\s]*)?\)", led, text)
