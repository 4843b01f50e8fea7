"""The chart of one or several runs: timelines and backlogs on one time axis."""

from collections.abc import Sequence
from html import escape
from itertools import groupby

from mulligan.sim.attempts import Ending
from mulligan.sim.run import Run
from mulligan.sim.summary import FRESH, OF_OTHERS, RETRY, backlog
from mulligan.sim.svg import (
    LEFT,
    RIGHT,
    WIDTH,
    Scale,
    area,
    count_ticks,
    line,
    rect,
    svg,
    text,
    time_scale,
    time_ticks,
)
from mulligan.sim.timeline import MOST_BARS, timeline

BACKLOG = 84
GAP = 14
LANES = ("fresh", "urgent", "global-retry", "region-retry", "urgent-retry")
STARTS_OF_OTHERS = f"SELECT started FROM attempt WHERE {OF_OTHERS} ORDER BY start_event"
LETTER = 6.6
# A letter of the summary, and of a title.
QUIET_LETTER, TITLE_LETTER = 6.1, 9.0
# How high the mark of a start of another key is.
OTHERS = 12
MANY_STEPS = 500
DOT = 1.5
ENDINGS: list[tuple[Ending, str]] = [
    ("done", "done"),
    ("failed", "failed"),
    ("crashed", "worker died"),
    ("running", "running"),
]


def chart(runs: Sequence[Run]) -> str:
    """The chart as SVG."""
    scenario = runs[0].scenario
    scale = time_scale(max(run.ended_at for run in runs))
    title = scenario.title or scenario.name
    parts = [text(16, 26, title, "title"), *legend(runs, 48)]
    y = 64.0
    backlogs = [backlog(run) for run in runs]
    most = max(
        (count for lanes in backlogs for steps in lanes.values() for _, count in steps), default=0
    )
    for run, lanes in zip(runs, backlogs, strict=True):
        drawn, y = panel(run, lanes, scale, Scale(max(1, most), 0, BACKLOG), y)
        parts += drawn
    return svg(parts, y)


def page(picture: str, title: str) -> str:
    """The chart as an HTML page."""
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{escape(title)}</title>'
        '\n<meta name="color-scheme" content="light dark">\n'
        "<style>body { margin: 1rem; } svg { max-width: 100%; height: auto; }</style>\n"
        f"{picture}</html>\n"
    )


def panel(
    run: Run,
    lanes: dict[str, list[tuple[float, int]]],
    scale: Scale,
    counts: Scale,
    top: float,
) -> tuple[list[str], float]:
    """One run: its policy, its timeline, the backlog of its lanes and the axis of time."""
    parts = [text(16, top + 14, run.title, "title"), *remarks(run, top + 14)]
    drawn, below = timeline(run, scale, top + 28)
    floor = below + GAP + BACKLOG
    grid = [
        line(scale(at), top + 22, scale(at), floor, "grid") for at in time_ticks(scale.most) if at
    ]
    parts += [*grid, *drawn, *areas(lanes, scale, counts, floor, run.ended_at)]
    for [started] in run.log.attempts.rows(STARTS_OF_OTHERS, run.busiest_key):
        x = scale(started)
        parts.append(rect(x - 1, floor - BACKLOG, 2, OTHERS, "other"))
    parts.append(line(LEFT, floor, WIDTH - RIGHT, floor, "axis"))
    for at in time_ticks(scale.most):
        parts.append(text(scale(at), floor + 15, f"{at:g}", "quiet", "middle"))
    parts.append(text(WIDTH - RIGHT, floor + 28, "seconds", "quiet small", "end"))
    return parts, floor + 38


def remarks(run: Run, y: float) -> list[str]:
    """The summary of the run, at the right."""
    log = run.log
    words = f"{len(log.attempts):,} attempts, {log.done:,} jobs done, {log.dead:,} failed"
    end = f"; ended at {seconds(run.ended_at)}"
    room = (WIDTH - RIGHT - 16 - TITLE_LETTER * len(run.title)) / QUIET_LETTER
    for kind, which, values in (
        ("a fresh job", FRESH, ()),
        ("the other keys", OF_OTHERS, (run.busiest_key,)),
        ("a due retry", RETRY, ()),
    ):
        longest = log.attempts.value(f"SELECT max(wait) FROM attempt WHERE {which}", *values)
        more = "" if longest is None else f"; longest wait of {kind} {seconds(longest)}"
        if len(words + more + end) < room:
            words += more
    return [text(WIDTH - RIGHT, y, words + end, "quiet", "end")]


