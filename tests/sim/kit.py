"""Scenarios as tests write them, and what came of them."""

from typing import Any

from mulligan.sim import Run, load_scenario, read_scenario, simulate, with_policy

QUICK = """
[retry]
max_retries = 3
base = 2
factor = 2
max = 60
jitter = "none"
"""


def play(text: str, policy: str | None = None, **options: Any) -> Run:
    """Run the scenario that the text describes."""
    scenario = read_scenario("test.toml", text)
    return simulate(with_policy(scenario, policy) if policy else scenario, **options)


def play_builtin(name: str, policy: str | None = None) -> Run:
    """Run a built-in scenario."""
    scenario = load_scenario(name)
    return simulate(with_policy(scenario, policy) if policy else scenario)


def starts(run: Run, job: str | None = None) -> list[float]:
    """When attempts started, of one job or of all."""
    return [a.started for a in run.log.attempts if job in (None, a.job)]


def happened(run: Run, job: str) -> list[tuple[float, str]]:
    """The events of a job."""
    return [(event.t, event.event) for event in run.log.events if event.job == job]
