"""The example in docs/simulator.md is a scenario, and the page names every key of a summary."""

import re
from pathlib import Path

from mulligan.sim import builtin_names, read_scenario, simulate, summary

PAGE = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text()


def test_the_example_can_be_simulated():
    [example] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    scenario = read_scenario("example", example.replace("until = 600", "until = 20"))
    assert simulate(scenario).log.done > 0


def test_the_page_names_what_there_is():
    for key in summary(simulate(read_scenario("x", SMALL))):
        assert f"`{key}`" in PAGE
    for name in builtin_names():
        assert f"`{name}`" in PAGE or name.startswith("timeline-")


SMALL = '[regions.US]\n[[jobs]]\nid = "a"\nregion = "US"\nduration = 1\n'
