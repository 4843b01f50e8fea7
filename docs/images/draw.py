"""Draws what a terminal showed, with its colours, as SVG: `draw.py demo.svg < screen`."""

import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 100


def main() -> None:
    """Read ANSI text from standard input, as `tmux capture-pane -p -e` prints it."""
    screen = Console(record=True, width=WIDTH, file=sys.stderr, force_terminal=True)
    # an empty last line: rich cuts off what hangs below the last one
    screen.print(Text.from_ansi(sys.stdin.read().rstrip()), end="\n\n")
    drawn = screen.export_svg(title="make demo")
    # The picture fetches nothing: the reader's own fixed-width font will do.
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
    drawn = drawn.replace("Fira Code, monospace", "Fira Code, DejaVu Sans Mono, Menlo, monospace")
    Path(sys.argv[1]).write_text(drawn)


if __name__ == "__main__":
    main()
