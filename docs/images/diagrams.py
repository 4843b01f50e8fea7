"""Draws the diagrams of docs/concepts, each for light pages and for dark ones: `make charts`.

The site shows the one that fits: docs/extension/pictures.py. Only lines and words differ.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
GREEN, ORANGE, RED, GREY = "#1f7a4d", "#b4530a", "#a4262c", "#5b6674"
# The ending of the file's name: lines, words beside them.
INKS = {"": ("#7d8794", "#4d5763"), "-dark": ("#8d98a5", "#c6ced8")}
HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>{about}</title>
<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"
orient="auto-start-reverse"><path class="tip" d="M0 0 10 5 0 10z"/></marker></defs>
<style>
text {{ font: 15px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; text-anchor: middle }}
.box {{ fill: #fff; font-weight: 600 }}
.chip {{ fill: #fff; font-size: 13px; font-weight: 600 }}
.by {{ fill: WORDS; font-size: 13px }}
.way {{ fill: none; stroke: LINES; stroke-width: 2 }}
.track {{ stroke: LINES; opacity: .5 }}
.tip {{ fill: LINES }}
</style>
"""


def box(x: int, y: int, words: str, colour: str, width: int = 130) -> str:
    """A state, by the middle of its box."""
    left = x - width // 2
    return (
        f'<rect x="{left}" y="{y - 22}" width="{width}" height="44" rx="9" fill="{colour}"/>'
        f'<text class="box" x="{x}" y="{y + 5}">{words}</text>\n'
    )


def arrow(path: str, *said: tuple[int, int, str]) -> str:
    """A way from one to another, and what it is called, at which place."""
    way = f'<path class="way" d="{path}" marker-end="url(#arrow)"/>\n'
    return way + "".join(text(*each) for each in said)


def text(x: int, y: int, words: str) -> str:
    """Words beside an arrow."""
    return f'<text class="by" x="{x}" y="{y}">{words}</text>\n'


def life() -> str:
    """The states of a job."""
    parts = [
        HEAD.format(width=790, height=300, about="The states of a job, and what leads where"),
        arrow("M30 120H130", (76, 108, "enqueue")),
        arrow("M265 110H445", (355, 98, "claim: a lease, token + 1")),
        arrow("M450 132H270", (355, 153, "retry, snooze, returned")),
        arrow("M580 120H640", (610, 98, "accepted"), (610, 150, "result")),
        arrow("M515 142V224", (562, 190, "no retry left")),
        arrow("M450 250H240C205 250 200 220 200 148", (340, 278, "replay: all retries again")),
        arrow("M200 98C200 40 330 32 445 32", (290, 30, "cancel")),
        arrow("M515 98V58", (545, 82, "cancel")),
        box(200, 120, "pending", ORANGE),
        box(515, 120, "processing", GREEN),
        box(708, 120, "done", GREY),
        box(515, 250, "failed", RED),
        box(515, 32, "cancelled", GREY),
    ]
    return "".join(parts) + "</svg>\n"


def token() -> str:
    """A worker that is paused cannot finish what another one holds."""
    parts = [
        HEAD.format(width=780, height=300, about="Two workers, one job: the token decides"),
        '<path class="track" d="M160 50H770M160 150H770M160 250H770"/>\n',
        arrow("M200 145V60", (258, 108, "claims: token 7")),
        f'<rect x="290" y="36" width="250" height="28" rx="6" fill="{GREY}"/>\n',
        '<text class="box" x="415" y="55">paused, presumed dead</text>\n',
        arrow("M390 155V240", (488, 205, "15 s later, claims: token 8")),
        arrow("M590 55V140", (672, 105, "done, token 7: refused")),
        arrow("M620 245V160", (698, 205, "done, token 8: stored")),
        box(90, 50, "worker A", GREEN),
        box(90, 150, "the job", ORANGE),
        box(90, 250, "worker B", GREEN),
    ]
    return "".join(parts) + "</svg>\n"


