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


def diagrams() -> dict[str, str]:
    """Each diagram in each ink, by the name of its file."""
    return {
        f"{name}{ending}.svg": drawn.replace("LINES", lines).replace("WORDS", words)
        for name, drawn in (("life-of-a-job", life()), ("token", token()))
        for ending, (lines, words) in INKS.items()
    }


if __name__ == "__main__":
    for name, drawn in diagrams().items():
        (FOLDER / name).write_text(drawn)
