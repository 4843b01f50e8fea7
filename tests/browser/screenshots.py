"""Takes the pictures of docs/howto/dashboard.md: `python -m tests.browser.screenshots [FOLDER]`."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from playwright.sync_api import expect

from mulligan.core.fleets import Exit, FleetState, KindState, SlotState, note_key
from tests.browser.apps import report
from tests.browser.chromium import browser
from tests.browser.site import Site
from tests.browser.watched_page import Watched
from tests.databases import _debian

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FloatRect, ViewportSize

    from mulligan.stores.contract import Store

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "images"
FONT = Path("/usr/share/fonts/opentype/inter")
# The overview first: its lines show the time since it was opened.
PAGES = {
    "overview": "",
    "queue": "queues/questions",
    "task": "tasks/ask",
    "jobs": "jobs?queue=questions&text=did%20not%20answer",
    "job": "jobs/A-q1",
    "failure": "jobs/broken",
    "dead": "dead",
    "delayed": "delayed",
    "workers": "workers",
    "worker": "workers/{worker}",
    "enqueue": "enqueue",
}
SLOTS = {"US": 4, "EU": 2, "ASIA": 1}
WIDE: ViewportSize = {"width": 1280, "height": 860}
NARROW: ViewportSize = {"width": 360, "height": 780}
WATCHED_SECONDS = 12
# whoever takes the pictures: tracebacks show one folder
HIDE_FOLDER = """([folder, shown]) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode())
    texts.currentNode.data = texts.currentNode.data.replaceAll(folder, shown);
}"""


def main() -> None:
    """Fill a site with work, look at it, and keep what is seen."""
    folder = Path(sys.argv[1]) if sys.argv[1:] else FOLDER
    if not FONT.exists():
        _debian.install("fonts-inter")
    with (
        tempfile.TemporaryDirectory() as home,
        browser() as chromium,
        Site(f"sqlite:///{home}/jobs.db", app=True) as site,
    ):
        for region, concurrency in SLOTS.items():
            site.start_worker(region, concurrency)
        prepare(site)
        take(chromium, site, folder)


def prepare(site: Site) -> None:
    """One job that has seen three regions, then more work than the workers can do."""
    first: dict[str, Any] = {"task": "ask", "id": "A-q1", "region": "US"}
    first["kwargs"] = {"question": "What is a mulligan?", "seconds": 0.8, "failures": 2}
    while len(site.get("/api/regions")["regions"]) < len(SLOTS):
        time.sleep(0.1)
    site.post("/api/jobs", first)
    while site.get("/api/jobs/A-q1")["status"] not in ("done", "failed"):
        time.sleep(0.1)
    chance = random.Random(7)
    site.post("/api/jobs", [question(chance, number) for number in range(500)])
    site.post("/api/jobs", [later(chance) for _ in range(300)])
    site.post("/api/jobs", [charge(chance, number) for number in range(18)])
    broken = {"task": "parse", "args": ['{"name": "Ada'], "region": "EU", "id": "broken"}
    site.post("/api/jobs", broken)
    site.on_store(more)


def question(chance: random.Random, number: int) -> dict[str, Any]:
    """A question; those in the US often fail at first."""
    region = chance.choices(("US", "EU", "ASIA"), (6, 3, 1))[0]
    return {
        "task": "ask",
        "id": f"{chance.choice('ABC')}-q{number + 2}",
        "region": region,
        "kwargs": {
            "question": f"Is number {number} fair?",
            "seconds": round(chance.uniform(0.2, 0.7), 2),
            "failures": int(region == "US" and chance.random() < 0.5),
        },
    }


def later(chance: random.Random) -> dict[str, Any]:
    """A page to read in the hours to come."""
    delay = chance.expovariate(1 / 30_000) + 60
    return {"task": "read", "args": ["a page"], "region": "EU", "delay": delay}


def charge(chance: random.Random, number: int) -> dict[str, Any]:
    """A charge that fails for good."""
    customer = f"C-{1000 + number}" if number % 3 else f"account {number} without an owner"
    return {"task": "charge", "region": chance.choice(("US", "EU")), "args": [customer]}


async def more(store: Store) -> None:
    """A chain, and a fleet that tells of itself."""
    await store.enqueue([report.using(id="report-7", region="EU").call("retries").job])
    now = (await store.stats()).now
    died = Exit("US-2", 4711, now - 95, "killed by signal 9 after 12 min", ("asking q-17 …",))
    slots = tuple(SlotState(f"US-{n}", "running", 4700 + n, 600.0 * n) for n in (1, 2, 3))
    us = KindState(
        3, "182 jobs wait, 60 for each worker", 3, 0, 0, 0, 182, 4.2, None, slots, (died,)
    )
    eu = KindState(
        2,
        "72 jobs wait",
        2,
        0,
        0,
        0,
        72,
        2.8,
        None,
        (SlotState("EU-1", "running", 4720, 300.0),),
        (),
    )
    fleet = FleetState("asking", "host-1", 4690, now, now - 1900, "running", {"US": us, "EU": eu})
    key = note_key("host-1", "asking")
    await store.note(key, msgspec.json.encode(fleet), 3600.0)


def take(chromium: Browser, site: Site, folder: Path) -> None:
    """Every page, light and dark, and the first one on a small screen."""
    for theme in ("light", "dark"):
        context = chromium.new_context(viewport=WIDE, color_scheme=theme)
        page = Watched(context.new_page())
        for name, path in PAGES.items():
            page.open(site, path.format(worker=busiest(site)))
            if name == "overview":
                expect(page.page.locator("#link")).to_have_text("live")
                page.page.wait_for_timeout(WATCHED_SECONDS * 1000)
                expect(page.tile("Global retries")).not_to_have_text("0", timeout=60_000)
            if name == "dead":
                page.rows().get_by_role("checkbox").first.check()
            page.page.evaluate(HIDE_FOLDER, [str(ROOT), "/srv/shop"])
            page.page.screenshot(path=folder / f"dashboard-{name}-{theme}.png", clip=shown(page))
        if theme == "dark":
            page.page.set_viewport_size(NARROW)
            page.open(site)
            page.page.screenshot(path=folder / "dashboard-phone-dark.png")
        context.close()


def busiest(site: Site) -> str:
    """The worker that runs the most jobs."""
    workers = [each for each in site.get("/api/workers")["workers"] if each["about"]]
    return str(max(workers, key=lambda each: each["running"])["id"])


def shown(page: Watched) -> FloatRect:
    """What is on the screen, without the empty part below a short page."""
    height = page.page.evaluate("document.body.getBoundingClientRect().height")
    return {"x": 0, "y": 0, "width": WIDE["width"], "height": min(height, WIDE["height"])}


if __name__ == "__main__":
    main()
