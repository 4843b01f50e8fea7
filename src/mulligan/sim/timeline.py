"""The timeline of attempts by region and worker, or of many, how busy each region was."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate, groupby

from mulligan.sim.attempts import Attempt
from mulligan.sim.run import Run
from mulligan.sim.svg import LEFT, RIGHT, WIDTH, Scale, area, line, rect, text

# More bars than this cannot be told apart.
MOST_BARS = 2000
BAR, GAP, REGION_GAP = 18, 3, 10
SPAN = 2.5
LETTER = 6.0
LEAST_BAR = 7
MANY_ROWS = 24
BUSY = 54
COLUMN = 4
KINDS = ("done", "again", "failed", "crashed", "running")

Row = tuple[str, str, list[Attempt]]


def timeline(run: Run, scale: Scale, top: float) -> tuple[list[str], float]:
    """The drawing from `top` on, and where it ends."""
    if len(run.log.attempts) > MOST_BARS:
        return busy(run, scale, top)
    return bars(run, scale, top)


def bars(run: Run, scale: Scale, top: float) -> tuple[list[str], float]:
    """One bar for each attempt, in a row for each slot of each worker."""
    found = rows(run)
    height = BAR if len(found) <= MANY_ROWS else LEAST_BAR
    parts: list[str] = []
    y = top
    for region, group in groupby(found, key=lambda row: row[0]):
        begin = y
        drawn: list[str] = []
        for _, worker, attempts in group:
            if height == BAR:
                drawn.append(text(LEFT - 8, y + height - 5, worker, "quiet", "end"))
            for attempt in attempts:
                drawn += bar(attempt, scale, y, height, run.ended_at)
            y += height + GAP
        parts.append(rect(LEFT, begin - 2, WIDTH - LEFT - RIGHT, y - begin + 1, "band"))
        parts += spans(run, region, scale, begin - 6)
        if height != BAR:
            parts.append(text(LEFT - 8, begin + 11, region, "", "end"))
        parts += drawn
        y += REGION_GAP
    return parts, y - REGION_GAP


def bar(attempt: Attempt, scale: Scale, y: float, height: float, now: float) -> list[str]:
    """An attempt; one that is a retry is hatched, outlined and numbered."""
    ended = now if attempt.ending == "running" else attempt.ended
    x, width = scale(attempt.started), scale(ended) - scale(attempt.started)
    title = (
        f"{attempt.job}, attempt {attempt.number} from lane {attempt.lane}:"
        f" {attempt.started:g} to {ended:g} s in {attempt.region}, {attempt.ending}"
    )
    kind = f"attempt {attempt.ending}{' retry' if attempt.is_retry else ''}"
    parts = [rect(x + 0.5, y, width - 1, height, kind, round_by=2, title=title)]
    if attempt.is_retry:
        parts.append(
            f'<rect fill="url(#hatch)" pointer-events="none" x="{x + 0.5:.2f}" y="{y:.2f}"'
            f' width="{max(width - 1, 0.5):.2f}" height="{height}"/>'
        )
    said = next((each for each in names(attempt) if width > len(each) * LETTER + 6), "")
    if said and height == BAR:
        parts.append(text(x + width / 2, y + height - 5, said, "number small", "middle"))
    return parts


def names(attempt: Attempt) -> tuple[str, ...]:
    """The texts that a bar may show, the longest first."""
    if attempt.is_retry:
        return f"{attempt.job}, attempt {attempt.number}", f"{attempt.number}"
    return (attempt.job,)


def rows(run: Run) -> list[Row]:
    """(region, worker, attempts) for each slot; a new incarnation has its predecessor's row."""
    of_worker: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in run.log.attempts:
        of_worker[post(attempt.worker, attempt.region)].append(attempt)
    found: list[Row] = []
    for region in run.scenario.regions:
        for number in range(1, region.workers + 1):
            name = f"{region.name}-{number}"
            label = region.name if region.workers == 1 else name
            slots = in_slots(of_worker.get(name, []), region.concurrency)
            found += [
                (region.name, label if slot == 0 else "", attempts)
                for slot, attempts in enumerate(slots)
            ]
    return found


