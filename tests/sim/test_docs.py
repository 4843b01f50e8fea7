"""What the pages about the simulator and fairness say is what comes out.

Where a table differs, the assertion shows the one to put there; `make charts` draws the pictures.
"""

import re
from pathlib import Path

from msgspec.structs import replace

from mulligan.cli.simulate import number, region_rows
from mulligan.core.limits import Limit
from mulligan.sim import builtin_names, load_scenario, read_scenario, simulate, summary
from tests.sim.kit import play_builtin

DOCS = Path(__file__).parents[2] / "docs/concepts"
PAGE = (DOCS / "simulator.md").read_text()
FAIRNESS = (DOCS / "fairness.md").read_text()
STORM = (
    "fifo", "retry-first", "weighted(retry=0.2)", "balanced", "capped(4)", "separate",
)  # fmt: skip
SMALL = '[regions.US]\n[[jobs]]\nid = "a"\nregion = "US"\nduration = 1\n'


def test_the_example_can_be_simulated():
    [example] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    scenario = read_scenario("example", example.replace("until = 600", "until = 20"))
    assert simulate(scenario).log.done > 0


def test_the_page_names_what_there_is():
    for key in summary(simulate(read_scenario("x", SMALL))):
        assert f"`{key}`" in PAGE
    for name in builtin_names():
        assert f"`{name}`" in PAGE or name.startswith("timeline-")


def between(page: str, mark: str) -> str:
    """What stands between two marks of a page."""
    return page.partition(f"<!-- {mark} -->\n")[2].partition(f"\n<!-- /{mark} -->")[0]


def test_the_storm_comes_out_as_the_table_says():
    rows = []
    for policy in STORM:
        found = summary(play_builtin("retry-storm", policy))
        waits = [
            f"{found['wait'][kind][mark]:.1f}"
            for kind in ("fresh", "retry")
            for mark in ("p50", "p99", "max")
        ]
        cells = [f"`{policy}`", *waits, found["largest_retry_backlog"], found["failed"]]
        rows.append(f"| {' | '.join(map(str, cells))} |")
    assert between(FAIRNESS, "storm").splitlines()[2:] == rows


def test_the_outage_comes_out_as_the_page_says():
    found = summary(play_builtin("regional-outage"))
    said = dict(region_rows("US", [found]))
    order = ("failures, of attempts", "breaker opened, s", "last retry failed in its outage, s",
             "breaker closed, s")  # fmt: skip
    rows = [f"| US: {name} | {said[f'US: {name}']} |" for name in order]
    assert between(PAGE, "outage") == "\n".join(["| | |", "|---|---|", *rows])
    us = found["regions"]["US"]
    [outage], [breaker] = us["outages"], us["breaker"]
    assert f"From {outage['last_failed_retry'] - outage['begin']:.1f} s after the outage" in PAGE
    assert f"{breaker['closed'] - outage['end']:.1f} s after the outage ended" in PAGE
    assert not found["failed"] + found["unfinished"]
    assert f"gone {found['makespan'] - breaker['closed']:.0f} s later" in PAGE


def test_the_black_hole_comes_out_as_the_table_says():
    hole = load_scenario("black-hole")
    found = [summary(simulate(replace(hole, breaker=on))) for on in (True, False)]
    rows = {
        "dead letters": [each["failed"] for each in found],
        "attempts that failed in US": [each["regions"]["US"]["failures"] for each in found],
        "attempts in all": [each["attempts"] for each in found],
    }
    shown = [f"| {name} | {on} | {off} |" for name, (on, off) in rows.items()]
    assert between(FAIRNESS, "black-hole").splitlines()[2:] == shown
    assert rows["dead letters"][0] == 0


def test_the_provider_comes_out_as_the_table_says():
    scenario = load_scenario("provider-429")
    below = (("openai", Limit(rate=57, per=60)),)
    variants = [scenario, replace(scenario, limited=False), replace(scenario, limits=below)]
    found = [summary(simulate(each)) for each in variants]
    calls = [each["providers"]["openai"] for each in found]
    rows = {
        "calls refused": [each["refused"] for each in calls],
        "calls in all": [each["calls"] for each in calls],
        "until all is done, s": [number(each["makespan"]) for each in found],
    }
    shown = [f"| {name} | {' | '.join(map(str, cells))} |" for name, cells in rows.items()]
    assert between(PAGE, "provider").splitlines()[2:] == shown
    assert rows["calls refused"][2] == 0
    assert [each["done"] for each in found] == [600] * 3


def test_the_flood_comes_out_as_the_table_says():
    flood = load_scenario("noisy-tenant")
    found = [summary(simulate(replace(flood, fair=fair)))["keys"] for fair in (True, False)]
    rows = {
        "others waited, median, s": [each["others"]["wait"]["p50"] for each in found],
        "others waited, longest, s": [each["others"]["wait"]["max"] for each in found],
        "the flood waited, longest, s": [each["busiest"]["wait"]["max"] for each in found],
    }
    shown = [f"| {name} | {on} | {off} |" for name, (on, off) in rows.items()]
    assert between(PAGE, "noisy").splitlines()[2:] == shown
    assert (found[0]["others"]["keys"], found[0]["busiest"]["jobs"]) == (50, 10_000)
