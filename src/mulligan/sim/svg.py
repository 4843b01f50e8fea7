"""Pieces of SVG: elements, scales and ticks."""

from collections.abc import Iterable, Sequence
from html import escape
from math import floor, log10
from typing import NamedTuple

WIDTH = 1160
LEFT, RIGHT = 92, 24
TICKS = 12
ROUND_TIMES = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 21_600)

# Light by default, dark where the viewer prefers that.
STYLE = """
text { font: 12px system-ui, "DejaVu Sans", sans-serif; fill: #30343b; }
.paper { fill: #ffffff; } .title { font-size: 15px; font-weight: 600; }
.quiet { fill: #6a717c; } .small { font-size: 10px; }
.grid { stroke: #d5d8dd; stroke-width: 1; } .axis { stroke: #8a919c; stroke-width: 1; }
.band { fill: #e8eaee; fill-opacity: 0.55; }
.done { fill: #4c9f70; } .again { fill: #2c6e49; } .failed { fill: #cf4a3f; }
.crashed { fill: #3b3f46; } .running { fill: #a9b0ba; }
.retry { stroke: #1d2025; stroke-width: 1.2; } .number { fill: #ffffff; font-weight: 600; }
.fresh { fill: #5b8db8; stroke: #3f6d95; } .global-retry { fill: #e08e36; stroke: #b76a17; }
.region-retry { fill: #9c6bb0; stroke: #774a8a; } .urgent { fill: #c65b7c; stroke: #9d3a59; }
.urgent-retry { fill: #b8a13a; stroke: #8b7820; }
.area { fill-opacity: 0.45; stroke-width: 1; }
.other { fill: #c2410c; } .outage { fill: #cf4a3f; } .breaker { fill: #2b4a9b; }
@media (prefers-color-scheme: dark) {
  text { fill: #d7dae0; } .paper { fill: #1b1d21; } .quiet { fill: #9aa1ac; }
  .grid { stroke: #33373e; } .axis { stroke: #6a717c; } .band { fill: #2b2f36; }
  .crashed { fill: #aab0ba; } .retry { stroke: #f0f2f5; } .again { fill: #7cc79b; }
  .breaker { fill: #8fa8ee; }
}
""".strip()
HATCH = (
    '<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse"'
    ' patternTransform="rotate(45)"><line x1="0" y1="0" x2="0" y2="6" stroke="#ffffff"'
    ' stroke-opacity="0.35" stroke-width="2.4"/></pattern>'
)


class Scale(NamedTuple):
    """From a value to a coordinate."""

    most: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        """The coordinate of the value."""
        return self.begin + (self.end - self.begin) * value / self.most


def time_scale(most: float) -> Scale:
    """Seconds from 0 to the right edge."""
    return Scale(max(most, 1e-3), LEFT, WIDTH - RIGHT)


def rect(
    x: float,
    y: float,
    width: float,
    height: float,
    kind: str,
    *,
    round_by: int = 0,
    title: str = "",
) -> str:
    """A rectangle of this kind; its title is shown where the pointer rests."""
    corner = f' rx="{round_by}"' if round_by else ""
    position = f'x="{at(x)}" y="{at(y)}" width="{at(max(width, 0.5))}" height="{at(height)}"'
    if not title:
        return f'<rect class="{kind}" {position}{corner}/>'
    return f'<rect class="{kind}" {position}{corner}><title>{escape(title)}</title></rect>'


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """Words on a base line."""
    named = f' class="{kind}"' if kind else ""
    said = escape(words, quote=False)
    return f'<text{named} x="{at(x)}" y="{at(y)}" text-anchor="{anchor}">{said}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A straight line."""
    return f'<line class="{kind}" x1="{at(x1)}" y1="{at(y1)}" x2="{at(x2)}" y2="{at(y2)}"/>'


def area(points: Sequence[tuple[float, float]], floor_at: float, kind: str) -> str:
    """The area between a line of points and the floor."""
    corners = [*points, (points[-1][0], floor_at)]
    path = [f"M{at(points[0][0])} {at(floor_at)}"]
    here = at(points[0][0]), at(floor_at)
    for there in ((at(x), at(y)) for x, y in corners):
        if there[0] == here[0] or there[1] == here[1]:
            step = f"V{there[1]}" if there[0] == here[0] else f"H{there[0]}"
            if path[-1][0] == step[0]:
                path.pop()  # the line continues in the same direction
            path.append(step)
        else:
            path.append(f"L{there[0]} {there[1]}")
        here = there
    return f'<path class="{kind}" d="{"".join(path)}Z"/>'


def time_ticks(most: float) -> list[float]:
    """Round times from 0 on, at most a dozen."""
    for step in ROUND_TIMES:
        if most / step <= TICKS:
            return multiples(step, most)
    return multiples(nice_step(most, TICKS), most)


def count_ticks(most: float) -> list[float]:
    """A few round numbers from 0 on."""
    return multiples(max(1.0, nice_step(most, 3)), most)


def nice_step(most: float, ticks: int) -> float:
    """The least of 1, 2, 5, 10 … that needs no more than so many steps."""
    size = 10.0 ** floor(log10(max(most / ticks, 1e-9)))
    return next(size * factor for factor in (1, 2, 5, 10) if most / (size * factor) <= ticks)


def multiples(step: float, most: float) -> list[float]:
    """0, step, 2 step … up to `most`."""
    return [step * n for n in range(int(most / step + 1e-9) + 1)]


def svg(parts: Iterable[str], height: float) -> str:
    """The whole drawing."""
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {at(height)}"'
        f' width="{WIDTH}" height="{at(height)}">\n<style>{STYLE}</style>\n<defs>{HATCH}</defs>\n'
        f'<rect class="paper" width="{WIDTH}" height="{at(height)}"/>\n{body}\n</svg>\n'
    )


def at(coordinate: float) -> str:
    """A coordinate as short text."""
    return f"{coordinate:.1f}".removesuffix(".0")