def post(worker: str, region: str) -> str:
    """The name of a worker without the number of its incarnation."""
    return f"{region}-{worker.removeprefix(f'{region}-').partition('.')[0]}"


def in_slots(attempts: Sequence[Attempt], count: int) -> list[list[Attempt]]:
    """The attempts of a worker by slot, so that no two of a slot overlap."""
    slots: list[list[Attempt]] = [[] for _ in range(count)]
    for attempt in attempts:
        free = (slot for slot in slots if not slot or slot[-1].ended <= attempt.started)
        next(free, slots[-1]).append(attempt)
    return slots


def busy(run: Run, scale: Scale, top: float) -> tuple[list[str], float]:
    """For each region, which share of its slots did what, in columns of a few pixels."""
    parts: list[str] = []
    columns = int((scale.end - scale.begin) / COLUMN)
    span = scale.most / columns
    y = top
    for region in run.scenario.regions:
        floor = y + BUSY
        parts.append(rect(LEFT, y, WIDTH - LEFT - RIGHT, BUSY, "band"))
        parts.append(text(LEFT - 8, y + BUSY / 2 + 4, region.name, "", "end"))
        parts.append(text(LEFT - 8, y + 9, "all busy", "quiet small", "end"))
        capacity = span * region.workers * region.concurrency
        columns_of = [
            [min(1.0, sums / capacity) * BUSY for sums in accumulate(shares)]
            for shares in shares_of(run, region.name, columns, span)
        ]
        # The tallest first, so that each covers the lower part of the one before.
        for index, kind in reversed(list(enumerate(KINDS))):
            heights = [sums[index] for sums in columns_of]
            if any(heights):
                points = [
                    (scale.begin + (column + side) * COLUMN, floor - height)
                    for column, height in enumerate(heights)
                    for side in (0, 1)
                ]
                parts.append(area(points, floor, f"busy {kind}"))
        parts.append(line(LEFT, floor, WIDTH - RIGHT, floor, "axis"))
        parts += spans(run, region.name, scale, floor - BUSY - 5)
        y = floor + REGION_GAP
    return parts, y - REGION_GAP


def spans(run: Run, region: str, scale: Scale, y: float) -> list[str]:
    """Lines above a region's rows: its outages, and when its breaker was open."""
    down = next(each.outage for each in run.scenario.regions if each.name == region)
    parts = [
        span(f"{region} is out of order", (begin, min(end, run.ended_at)), scale, y, "outage")
        for begin, end in down
        if begin < run.ended_at
    ]
    opened: float | None = None
    ends = [(switch.at, switch.opened) for switch in run.log.switches if switch.region == region]
    for at, opens in [*ends, (run.ended_at, False)]:
        if opens:
            opened = at
        elif opened is not None:
            said = f"the breaker of {region} is open"
            parts.append(span(said, (opened, at), scale, y + SPAN, "breaker"))
            opened = None
    return parts


def span(said: str, ends: tuple[float, float], scale: Scale, y: float, kind: str) -> str:
    """A thin line over a stretch of time."""
    begin, end = ends
    title = f"{said}: {begin:g} to {end:g} s"
    return rect(scale(begin), y, scale(end) - scale(begin), SPAN - 0.5, kind, title=title)


def shares_of(run: Run, region: str, columns: int, span: float) -> list[list[float]]:
    """Seconds spent on each kind of attempt in each column."""
    found = [[0.0] * len(KINDS) for _ in range(columns)]
    for attempt in run.log.attempts:
        if attempt.region != region:
            continue
        ended = run.ended_at if attempt.ending == "running" else attempt.ended
        kind = "again" if attempt.ending == "done" and attempt.is_retry else attempt.ending
        index = KINDS.index(kind)
        last = min(columns - 1, int(ended / span))
        for column in range(int(attempt.started / span), last + 1):
            begin = max(attempt.started, column * span)
            found[column][index] += max(0.0, min(ended, (column + 1) * span) - begin)
    return found
