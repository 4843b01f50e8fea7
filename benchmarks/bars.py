"""Bars side by side, a group for each store, as SVG."""

from collections.abc import Sequence
from math import log10

from benchmarks.figures import OURS
from benchmarks.tables import number
from mulligan.sim.svg import WIDTH, rect, svg, text

Group = tuple[str, list[tuple[str, float | str]]]
ROW, BAR, NAMES, LABELS = 20, 13, 190, 130
# on a logarithmic scale, what is shorter than this has the shortest bar
LEAST = 0.1


def bars(title: str, groups: Sequence[Group], *, logarithmic: bool) -> str:
    """The picture; where a value is words, they stand in place of its bar."""
    values = [v for _, lines in groups for _, v in lines if not isinstance(v, str)]
    most = max(values, default=1.0)
    parts = [text(24, 30, title, "title")]
    if logarithmic:
        parts.append(text(24, 48, "logarithmic scale", "quiet small"))
    y = 62.0
    for heading, lines in groups:
        parts.append(text(24, y + 12, heading, "quiet"))
        y += ROW
        for name, value in lines:
            parts.append(text(24 + NAMES, y + 11, name, anchor="end"))
            start = 24 + NAMES + 10
            wide = 0.0
            if not isinstance(value, str):
                room = WIDTH - start - LABELS
                wide = room * share(value, most, logarithmic=logarithmic)
                colour = "done" if name.startswith(OURS) else "fresh"
                parts.append(rect(start, y, wide, BAR, colour))
            said = value if isinstance(value, str) else number(value)
            parts.append(text(start + wide + 8, y + 11, said, "small"))
            y += ROW
        y += 8
    return svg(parts, y + 8)


def share(value: float, most: float, *, logarithmic: bool) -> float:
    """How much of the longest bar this one has, from 0 to 1."""
    if not logarithmic:
        return max(0.0, value) / most
    if value <= LEAST or most <= LEAST:
        return 0.0
    return log10(value / LEAST) / log10(most / LEAST)