def chip(x: int, y: int, words: str, colour: str, width: int = 34) -> str:
    """One job in a line, or one start among others."""
    return (
        f'<rect x="{x}" y="{y - 14}" width="{width}" height="28" rx="6" fill="{colour}"/>'
        f'<text class="chip" x="{x + width // 2}" y="{y + 5}">{words}</text>\n'
    )


def row(x: int, y: int, letters: str, step: int = 42) -> str:
    """A line of jobs: U is urgent, R a retry, F fresh, X failed or full, D done."""
    colours = {"U": RED, "R": ORANGE, "F": GREEN, "X": RED, "D": GREY}
    return "".join(
        chip(x + step * number, y, letter, colours[letter]) for number, letter in enumerate(letters)
    )


def lanes() -> str:
    """The lines that a worker looks at."""
    rows = (
        (50, "UU", "urgent"),
        (115, "RRR", "retries for any region"),
        (180, "R", "retries pinned to EU"),
        (245, "FFFFF", "fresh work, for EU and for any"),
    )
    parts = [HEAD.format(width=790, height=330, about="The lanes that a worker looks at")]
    for number, (y, letters, words) in enumerate(rows, start=1):
        parts += [
            text(130, y + 5, f"{number}. {words}"),
            row(250, y, letters),
            f'<path class="track" d="M245 {y + 22}H470"/>\n',
            arrow(f"M480 {y}C560 {y} 560 148 625 148"),
        ]
    parts += [
        box(700, 148, "worker in EU", GREY, 140),
        text(620, 250, "the policy of the queue says"),
        text(620, 268, "how retries and fresh work"),
        text(620, 286, "share the free slots"),
        text(360, 310, "a job that is not due yet is passed over"),
    ]
    return "".join(parts) + "</svg>\n"


def shares() -> str:
    """Ten starts of one worker while retries and fresh jobs wait."""
    rows = (
        ("retry-first", "RRRRRRRRRR", "fresh work waits until no retry is due"),
        ("balanced", "RFRFRFRFRF", "neither waits behind more than one"),
        ("weighted(retry=0.2)", "FFFFRFFFFR", "every fifth start is a retry"),
        ("fifo", "FFRFFFRRFF", "whoever was due first"),
    )
    about = "Which of ten starts go to retries (R) and to fresh jobs (F), by policy"
    parts = [HEAD.format(width=790, height=245, about=about)]
    for number, (name, starts, words) in enumerate(rows):
        y = 40 + 52 * number
        parts += [text(85, y + 5, name), row(175, y, starts, 36), text(662, y + 5, words)]
    parts.append(text(395, 236, "ten starts of one worker, while both kinds wait"))
    return "".join(parts) + "</svg>\n"


def lease() -> str:
    """A worker dies: its lease runs out, and another takes over."""
    about = "A worker beats every 5 s, dies, and loses its lease 15 s after its last beat"
    parts = [
        HEAD.format(width=790, height=255, about=about),
        '<path class="track" d="M150 50H780M150 190H780"/>\n',
        *(arrow(f"M{x} 50V22", (x, 15, "beat")) for x in (170, 270, 370)),
        f'<rect x="170" y="36" width="230" height="28" rx="6" fill="{GREEN}"/>\n',
        '<text class="chip" x="285" y="55">runs the job, token 7</text>\n',
        chip(402, 50, "killed", RED, 60),
        arrow("M370 84H670", (520, 102, "the lease lasts 15 s after the last beat")),
        arrow("M680 90V170", (552, 142, "reclaims: token 8, attempt 1 is lost")),
        chip(690, 190, "attempt 2", GREEN, 84),
        box(80, 50, "worker A", GREEN, 120),
        box(80, 190, "worker B", GREEN, 120),
        *(text(x, 240, f"{at} s") for x, at in ((170, 0), (270, 5), (370, 10), (670, 25))),
    ]
    return "".join(parts) + "</svg>\n"


