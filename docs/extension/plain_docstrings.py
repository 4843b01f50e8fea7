"""Docstrings here are plain text with `names` in backticks and code that is indented: as RST."""

import re
from typing import Any


def process(
    _app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]
) -> None:
    """Sphinx calls it with the lines of each docstring, in a list to be changed."""
    written: list[str] = []
    code = False
    for line in lines:
        indented = line.startswith("    ")
        if indented and not code and (not written or not written[-1].strip()):
            written += [".. code-block:: python", ""]
            code = True
        elif line.strip() and not indented:
            code = False
        written.append(line if code else re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", line))
    lines[:] = written