def seconds(value: float) -> str:
    """A time as people read it."""
    return f"{value:,.1f}".removesuffix(".0") + " s"


def areas(
    lanes: dict[str, list[tuple[float, int]]],
    scale: Scale,
    counts: Scale,
    floor: float,
    now: float,
) -> list[str]:
    """How many jobs wait in each lane, as stacked areas."""
    parts = [text(LEFT - 8, floor - BACKLOG - 5, "waiting", "quiet small", "end")]
    for count in count_ticks(counts.most):
        y = floor - counts(count)
        parts.append(line(LEFT, y, WIDTH - RIGHT, y, "grid"))
        parts.append(text(LEFT - 8, y + 4, f"{count:g}", "quiet", "end"))
    for lane in LANES:
        steps = lanes.get(lane)
        if steps:
            points = outline(steps, scale, now)
            parts.append(area([(x, floor - counts(n)) for x, n in points], floor, f"area {lane}"))
    return parts


def outline(
    steps: Sequence[tuple[float, int]], scale: Scale, now: float
) -> list[tuple[float, float]]:
    """The corners of the steps; of many steps, the highest and the last of each pixel."""
    levels = [(scale(at), count) for at, count in steps]
    if len(levels) > MANY_STEPS:
        levels = thinned(levels)
    points: list[tuple[float, float]] = []
    level = 0
    for x, count in levels:
        points += [(x, level), (x, count)]
        level = count
    return [*points, (scale(now), level)]


def thinned(points: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """At most two points for each pixel."""
    kept: list[tuple[float, int]] = []
    for dot, group in groupby(points, key=lambda point: round(point[0] / DOT)):
        counts = [count for _, count in group]
        kept += [(dot * DOT, max(counts)), (dot * DOT, counts[-1])]
    return kept


def legend(runs: Sequence[Run], y: float) -> list[str]:
    """What the colours mean; only those that occur."""
    many = any(len(run.log.attempts) > MOST_BARS for run in runs)
    kinds = "SELECT DISTINCT ending, lane, before IS NOT NULL FROM attempt"
    found = {kind for run in runs for kind in run.log.attempts.rows(kinds)}
    endings = {ending for ending, _, _ in found}
    lanes = {lane for _, lane, _ in found}
    words: dict[Ending, str] = {
        "done": "done",
        "failed": "failed",
        "crashed": "worker died",
        "running": "running",
    }
    entries: list[tuple[str, str]] = [
        (kind, word) for kind, word in words.items() if kind in endings
    ]
    if any(is_retry for _, _, is_retry in found):
        entries.append(("again", "done by a retry") if many else ("retry", "a retry"))
    entries += [(f"area {lane}", f"waiting: {lane}") for lane in LANES if lane in lanes]
    if any(set(run.log.attempts.rows(STARTS_OF_OTHERS, run.busiest_key)) for run in runs):
        entries.append(("other", "starts of other keys"))
    if any(region.outage for region in runs[0].scenario.regions):
        entries.append(("outage", "out of order"))
    if any(run.log.switches for run in runs):
        entries.append(("breaker", "breaker open"))
    parts: list[str] = []
    x = 16.0
    for kind, word in entries:
        if kind == "retry":
            parts.append(rect(x, y - 10, 14, 11, "done retry", round_by=2))
            parts.append(f'<rect fill="url(#hatch)" x="{x}" y="{y - 10}" width="14" height="11"/>')
        elif kind in ("outage", "breaker"):
            parts.append(rect(x, y - 6, 14, 3, kind))
        else:
            parts.append(rect(x, y - 10, 14, 11, kind, round_by=2))
        parts.append(text(x + 20, y, word))
        x += 20 + len(word) * LETTER + 22
    return parts