def elsewhere() -> str:
    """Where the first retry of a job that failed in US may start."""
    parts = [
        HEAD.format(width=790, height=240, about="A first retry is left to other regions for 2 s"),
        '<path class="track" d="M130 45H780M130 115H780M130 185H780"/>\n',
        chip(150, 45, "attempt 1 fails", RED, 130),
        arrow("M285 45H395", (340, 36, "backoff")),
        *(
            f'<rect x="400" y="{y - 14}" width="370" height="28" rx="6" fill="{GREEN}"/>\n'
            f'<text class="chip" x="585" y="{y + 5}">may start it</text>\n'
            for y in (115, 185)
        ),
        f'<rect x="400" y="31" width="150" height="28" rx="6" fill="{GREY}"/>\n',
        '<text class="chip" x="475" y="50">leaves it alone</text>\n',
        f'<rect x="554" y="31" width="216" height="28" rx="6" fill="{GREEN}"/>\n',
        '<text class="chip" x="662" y="50">may start it too</text>\n',
        *(box(65, y, name, GREY, 100) for y, name in ((45, "US"), (115, "EU"), (185, "ASIA"))),
        *(text(x, 228, words) for x, words in ((400, "due"), (554, "2 s later: the grace"))),
    ]
    return "".join(parts) + "</svg>\n"


def breaker() -> str:
    """When a region's breaker opens and closes."""
    parts = [
        HEAD.format(width=790, height=250, about="The breaker of a queue in a region"),
        arrow("M190 75H535", (362, 50, "more than half of at least 20 attempts"),
              (362, 67, "in 60 s have failed")),
        arrow("M540 100C480 150 250 150 190 100", (362, 162, "three probes in a row go well")),
        arrow("M665 65C740 30 740 130 665 92", (735, 145, "a probe fails")),
        box(125, 82, "closed", GREEN),
        box(600, 82, "open", RED),
        text(125, 125, "takes all work"),
        text(600, 125, "one probe at a time,"),
        text(600, 142, "no global retry"),
        text(110, 212, "probes, while they fail:"),
        '<path class="track" d="M210 212H705"/>\n',
        *(chip(x, 212, words, ORANGE, 40) for x, words in (
            (220, "1 s"), (275, "1 s"), (330, "2 s"), (395, "4 s"), (470, "8 s"), (560, "16 s"),
            (665, "30 s"))),
        text(740, 217, "30 s …"),
    ]  # fmt: skip
    return "".join(parts) + "</svg>\n"


def limit() -> str:
    """Jobs without room wait, and hold up nobody else."""
    about = "Jobs that a limit has no room for wait beside the lane; the others pass"
    parts = [
        HEAD.format(width=790, height=210, about=about),
        text(80, 50, "the lane"),
        *(chip(150 + 74 * number, 45, words, colour, 66) for number, (words, colour) in enumerate((
            ("openai", ORANGE), ("mail", GREEN), ("openai", ORANGE), ("mail", GREEN)))),
        arrow("M455 45H600", (525, 36, "mail has room")),
        chip(605, 45, "mail", GREEN, 66),
        chip(677, 45, "mail", GREEN, 66),
        text(675, 80, "start now"),
        arrow("M180 66V125", (262, 105, "openai is full: 60 of 60")),
        chip(150, 148, "openai", ORANGE, 66),
        chip(224, 148, "openai", ORANGE, 66),
        arrow("M300 148H600", (450, 139, "in order, as soon as there is room")),
        chip(605, 148, "openai", ORANGE, 66),
        text(640, 183, "12 s later"),
    ]  # fmt: skip
    return "".join(parts) + "</svg>\n"


DRAWN = {
    "life-of-a-job": life,
    "token": token,
    "lanes": lanes,
    "shares": shares,
    "lease": lease,
    "retry-elsewhere": elsewhere,
    "breaker": breaker,
    "limit": limit,
}


def diagrams() -> dict[str, str]:
    """Each diagram in each ink, by the name of its file."""
    return {
        f"{name}{ending}.svg": draw().replace("LINES", lines).replace("WORDS", words)
        for name, draw in DRAWN.items()
        for ending, (lines, words) in INKS.items()
    }


if __name__ == "__main__":
    for name, drawn in diagrams().items():
        (FOLDER / name).write_text(drawn)
