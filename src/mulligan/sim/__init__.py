"""The simulator: plays a scenario with the real engine on a virtual clock."""

from mulligan.sim.builtin import builtin_names, builtin_titles, load_scenario
from mulligan.sim.chart import chart, page
from mulligan.sim.png import png
from mulligan.sim.policies import with_policy
from mulligan.sim.run import Run, simulate
from mulligan.sim.scenario import Scenario
from mulligan.sim.scenario_file import read_scenario
from mulligan.sim.summary import summary

__all__ = [
    "Run",
    "Scenario",
    "builtin_names",
    "builtin_titles",
    "chart",
    "load_scenario",
    "page",
    "png",
    "read_scenario",
    "simulate",
    "summary",
    "with_policy",
]
