"""Puts into a page what the code knows, as it is read, and leads its links to where they are.

A page asks by a comment, which GitHub does not show: `<!-- made: commands -->`.
"""

import re
from pathlib import Path
from typing import Any

from extension import commands, http_api, links, settings

ROOT = Path(__file__).parents[2]
MADE = {
    "commands": commands.page,
    "http api": http_api.page,
    "settings": settings.page,
}


def read(app: Any, name: str, source: list[str]) -> None:
    """Sphinx calls it with each page's text, in a list to be changed."""
    page = Path(app.srcdir, f"{name}.md").relative_to(ROOT)
    text = re.sub(r"<!-- made: ([a-z ]+) -->", lambda found: MADE[found[1]](), source[0])
    if whole := re.search(r"<!-- the file ([A-Z]+\.md) -->", text):
        page = Path(whole[1])
        text = (ROOT / page).read_text()
    source[0] = links.lead(text, page, Path("docs", f"{name}.md"))
